import { describe, expect, test } from 'vitest'
import type { CounterSeries } from './counters'
import { dropIndex, GUTTER, GUTTERS, gutterOf, layoutTracks, ROW, rowAt, rowTop, tracksOf } from './layout'
import type { Lane } from './model'

const lane = (id: string, isDevice: boolean, rows = 1): Lane => ({
  id,
  title: id,
  subtitle: '',
  isDevice,
  rows,
  group: 0,
})
const counter = (key: string, device: string | null): CounterSeries => ({
  key,
  title: key,
  subtitle: '',
  device,
  say: String,
  mean: [],
  low: [],
  high: [],
  min: 0,
  max: 1,
  bottom: 0,
  top: 1,
  color: 'kernel',
})

const LANES = [lane('0/7/work', true), lane('0/20/work', true), lane('10/7/work', true), lane('1/2/calls', false, 5)]
const ids = (counters: CounterSeries[]) => tracksOf(LANES, counters).map((track) => track.id)

describe('tracks', () => {
  test('a chart stands before the first lane of its device, one of none before the first thread', () => {
    expect(ids([counter('host', null), counter('used', '10'), counter('busy', '0')])).toEqual([
      'counter/busy',
      '0/7/work',
      '0/20/work',
      'counter/used',
      '10/7/work',
      'counter/host',
      '1/2/calls',
    ])
  })

  test('a chart of a device without a lane is not lost, and none stands twice', () => {
    expect(ids([counter('gone', '1')])).toEqual([...LANES.map(({ id }) => id), 'counter/gone'])
  })

  test('a track knows the number of its lane or of its chart', () => {
    const tracks = tracksOf(LANES, [counter('busy', '0')])
    expect(tracks[0]).toMatchObject({ kind: 'counter', counter: 0 })
    expect(tracks[4]).toMatchObject({ kind: 'lane', lane: 3, rows: 5 })
  })
})

describe('places', () => {
  const tracks = tracksOf(LANES, [counter('host', null)])
  const order = [4, 0, 1, 2, 3]

  test('pinned tracks and the others are stacked each from their own top', () => {
    const { pinned, rest, fixed, content, lanes } = layoutTracks(tracks, order, 1, new Set(), 500)
    expect(pinned.map(({ track, top }) => [track.id, top])).toEqual([['1/2/calls', 0]])
    expect(fixed).toBe(pinned[0].height)
    expect(fixed).toBeGreaterThanOrEqual(5 * ROW)
    expect(rest.map(({ top }) => top)).toEqual([0, 29, 58, 87])
    expect(content).toBe(87 + rest[3].height)
    expect(lanes.get(3)?.pinned).toBe(true)
    expect(lanes.get(0)).toEqual({ placed: rest[0], pinned: false })
  })

  test('of a collapsed lane one row is left, of a collapsed chart its title', () => {
    const { pinned, rest } = layoutTracks(tracks, order, 1, new Set(['1/2/calls', 'counter/host']), 500)
    expect([pinned[0].rows, pinned[0].small]).toEqual([1, true])
    expect([rest[3].rows, rest[3].height]).toEqual([0, pinned[0].height])
  })

  test('pinned tracks that leave no room for others scroll with them, in their order', () => {
    const { pinned, rest, fixed } = layoutTracks(tracks, [0, 1, 4, 2, 3], 4, new Set(), 80)
    expect(pinned.map(({ track }) => track.id)).toEqual(['0/7/work', '0/20/work'])
    expect(fixed).toBe(58)
    expect(rest.map(({ track, top }) => [track.id, top])).toEqual([
      ['1/2/calls', 0],
      ['10/7/work', 97],
      ['counter/host', 126],
    ])
  })

  test('what the filter left out has no place', () => {
    expect(layoutTracks(tracks, [0, 1], 0, new Set(), 500).lanes.has(3)).toBe(false)
  })

  test('each pixel of a row leads to it, also in a collapsed lane', () => {
    for (const collapsed of [new Set<string>(), new Set(['1/2/calls'])]) {
      const placed = layoutTracks(tracks, order, 1, collapsed, 500).pinned[0]
      for (let row = 0; row < placed.rows; row++) {
        expect(rowAt(placed, rowTop(placed, row))).toBe(row)
        expect(rowAt(placed, rowTop(placed, row) + ROW - 1)).toBe(row)
      }
      expect(rowAt(placed, placed.top)).toBe(0)
      expect(rowAt(placed, placed.top + placed.height)).toBe(placed.rows - 1)
    }
  })
})

describe('names', () => {
  test('the column shrinks with the canvas: about 236, 120 and less', () => {
    expect(gutterOf(0, 1225)).toBe(GUTTER)
    expect(gutterOf(0, 910)).toBeGreaterThanOrEqual(115)
    expect(gutterOf(0, 910)).toBeLessThanOrEqual(130)
    expect(gutterOf(0, 640)).toBeLessThan(90)
    expect(gutterOf(0, 200)).toBe(GUTTERS.narrowest)
  })

  test('a width that somebody chose stays, but at most half of the canvas', () => {
    expect(gutterOf(300, 1225)).toBe(300)
    expect(gutterOf(300, 400)).toBe(200)
  })

  test('a dragged track is dropped before the first one whose middle is below the pointer', () => {
    const placed = [0, 40, 80].map((top) => ({ top, height: 40 }))
    expect([-5, 19, 21, 61, 99, 500].map((y) => dropIndex(placed, y))).toEqual([0, 0, 1, 2, 2, 3])
  })
})
