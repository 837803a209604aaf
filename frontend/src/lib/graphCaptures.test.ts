import { expect, it } from 'vitest'
import type { CaptureInfo, Catalog, Profile } from '../api/payloads'
import { captureChoices, captureState } from './graphCaptures'

const span = (id: string, more = {}) => ({ id, model: 'trace', state: 'found', size_bytes: 1, ...more })
const run = (name: string, ...spans: object[]) => ({ name, workers: [{ name: 'w', spans }] })
const catalog = {
  runs: [
    run('run', span('1')),
    run('run/capture_traces', span('1'), span('2', { problem: { what: 'It is damaged.' } })),
    run('other', span('1'), span('2', { model: 'snapshot' })),
  ],
} as unknown as Catalog
const profile = (capture: Partial<CaptureInfo>) =>
  ({
    run: 'run',
    worker: 'w',
    span: '1',
    capture: { names: [], how: 'none', beside: [], ...capture },
  }) as unknown as Profile
const beside = ['run/capture_traces/w/1', 'run/capture_traces/w/2']

it('says what was found, and offers all other traces', () => {
  const choices = captureChoices(catalog, profile({ names: [beside[0]], how: 'beside', beside: [beside[0]] }), '')
  expect(choices.map(({ value, label }) => [value, label])).toEqual([
    ['', 'capture_traces/w/1'],
    ['none', 'none'],
    [beside[0], 'capture_traces/w/1'],
    [beside[1], 'capture_traces/w/2'],
    ['other/w/1', 'other/w/1'],
  ])
  expect(choices[0].note).toBe('found next to the trace')
  expect(choices[3]).toMatchObject({ tone: 'bad', hint: 'It is damaged.' })
})

it('says that several lie beside it and none is taken', () => {
  const [first] = captureChoices(catalog, profile({ beside }), '')
  expect([first.label, first.note]).toEqual(['none', '2 captures next to the trace: choose one'])
  const named = captureChoices(catalog, profile({ names: beside, how: 'named', beside }), 'run/capture_traces')
  expect(named.map(({ value }) => value).slice(0, 3)).toEqual(['', 'none', 'run/capture_traces'])
})

it('says that the trace holds the capture itself', () => {
  const [first] = captureChoices(catalog, profile({ own: true }), '')
  expect(first.label).toBe('in this trace')
  expect(captureChoices(catalog, profile({ own: true, names: [beside[0]], how: 'beside', beside }), '')[0].label).toBe(
    'capture_traces/w/1',
  )
})

it('changes when a capture does', () => {
  expect(captureState(catalog, [beside[0]])).toBe('run/capture_traces/w/1 found 1')
  expect(captureState(catalog, [])).toBe('none')
})
