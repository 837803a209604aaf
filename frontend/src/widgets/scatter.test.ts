import { expect, it } from 'vitest'
import type { Metric, Scatter } from '../api/payloads'
import { scalesOf, scatterOption, scatterText } from './scatter'

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
    { title: 'Decode', category: 'mode_decode', label: ['1', '2'], x: [8, 16], y: [2_000_000, 3_000_000] },
    { title: '<b>', category: 'mode_prefill', label: ['3'], x: [1], y: [9_000_000] },
  ],
  table: 'serving_steps',
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
