import { expect, it } from 'vitest'
import type { Series } from '../api/payloads'
import { partAt } from './chartOption'

const metric = (key: string) => ({ key, title: key, unit: 'ns' as const, definition: '', window: '' })
const series: Series = {
  kind: 'series',
  sql: '',
  name: 'steps',
  title: 'Steps',
  subtitle: '',
  x_metric: metric('step'),
  x: ['1', '2'],
  lines: [
    { metric: metric('kernel_ns'), category: 'kernel', values: [60, 0] },
    { metric: metric('runtime_ns'), category: 'runtime', values: [30, null] },
    { metric: metric('cpu_ns'), category: 'cpu', values: [10, 5] },
  ],
  style: 'stacked_bars',
}

it('tells which part of a bar was hit', () => {
  expect([0, 59.9, 60, 89, 99, 100].map((value) => partAt(series, 0, value))).toEqual([
    'kernel',
    'kernel',
    'runtime',
    'runtime',
    'cpu',
    null,
  ])
  expect([partAt(series, 1, 0), partAt(series, 1, 5), partAt(series, 0, -1)]).toEqual(['cpu', null, null])
  expect(partAt({ ...series, style: 'lines' }, 0, 10)).toBeNull()
})
