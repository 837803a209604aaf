import { expect, it } from 'vitest'
import type { Metric, Series } from '../api/payloads'
import { axisScale, type CurveMarks, curveOption, cutSeries, gapsOf, indexAt, visibleBands } from './curveOption'

const metric = (key: string, unit: Metric['unit']): Metric => ({ key, title: key, unit, definition: '', window: '' })
const series: Series = {
  kind: 'series',
  sql: '',
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

it('finds the value that holds at a time', () => {
  const x = [0, 10, 10, 20]
  expect([-5, 0, 9.9, 10, 15, 20, 99].map((at) => indexAt(x, at))).toEqual([0, 0, 0, 2, 2, 3, 3])
  expect(indexAt([], 3)).toBe(0)
})

it('cuts bands to the window and names only those with room', () => {
  const bands = [
    { label: 'Step 1', start: 0, end: 100 },
    { label: 'Step 2', start: 100, end: 101 },
    { label: 'Step 3', start: 500, end: 600 },
  ]
  expect(visibleBands(bands, [50, 250])).toEqual([
    { label: 'Step 1', start: 50, end: 100 },
    { label: '', start: 100, end: 101 },
  ])
})

it('finds where nothing is counted', () => {
  const metric = { key: 'a', title: '', unit: 'ns' as const, definition: '', window: '' }
  const values = [null, null, 7, 8, null, null, 9, null]
  const lines = [{ metric, category: 'kernel', values }]
  const x = [0, 10, 10, 20, 20, 40, 40, 50]
  const series = {
    kind: 'series' as const,
    sql: '',
    name: '',
    title: '',
    subtitle: '',
    x_metric: metric,
    x,
    lines,
    style: 'lines' as const,
  }
  expect(gapsOf(series).map(({ start, end }) => [start, end])).toEqual([
    [0, 10],
    [20, 40],
  ])
  expect(gapsOf({ ...series, lines: [] })).toEqual([])
  const other = { ...series.lines[0], values: series.x.map(() => 1) }
  expect(gapsOf({ ...series, lines: [...series.lines, other] })).toEqual([])
})

it('counts the axis in the unit of its highest point', () => {
  const metric = { key: 'a', title: '', unit: 'bytes' as const, definition: '', window: '' }
  const line = { metric, category: 'kernel', values: [4, null, 57_000 * 1024] }
  const series = { kind: 'series' as const, sql: '', name: '', title: '', subtitle: '', x_metric: metric, x: [0, 1, 2] }
  expect(axisScale({ ...series, lines: [line], style: 'lines' }).symbol).toBe('MiB')
  expect(axisScale({ ...series, lines: [], style: 'lines' }).symbol).toBe('')
})

it('cuts a series to a part of it, whose ends have the values that hold there', () => {
  const metric = { key: 'a', title: '', unit: 'ns' as const, definition: '', window: '' }
  const series = {
    kind: 'series' as const,
    sql: '',
    name: '',
    title: '',
    subtitle: '',
    x_metric: metric,
    x: [0, 10, 20, 30],
    lines: [{ metric, category: 'kernel', values: [1, 2, 3, 4] }],
    style: 'lines' as const,
  }
  const part = (start: number, end: number) => {
    const { x, lines } = cutSeries(series, start, end)
    return x.map((at, i) => [at, lines[0].values[i]])
  }
  expect(part(15, 25)).toEqual([
    [15, 2],
    [20, 3],
    [25, 3],
  ])
  expect(part(30, 40)).toEqual([
    [30, 4],
    [40, 4],
  ])
  expect(cutSeries({ ...series, x: [] }, 0, 1).x).toEqual([])
})
