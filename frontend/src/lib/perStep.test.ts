import { expect, test } from 'vitest'
import type { Metric, View } from '../api/payloads'
import { viewPerStep } from './perStep'

const metric = (key: string, window: string): Metric => ({ key, title: key, unit: 'ns', definition: '', window })
const TOTAL = metric('total_ns', 'sum over the selected steps, else the full trace')
const MEAN = metric('mean_ns', 'selected steps, else the full trace')
const columns = [TOTAL, MEAN].map((each) => ({ metric: each, hidden: false, share: false }))
const rows = [{ name: 'mm', total_ns: 30, mean_ns: 5 }]

test('sums become means per step; means, percentiles and texts stay', () => {
  const view = {
    id: 'kernels',
    kind: 'view',
    title: '',
    payloads: {
      kernels: { kind: 'table', columns, rows, totals: { total_ns: 60 }, extremes: { total_ns: [3, 30] } },
      calls: { kind: 'tree', columns, rows, parent: [-1] },
      summary: {
        kind: 'figures',
        figures: [
          { metric: TOTAL, value: 60, note: '' },
          { metric: MEAN, value: null },
        ],
      },
      answer: {
        kind: 'notices',
        notices: [{ rule: 'a', text: '{total_ns}{per_step}', figures: [{ metric: TOTAL, value: 60, note: '' }] }],
      },
      classes: { kind: 'breakdown', parts: [{ metric: TOTAL, value: 60 }], total: 60, start: 0 },
      mixed: { kind: 'breakdown', parts: [{ metric: MEAN, value: 60 }], total: 60, start: 0 },
    },
  } as unknown as View
  const { payloads } = viewPerStep(view, 3)
  expect(payloads).toMatchObject({
    kernels: {
      rows: [{ name: 'mm', total_ns: 10, mean_ns: 5 }],
      totals: { total_ns: 20 },
      extremes: { total_ns: [1, 10] },
    },
    calls: { rows: [{ total_ns: 10, mean_ns: 5 }] },
    summary: { figures: [{ value: 20 }, { value: null }] },
    answer: { notices: [{ text: '{total_ns} per step', figures: [{ value: 20 }] }] },
    classes: { parts: [{ value: 20 }], total: 20 },
    mixed: { parts: [{ value: 60 }], total: 60 },
  })
  expect(payloads.kernels).toHaveProperty(
    'columns.0.metric.window',
    'mean per step over the selected steps, else the full trace',
  )
})
