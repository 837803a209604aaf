import { expect, test } from 'vitest'
import type { Tree } from '../api/payloads'
import { barsByPhase, largestPhase, nestedShare, phaseMeasure } from './phases'

const metric = (key: string) => ({ key, title: key, unit: 'ns' as const, definition: '', window: '' })

function tree(...nodes: [number, number][]): Tree {
  return {
    kind: 'tree',
    name: 'tree',
    title: '',
    columns: [],
    parent: nodes.map(([parent]) => parent),
    rows: nodes.map(([parent, ns], i) => ({ phase: String(i), ns, phase_step_ratio: parent < 0 ? 1 : 0.5 })),
    label_column: 'phase',
    value_columns: ['ns'],
    total_nodes: nodes.length,
  }
}

function found(of: Tree, stepped: boolean, rows = of.rows) {
  const named = largestPhase(of, rows, 'ns', stepped)
  return named && { root: named.root, first: named.row.phase, inner: named.inner }
}

test('the sentence names a phase of the step, and where most of that lies', () => {
  const named = (...nodes: [number, number][]) => found(tree(...nodes), true)
  expect(named([-1, 100], [0, 30], [0, 60], [2, 59], [2, 1])).toEqual({ root: 0, first: '2', inner: 3 })
  expect(named([-1, 100], [0, 40], [0, 45], [2, 20])).toEqual({ root: 0, first: '2', inner: -1 })
  expect(named([-1, 100], [0, 19], [1, 19])).toEqual({ root: 0, first: '0', inner: -1 })
  expect(named([-1, 90], [-1, 10], [0, 9])).toEqual({ root: 0, first: '0', inner: -1 })
  expect(named([-1, 0])).toBeNull()
  expect(named()).toBeNull()
})

test('the step is no part of itself: the largest phase by CPU time is named', () => {
  const parts = tree([-1, 100], [0, 1], [0, 2])
  const rows = [
    { phase: '0', ns: 100, host_total_ns: 200 },
    { phase: '1', ns: 1, host_total_ns: 80 },
    { phase: '2', ns: 2, host_total_ns: 10 },
  ]
  expect(largestPhase(parts, rows, 'ns', true)).toMatchObject({ row: { phase: '1' }, key: 'host_total_ns', step: '0' })
})

test('a collective is no phase of the user', () => {
  const parts = tree([-1, 100], [0, 20], [-1, 500])
  parts.rows[2].phase = 'gloo:all_reduce'
  expect(found(parts, true)).toEqual({ root: 0, first: '1', inner: -1 })
  const alone = tree([-1, 100], [-1, 500])
  alone.rows[1].phase = 'nccl:all_reduce'
  expect(found(alone, true)).toEqual({ root: 0, first: '0', inner: -1 })
})

test('without steps the sentence names the largest of all, summed over its places', () => {
  expect(found(tree([-1, 100], [0, 60], [1, 40]), false)).toEqual({ root: 0, first: '0', inner: 1 })
  const twice = tree([-1, 70], [0, 60], [-1, 60])
  twice.rows[2].phase = '1'
  const rows = [
    { phase: '0', ns: 70 },
    { phase: '1', ns: 120 },
  ]
  expect(found(twice, false, rows)).toEqual({ root: 0, first: '1', inner: -1 })
})

test('a phase that is not open all through the steps is no step: it may be the largest', () => {
  const parts = tree([-1, 2], [-1, 7], [-1, 1])
  for (const row of parts.rows) row.phase_step_ratio = 0.2
  expect(found(parts, true)).toEqual({ root: 1, first: '1', inner: -1 })
})

test('the measure is the one that the table is sorted by, where the tree has it', () => {
  const both = { ...tree([-1, 1]), value_columns: ['device', 'host'] }
  expect(phaseMeasure(both, 'host')).toBe('host')
  expect(phaseMeasure(both, 'calls', 'host')).toBe('host')
  expect(phaseMeasure(both, undefined)).toBe('device')
})

test('a part lies in the phases inside', () => {
  expect(nestedShare(tree([-1, 100], [0, 10], [0, 20], [2, 20]), 0, 'ns')).toBe(0.3)
  expect(nestedShare(tree([-1, 100], [0, 90], [0, 20]), 0, 'ns')).toBe(1)
  expect(nestedShare(tree([-1, 0]), 0, 'ns')).toBe(0)
})

test('bars are found by the name of the phase', () => {
  const line = { metric: metric('forward'), category: 'phase', values: [1, null, 3] }
  const rest = {
    kind: 'series' as const,
    sql: '',
    name: '',
    title: '',
    subtitle: '',
    x_metric: metric('step'),
    x: ['1', '2', '3'],
  }
  expect(barsByPhase({ ...rest, lines: [line], style: 'stacked_bars' }).get('forward')).toEqual([1, 0, 3])
})
