import { describe, expect, it } from 'vitest'
import type { Catalog } from '../api/payloads'
import {
  allocationRange,
  companionCandidates,
  EXECUTION,
  ofWorker,
  overlapOf,
  rankOf,
  translateTime,
} from './companions'

const span = (id: string, model: string) => ({
  id,
  model,
  time_unix_ms: null,
  modified_unix_ms: null,
  files: [],
  format: '',
  size_bytes: 0,
  state: 'found' as const,
  fraction: 0,
  problem: null,
  key_figures: [],
  device: null,
  step_count: null,
  is_empty: false,
})

function catalog(workers: Record<string, string[]>): Catalog {
  const found = Object.entries(workers).map(([name, models]) => ({
    name,
    spans: models.map((model, i) => span(String(i + 1), model)),
  }))
  return {
    kind: 'catalog',
    logdir: '',
    scanning: false,
    scanned_files: 0,
    last_scan_unix_ms: null,
    runs: [{ name: 'r', workers: found, grouped_by: '', title: '', is_first: false, is_invented: false }],
    skipped: [],
    problems: [],
    perfetto_url: '',
    path_mappings: [],
    upload_limit_bytes: 0,
    first: null,
  }
}

const beside = (workers: Record<string, string[]>, worker: string, model = 'snapshot') =>
  companionCandidates(catalog(workers), { run: 'r', worker, span: '1' }, model).map(
    (one) => `${one.worker}/${one.span}`,
  )

describe('what lies beside a profile', () => {
  it('reads ranks of names', () => {
    expect(['rank12_memory_snapshot', 'snapshot_3', 'host_42.7', 'worker'].map(rankOf)).toEqual([12, 3, 42, null])
  })
  it('is the worker of that name, of that rank, or the only one', () => {
    expect(beside({ rank0: ['trace'], rank1: ['trace'], rank1_memory: ['snapshot'] }, 'rank1_memory')).toEqual([
      'rank1/1',
    ])
    expect(beside({ host_77: ['trace', 'trace'], dump: ['snapshot'] }, 'dump')).toEqual(['host_77/1', 'host_77/2'])
    expect(beside({ a: ['trace'], b: ['trace'], dump: ['snapshot'] }, 'dump')).toEqual([])
    expect(beside({ rank0: ['trace', 'snapshot'] }, 'rank0', 'trace')).toEqual(['rank0/2'])
    expect(beside({ rank0: ['trace'] }, 'rank0', 'numbers')).toEqual([])
    const workers = { host_77: ['trace'], 'host_77.et': [EXECUTION], 'host_78.et': [EXECUTION] }
    const there = companionCandidates(catalog(workers), { run: 'r', worker: 'host_77', span: '1' }, 'trace', EXECUTION)
    expect(there.map(({ worker }) => worker)).toEqual(['host_77.et'])
  })
})

describe('traces of a worker', () => {
  it('are those of its name alone', () => {
    const found = catalog({ 4100: ['trace', 'memory_flow'], 4111: ['trace'], 4122: ['memory_flow'] })
    expect(ofWorker(found, { run: 'r', worker: '4100' }, 'trace')).toEqual([{ run: 'r', worker: '4100', span: '1' }])
    expect(ofWorker(found, { run: 'r', worker: '4122' }, 'trace')).toEqual([])
    expect(ofWorker(found, { run: 'none', worker: '4100' }, 'trace')).toEqual([])
  })
})

describe('two clocks', () => {
  const one = { start_unix_ns: '1795194000000000100', length_ns: 1000 }
  const other = { start_unix_ns: '1795194000000000600', length_ns: 100 }
  it('overlap', () => {
    expect(overlapOf(one, other)).toBe(100)
    expect(overlapOf(one, { ...other, start_unix_ns: '1795194000000001100' })).toBe(0)
  })
  it('translate to the nanosecond', () => {
    expect(translateTime(750, one, other)).toBe(250)
    expect(translateTime(250, other, one)).toBe(750)
  })
  it('a stretch of a trace is whole microseconds of a snapshot', () => {
    const snapshot = { start_unix_ns: '1795194000000000000', length_ns: 100_000 }
    expect(allocationRange(2950, 4100, one, snapshot)).toEqual([3000, 4000])
    expect(allocationRange(2850, 4100, one, snapshot)).toEqual([2000, 4000])
  })
})
