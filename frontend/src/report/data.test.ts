import { expect, test } from 'vitest'
import type { Payload, Report, ReportEvents, ReportView, Table, View } from '../api/payloads'
import {
  columnsOf,
  evidenceOf,
  hasContent,
  isRecorded,
  openCommand,
  pagesOf,
  presentedView,
  sortedTable,
  spotOf,
  stepCount,
} from './data'

const metric = (key: string, window = '') => ({
  key,
  title: `Host ${key}`,
  unit: 'ns' as const,
  definition: '',
  window,
})
const table = (rows: Table['rows']) =>
  ({
    kind: 'table',
    name: 'operators',
    title: 'Operators',
    columns: [{ metric: metric('total_ns', 'sum over the selected steps'), hidden: false }],
    rows,
    totals: {},
    extremes: {},
    matched_rows: 9,
    name_column: 'name',
  }) as unknown as Table
const view = (id: string, payloads: View['payloads'] = {}) => ({ kind: 'view', id, payloads }) as unknown as View
const part = (id: string, page: string, has = true): ReportView =>
  ({ id, title: id, page, page_title: page, view: has ? view(id) : null, why: '', omitted: [] }) as ReportView

test('sums are per step, in the words of the page', () => {
  const shown = presentedView(view('operators', { operators: table([{ total_ns: 12 }]) }), 4).payloads
    .operators as Table
  expect(shown.rows).toEqual([{ total_ns: 3 }])
  expect(shown.columns[0].metric.title).toBe('CPU total_ns')
  const memory = presentedView(view('memory', { operators: table([{ total_ns: 12 }]) }), 4).payloads.operators as Table
  expect(memory.rows).toEqual([{ total_ns: 12 }])
})

test('selected steps are counted', () => {
  const profile = { steps: ['5', '6', '7', '8'].map((label) => ({ label })) } as unknown as Report['profile']
  expect(stepCount({ profile, steps: '' })).toBe(4)
  expect(stepCount({ profile, steps: '5,7-8' })).toBe(3)
})

test('views are grouped by page; a comparison is first; views that are missing have no page', () => {
  const pages = pagesOf([
    part('overview', 'overview'),
    part('idle', 'idle'),
    part('launches', 'idle'),
    part('memory', 'memory', false),
    part('diff', 'compare'),
  ])
  expect(pages.map(({ id, views }) => [id, views.length])).toEqual([
    ['compare', 1],
    ['overview', 1],
    ['idle', 2],
  ])
})

test('rows sort by number and by text, and those without a value are last', () => {
  const rows = [
    { n: 2, name: 'b10' },
    { n: null, name: '' },
    { n: 10, name: 'b9' },
    { n: -1, name: 'A' },
  ]
  const names = (key: string, descending: boolean) => sortedTable(table(rows), key, descending).rows.map((row) => row.n)
  expect(names('n', true)).toEqual([10, 2, -1, null])
  expect(names('n', false)).toEqual([-1, 2, 10, null])
  expect(names('name', false)).toEqual([-1, 10, 2, null])
  expect(rows[0].n).toBe(2)
})

test('evidence of a finding has its own count', () => {
  const found = evidenceOf(table([{ rule: 'a' }, { rule: 'b' }, { rule: 'a' }]), 'a')
  expect([found.rows.length, found.matched_rows]).toEqual([2, 2])
})

test('empty payloads are left out', () => {
  expect(hasContent(table([]))).toBe(false)
  expect(hasContent(table([{ total_ns: 1 }]))).toBe(true)
  expect(hasContent({ kind: 'notices', notices: [] } as unknown as Payload)).toBe(false)
  expect(hasContent({ kind: 'figures', figures: [{ value: null }, { value: 0 }] } as unknown as Payload)).toBe(true)
  expect(hasContent({ kind: 'bands' } as unknown as Payload)).toBe(false)
})

test('the file lists its content, and the command that opens the trace', () => {
  const report = {
    path: 'runs/a',
    timeline: null,
    views: [part('idle', 'idle'), part('memory', 'memory', false)],
  } as unknown as Report
  const link = (to: string) => ({ view: to, params: {}, text: '' })
  expect(['idle', 'memory', 'timeline', 'stacks'].map((to) => isRecorded(link(to), report))).toEqual([
    true,
    false,
    false,
    false,
  ])
  expect(openCommand(report)).toBe('torch-trace view runs/a')
  expect(openCommand({ ...report, path: '' })).toBe('torch-trace view PATH')
})

test('timeline columns are restored, and an event is found', () => {
  const events: ReportEvents = {
    lane: [0, 1],
    row: [0, 3],
    items: [2, 1],
    start_delta_ns: [100, 50, -20],
    dur_ns: [10, 20, 30],
    idle_ns: [],
    count: [],
    event: [7, 9, 8],
    category: [1, 1, 2],
    matrix: [],
    name: [0, 1, 0],
    names: ['a', 'b'],
    module: [],
    modules: [],
  }
  const columns = columnsOf(events)
  expect([...columns.start]).toEqual([100, 150, 130])
  expect([[...columns.lane], [...columns.row]]).toEqual([
    [0, 0, 1],
    [0, 0, 3],
  ])
  expect([[...columns.count], [...columns.idle], columns.modules]).toEqual([[1, 1, 1], [0, 0, 0], ['']])
  expect(spotOf(columns, 8)).toEqual({ lane: 1, row: 3, start: 130, end: 160 })
  expect(spotOf(columns, 1)).toBeNull()
})
