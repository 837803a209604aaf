import { expect, it } from 'vitest'
import type { Metric, Scatter } from '../api/payloads'
import { outsideText, scalesOf, scatterOption, scatterText } from './scatter'

const metric = (key: string, title: string, unit: Metric['unit']): Metric => ({
  key,
  title,
  unit,
  definition: '',
  window: '',
})
const scatter: Scatter = {
  kind: 'scatter',
  name: 'by_batch',
  title: 'Step time over batch',
  subtitle: '',
  x_metric: metric('batch', 'Batch', 'count'),
  y_metric: metric('served_step_ns', 'Step time', 'ns'),
  groups: [
    { title: 'Decode', category: 'mode_decode', label: ['1', '2'], x: [8, 16], y: [2_000_000, 3_000_000], share: [] },
    { title: '<b>', category: 'mode_prefill', label: ['3'], x: [1], y: [9_000_000], share: [] },
  ],
  table: 'serving_steps',
  is_log: false,
  limits: [],
  noun: 'Step',
}
const theme = { mute: '#111', line: '#222', panel: '#fff' } as Parameters<typeof scatterOption>[1]

it('draws each group in the units of the axes, with a shape of its own', () => {
  const { y } = scalesOf(scatter)
  expect(y.symbol).toBe('ms')
  const { series } = scatterOption(scatter, theme) as { series: { data: number[][]; symbol: string }[] }
  expect(series.map((each) => each.data)).toEqual([
    [
      [8, 2],
      [16, 3],
    ],
    [[1, 9]],
  ])
  expect(new Set(series.map((each) => each.symbol)).size).toBe(2)
})

it('says in words what it shows', () => {
  expect(scatterText(scatter)).toContain('Decode: 2 at Batch 8 to 16, Step time 2.00 ms to 3.00 ms')
})

it('says how many dots are not drawn', () => {
  const [decode] = scatter.groups
  const dots = (y: number[], share: number[]) => ({ ...scatter, groups: [{ ...decode, x: y.map(() => 1), y, share }] })
  // By hand: 0.005 + 0.005 of the drawn 0.5.
  expect(outsideText(dots([1e9, 1e-3, 1e-2], [0.5, 0.005, 0.005]), 'kernel time')).toBe(
    '2 dots below the axes are not drawn (2.0 % of the drawn kernel time).',
  )
  expect(outsideText(dots([1e9, 1e-3], [1, 0.01]))).toBe('1 dot below the axes is not drawn.')
  expect(outsideText(dots([1e9, 1e8], [1, 0.01]), 'kernel time')).toBe('')
})

it('draws limits as lines over logarithmic axes', () => {
  const limits = [{ title: '100 TFLOP/s', x: [1, 50, 100], y: [2, 100, 100] }]
  const groups = [{ ...scatter.groups[0], share: [1, 0.25] }]
  const { y } = scalesOf({ ...scatter, groups })
  const option = scatterOption({ ...scatter, groups, limits, is_log: true }, theme) as {
    xAxis: { type: string; axisLabel: { formatter: (value: number) => string } }
    series: { type: string; data: number[][]; symbolSize?: (value: unknown, at: { dataIndex: number }) => number }[]
  }
  expect(option.xAxis.type).toBe('log')
  expect([0.001, 0.05, 1000].map(option.xAxis.axisLabel.formatter)).toEqual(['0.001', '', '1,000'])
  // The title of a limit belongs to the point at which it becomes flat.
  expect(option.series.map(({ type }) => type)).toEqual(['scatter', 'line', 'scatter'])
  expect(option.series[2].data).toEqual([[50, 100 / y.factor]])
  expect(option.series[1].data[0][0]).toBe(1)
  const size = option.series[0].symbolSize
  expect(size?.(null, { dataIndex: 0 })).toBe(2 * (size?.(null, { dataIndex: 1 }) ?? 0))
})
