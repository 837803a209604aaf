import { expect, test } from 'vitest'
import { LIGHT } from '../surface'
import { type CounterSeries, type Counters, drawCounter, narrowTitle, rangeText, scaleOf, sliceAt } from './counters'

const series = (mean: (number | null)[]): CounterSeries => ({
  key: 'used',
  title: 'Used',
  subtitle: '',
  device: null,
  say: String,
  mean,
  low: mean,
  high: mean,
  min: 0,
  max: 10,
  bottom: 0,
  top: 10,
  color: 'kernel',
})
const counters = (...mean: (number | null)[]): Counters => ({ start: 100, end: 200, series: [series(mean)] })

test('a slice holds its beginning, not its end', () => {
  const four = counters(1, 2, 3, 4)
  expect([100, 124.9, 125, 199].map((time) => sliceAt(four, time))).toEqual([0, 0, 1, 3])
  expect([99, 200, 1e12].map((time) => sliceAt(four, time))).toEqual([-1, -1, -1])
})

test('no series, no slice', () => {
  expect(sliceAt({ start: 0, end: 100, series: [] }, 50)).toBe(-1)
})

/** The points of the paths that are filled. */
function drawn(given: Counters): [number, number][][] {
  const paths: [number, number][][] = []
  const add = (x: number, y: number) => paths[paths.length - 1].push([x, y])
  const context = { fillStyle: '', beginPath: () => paths.push([]), moveTo: add, lineTo: add, fill: () => {} }
  const box = { left: 0, right: 100, top: 0, bottom: 20 }
  drawCounter(context as unknown as CanvasRenderingContext2D, given, given.series[0], (time) => time - 100, box, LIGHT)
  return paths
}

test('what is not known leaves a hole, and a little is seen', () => {
  const [high, mean] = drawn(counters(10, null, 0.001, 0))
  expect(high).toEqual(mean)
  expect(mean).toEqual([
    [0, 20],
    [0, 0],
    [25, 0],
    [25, 20],
    [50, 20],
    [50, 19],
    [75, 19],
    [75, 20],
    [100, 20],
    [100, 20],
  ])
})

test('a series that never changes its lowest value draws nothing', () => {
  const flat = { ...counters(0, 0), series: [{ ...series([0, 0]), max: 0, top: 0 }] }
  expect(drawn(flat)).toEqual([])
})

test('what is less than 0 hangs from the line at 0', () => {
  const below = { ...series([-5, 5]), min: -10, ...scaleOf(-10, 10, false) }
  expect(drawn({ ...counters(), series: [below] })[1]).toEqual([
    [0, 10],
    [0, 15],
    [50, 15],
    [50, 5],
    [100, 5],
    [100, 10],
  ])
})

test('the text says the values, whatever the chart spans', () => {
  expect(scaleOf(0.2, 0.4, true)).toEqual({ bottom: 0, top: 1 })
  expect(scaleOf(200, 300, false)).toEqual({ bottom: 0, top: 300 })
  expect(scaleOf(-3, -1, true)).toEqual({ bottom: -3, top: 1 })
  const share = { ...series([]), min: 0.2, max: 0.4 }
  expect([rangeText(share, null), rangeText(share, 0.3)]).toEqual(['up to 0.4', '0.3 of up to 0.4'])
  const below = { ...share, min: -3, max: -1 }
  expect([rangeText(below, null), rangeText(below, -2)]).toEqual(['-3 to -1', '-2, -3 to -1'])
})

test.each([
  ['Launch queue depth', 'Queue depth'],
  ['Launch queue depth, stream 7', 'Queue depth, stream 7'],
  ['Memory, change', 'Memory'],
  ['Memory, reserved', 'Memory, reserved'],
])('%s is %s in a narrow column', (title, short) => expect(narrowTitle(title)).toBe(short))
