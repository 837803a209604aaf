import { expect, test } from 'vitest'
import { BAR } from './layout'
import { type Arrow, arrowAt, pathMarkOf, pathSpan, rowY, type Scene, topLevelGaps } from './scene'

const gap = (lane: number, start: number, end: number) => ({ lane, start, end, why: '', cause: '' })

test('a gap of the device inside a gap of its stream is drawn with it', () => {
  const gaps = [gap(1, 30, 50), gap(0, 10, 20), gap(1, 20, 90), gap(1, 90, 95), gap(0, 10, 20), gap(2, 30, 40)]
  expect(topLevelGaps(gaps).map(({ lane, start, end }) => [lane, start, end])).toEqual([
    [0, 10, 20],
    [1, 20, 90],
    [1, 90, 95],
    [2, 30, 40],
  ])
})

test('the arrow under the pointer is found along its curve, at rest as well as where it bends back', () => {
  const placed = { rows: 4, top: 0, height: 80, heading: 0 }
  const lanes = new Map([[0, { placed, pinned: true }]])
  const spot = (row: number, start: number) => ({ event: row, lane: 0, row, start, end: start + 5 })
  const arrow = (from: number, to: number): Arrow => ({
    from: spot(0, from),
    to: spot(3, to),
    kind: 'launch',
    name: 'x',
  })
  const scene = (...arrows: Arrow[]) =>
    ({
      gutter: 100,
      width: 600,
      scroll: 0,
      view: { start: 0, end: 500 },
      layout: { lanes, fixed: 0 },
      arrows,
    }) as unknown as Scene
  const forward = scene(arrow(100, 300))
  const ends = [0, 3].map((row) => (rowY(forward, 0, row) ?? 0) + BAR / 2)
  const middle = (ends[0] + ends[1]) / 2
  expect(arrowAt(forward, 200, ends[0])?.name).toBe('x')
  expect(arrowAt(forward, 300, middle)?.name).toBe('x')
  expect(arrowAt(forward, 200, middle)).toBeNull()
  expect(arrowAt(scene(), 300, middle)).toBeNull()
  expect(arrowAt(scene(arrow(300, 100)), 300, middle)?.name).toBe('x')
})

test('marks of the path end at the edges of the picture, and none is too narrow to see', () => {
  const scene = { gutter: 100, width: 600, view: { start: 1000, end: 1500 } }
  const span = (start: number, end: number) => pathSpan(scene, { start, end })
  expect(span(1100, 1200)).toEqual([200, 300])
  expect(span(0, 1010)).toEqual([100, 110])
  expect(span(1490, 9000)).toEqual([590, 600])
  expect(span(1100, 1100)).toEqual([200, 201.5])
  expect(span(0, 900)).toBeNull()
  expect(span(1600, 1700)).toBeNull()
})

test('a mark of the path has a row, or belongs to its whole track', () => {
  const row = { lane: 2, start_ns: 10, dur_ns: 5 }
  expect(pathMarkOf({ ...row, row: 0 })).toEqual({ lane: 2, row: 0, start: 10, end: 15 })
  expect(pathMarkOf({ ...row, row: null })).toEqual({ lane: 2, row: null, start: 10, end: 15 })
})
