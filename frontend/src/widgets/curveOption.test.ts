import { expect, it } from 'vitest'
import type { Metric, Series } from '../api/payloads'
import { type CurveMarks, curveOption } from './curveOption'

const metric = (key: string, unit: Metric['unit']): Metric => ({ key, title: key, unit, definition: '', window: '' })
const series: Series = {
  kind: 'series',
  name: 'curve',
  title: 'Memory over time',
  subtitle: 'cuda:0',
  x_metric: metric('moment_ns', 'ns'),
  x: [0, 100, 400],
  lines: [{ metric: metric('allocated_bytes', 'bytes'), category: 'kernel', values: [0, 1000, 600] }],
  style: 'lines',
}
const theme = { mark: '#e11d74', highEdge: '#d6455d' } as Parameters<typeof curveOption>[1]

function pointsOf(marks: Partial<CurveMarks>) {
  const option = curveOption(series, theme, { bands: [], peak: null, moment: null, ...marks })
  const [line] = option.series as { markPoint?: { data: { coord: number[]; label: { formatter: string } }[] } }[]
  return line.markPoint?.data.map(({ coord, label }) => [...coord, label.formatter])
}

it('marks failed requests below the curve, and names the first one', () => {
  const failures = [50, 200, 300, 900].map((x) => ({ x, label: `failed at ${x}` }))
  expect(pointsOf({ failures })).toEqual([
    [50, 0, 'failed at 50'],
    [200, 500, ''],
    [300, 500, ''],
  ])
})

it('marks the peak, and nothing where there is nothing', () => {
  expect(pointsOf({ peak: { x: 100, y: 1000, label: '1000 B' } })).toEqual([[100, 1000, '1000 B']])
  expect(pointsOf({})).toBeUndefined()
})
