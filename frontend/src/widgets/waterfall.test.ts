import { expect, it } from 'vitest'
import type { Breakdown, Interval } from '../api/payloads'
import { LIGHT } from '../canvas/surface'
import { TREND } from '../lib/tokens'
import { describeWaterfall, waterfallBars, waterfallOption, withoutTinyParts } from './waterfall'

const part = (title: string, value: number, interval: Interval | null = null) => ({
  category: 'cpu',
  link: null,
  value,
  interval,
  metric: { key: title, title, unit: 'ns' as const, definition: '', window: '' },
})
const PAYLOAD: Breakdown = {
  kind: 'breakdown',
  name: 'waterfall',
  title: 'Steps',
  subtitle: '',
  unit: 'ns',
  style: 'waterfall',
  start: 100e6,
  total: -30e6,
  interval: null,
  parts: [part('Kernel', 10e6), part('Data loader', -40e6), part('CPU', 0)],
}

it('leads from the baseline to the experiment without a gap', () => {
  const bars = waterfallBars(PAYLOAD)
  expect(bars.map((bar) => [bar.from, bar.to].map((ns) => ns / 1e6))).toEqual([
    [0, 100],
    [100, 110],
    [110, 70],
    [70, 70],
    [0, 70],
  ])
})

it('colours by direction and lets falling bars hang', () => {
  const { series } = waterfallOption(PAYLOAD, LIGHT) as {
    series: [unknown, { data: number[] }, { data: { value: number; itemStyle: { color: string } }[] }]
  }
  expect(series[1].data.map((ns) => ns / 1e6)).toEqual([0, 100, 70, 70, 0])
  expect(series[2].data.map((bar) => bar.itemStyle.color)).toEqual([
    LIGHT.base,
    TREND.slower,
    TREND.faster,
    TREND.same,
    LIGHT.exp,
  ])
})

it('greys what lies within noise', () => {
  const interval = { low: -2e6, high: 22e6 }
  const noisy = { ...PAYLOAD, parts: [part('Kernel', 10e6, interval), ...PAYLOAD.parts.slice(1)] }
  const { series } = waterfallOption(noisy, LIGHT) as { series: { data: { itemStyle?: { color: string } }[] }[] }
  expect(series[2].data[1].itemStyle?.color).toBe(TREND.same)
  expect(describeWaterfall(noisy)).toContain('Kernel +10.0 ms (within noise); Data loader -40.0 ms;')
})

it('says itself in words', () =>
  expect(describeWaterfall(PAYLOAD)).toBe(
    'Steps: Baseline 100 ms; Kernel +10.0 ms; Data loader -40.0 ms; CPU 0 ms; Experiment 70.0 ms.',
  ))

it('draws parts that barely changed as one bar, and changes below 1 % without a colour', () => {
  const parts = [part('Kernel', 0.9e6), part('Sync', 0.02e6), part('CPU', -20e6), part('Memset', -0.05e6)]
  const shown = withoutTinyParts({ ...PAYLOAD, total: -19.13e6, parts })
  expect(shown.parts.map(({ metric, value }) => [metric.title, value / 1e6])).toEqual([
    ['Kernel', 0.9],
    ['CPU', -20],
    ['2 others', -0.03],
  ])
  const { series } = waterfallOption(shown, LIGHT) as { series: { data: { itemStyle: { color: string } }[] }[] }
  expect(series[2].data.slice(1, 4).map((bar) => bar.itemStyle.color)).toEqual([TREND.same, TREND.faster, TREND.same])
})

it('names ten parts at most, and the smallest of more as one', () => {
  const parts = Array.from({ length: 14 }, (_, i) => part(`P${i}`, (i + 1) * 1e6))
  const shown = withoutTinyParts({ ...PAYLOAD, parts })
  expect(shown.parts.map(({ metric }) => metric.title)).toEqual([
    ...parts.slice(4).map(({ metric }) => metric.title),
    '4 others',
  ])
  expect(shown.parts[10].value).toBe(10e6)
})
