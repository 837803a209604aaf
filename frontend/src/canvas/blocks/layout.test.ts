import { describe, expect, it } from 'vitest'
import type { Bands } from '../../api/payloads'
import { DARK, LIGHT } from '../surface'
import { areasOf, type BlockColoring, BlockColors, pixelOf } from './colors'
import { adjacentBlock, blockAt, bytesBelow, indexOfBlock, paintTile } from './layout'
import { boundHeights, byteTicks, fullHeights, levelFor, tilesIn } from './scene'

/** Three columns: block 10 (2 bytes) in all, 11 (3 bytes) in the first two, 14 (1 byte) in the last; 1 byte of rest in the middle. */
const TILE: Bands = {
  kind: 'bands',
  name: 'bands',
  title: '',
  level: 0,
  levels: 1,
  tile: 0,
  width: 1,
  extent: 3,
  has_times: false,
  peak_bytes: 6,
  peak_event: 0,
  event: [-1, 0, 1],
  time_ns: [0, 0, 0],
  active_bytes: [5, 6, 3],
  rest_bytes: [0, 1, 0],
  block: [10, 11, 14],
  first: [0, 0, 2],
  end: [3, 2, 3],
  size_bytes: [2, 3, 1],
  begin: [-1, -1, 1],
  freed: [-1, 1, -1],
  life_ns: [-1, -1, -1],
  stack: [0, 1, 0],
  category: [0, 0, 0],
  stack_number: [4, 7],
  lines: ['a.py(1): f', 'b.py(2): g'],
  modules: ['m.py: A.forward', ''],
  categories: [''],
  hidden: 1,
  has_private_pools: false,
  envelopes: [],
  envelope: [],
}
const PAINTS = { ground: 0, rest: 9, envelope: 7, fill: (i: number) => i + 1, edge: (i: number) => 10 * (i + 1) }

function painted(height: number, heights = { low: 0, high: 6 }): number[][] {
  const pixels = new Uint32Array(3 * height)
  paintTile(TILE, pixels, height, heights, PAINTS)
  return Array.from({ length: height }, (_, row) => [...pixels.subarray(3 * row, 3 * row + 3)])
}

describe('the pixels of a tile', () => {
  it('stack the blocks of a column in their order, the rest on top', () => {
    expect(painted(6)).toEqual([
      [0, 9, 0],
      [2, 2, 0],
      [2, 2, 0],
      [2, 2, 3],
      [1, 1, 1],
      [1, 1, 1],
    ])
  })
  it('have an edge where a band is high enough', () => {
    // 12 rows: 2 a byte; the blocks of 2 and 3 bytes are 4 and 6 rows high.
    expect(painted(12).map((row) => row[0])).toEqual([0, 0, 20, 2, 2, 2, 2, 2, 10, 1, 1, 1])
  })
  it('show a part of the heights, cut at both ends', () => {
    expect(painted(2, { low: 1, high: 3 })).toEqual([
      [2, 2, 3],
      [1, 1, 1],
    ])
  })
  it('leave nothing out that is less than a pixel high: what is above stays in place', () => {
    expect(painted(2)).toEqual([
      [2, 2, 0],
      [1, 1, 1],
    ])
  })
})

/** The same with block 11 in a pool that never held more than 4 bytes, and that holds nothing at first. */
const POOLED: Bands = {
  ...TILE,
  first: [0, 1, 2],
  envelopes: [{ name: 'private', height_bytes: [0, 4, 4] }],
  envelope: [-1, 0, -1],
  end: [3, 2, 3],
}

describe('a private pool', () => {
  const pixels = new Uint32Array(3 * 7)
  paintTile(POOLED, pixels, 7, { low: 0, high: 7 }, PAINTS)
  it('lies below everything else, its blocks in it, and only grows', () => {
    const column = (c: number) => Array.from({ length: 7 }, (_, row) => pixels[3 * row + c])
    expect([0, 1, 2].map(column)).toEqual([
      [0, 0, 0, 0, 0, 1, 1],
      [9, 1, 1, 7, 2, 2, 2],
      [3, 1, 1, 7, 7, 7, 7],
    ])
  })
  it('is found where no block of it is', () => {
    expect([0, 2.5, 3, 4, 6, 7].map((at) => blockAt(POOLED, 1, at))).toEqual([
      ...[1, 1, POOLED.envelopes[0], 0, 'rest', null],
    ])
    expect([...bytesBelow(POOLED, 0)]).toEqual([0, 4, 4])
    expect([...bytesBelow(POOLED, 1)]).toEqual([0])
    expect([adjacentBlock(POOLED, 1, 1, 1), adjacentBlock(POOLED, 1, 0, -1), adjacentBlock(POOLED, 1, 0, 1)]).toEqual([
      0,
      1,
      null,
    ])
  })
})

describe('from a place to the block', () => {
  it('finds the block, the rest, and nothing', () => {
    expect([0, 1.9, 2, 4.9, 5].map((at) => blockAt(TILE, 0, at))).toEqual([0, 0, 1, 1, null])
    expect([5, 5.9, 6].map((at) => blockAt(TILE, 1, at))).toEqual(['rest', 'rest', null])
    expect([2.5, 3].map((at) => blockAt(TILE, 2, at))).toEqual([2, null])
  })
  it('knows the neighbours of a block, its place and what lies below it', () => {
    expect([adjacentBlock(TILE, 0, 0, 1), adjacentBlock(TILE, 2, 0, 1), adjacentBlock(TILE, 2, 0, -1)]).toEqual([
      1,
      2,
      null,
    ])
    expect([9, 10, 11, 12, 14, 15].map((row) => indexOfBlock(TILE, row))).toEqual([-1, 0, 1, -1, 2, -1])
    expect([...bytesBelow(TILE, 1)]).toEqual([2, 2])
    expect([...bytesBelow(TILE, 2)]).toEqual([2])
    expect([...bytesBelow(TILE, 0)]).toEqual([0, 0, 0])
  })
})

describe('what is asked for', () => {
  it('is the level whose columns are at least a pixel wide', () => {
    expect([0.01, 1, 1.01, 2, 700, 1e9].map((units) => levelFor(units, 12))).toEqual([0, 0, 1, 1, 10, 11])
  })
  it('is the tiles in sight, none beyond the end', () => {
    expect(tilesIn(0, { start: 500, end: 1024.5 }, 5000)).toEqual([0, 1, 2])
    expect(tilesIn(3, { start: -100, end: 1e9 }, 5000)).toEqual([0, 1])
    expect(tilesIn(40, { start: 0, end: 10 }, 5000)).toEqual([0])
  })
})

describe('heights', () => {
  it('stay within what there is', () => {
    const whole = fullHeights(1e6)
    expect(boundHeights({ low: -5e6, high: 5e6 }, 1e6)).toEqual(whole)
    expect(boundHeights({ low: 9e5, high: 1.4e6 }, 1e6)).toEqual({ low: whole.high - 5e5, high: whole.high })
    expect(boundHeights({ low: 5000, high: 5001 }, 1e6)).toEqual({ low: 5000, high: 9096 })
  })
  it('have round ticks in the unit of the axis', () => {
    expect(byteTicks({ low: 0, high: 1.1 * 2 ** 30 }, 2 ** 30, 6)).toEqual({
      ticks: [0, 0.2, 0.4, 0.6, 0.8, 1].map((one) => Math.round(one * 5) * 0.2 * 2 ** 30),
      step: 0.2,
    })
  })
})

describe('colours', () => {
  const colors = (by: BlockColoring, head = TILE) => new BlockColors(by, LIGHT, head)
  it('are one for a line, and shades of it for its stacks', () => {
    const tile = { ...TILE, lines: ['a.py(1): f', 'a.py(1): f'] }
    const [byStack, byLine] = [colors('stack', tile), colors('line', tile)]
    expect(byLine.cssOf(tile, 0)).toBe(byLine.cssOf(tile, 1))
    expect(byStack.cssOf(tile, 0)).not.toBe(byStack.cssOf(tile, 1))
    expect(areasOf(byLine, tile, 0, 3).map(({ label }) => label)).toEqual(['a.py(1): f', 'a.py(1): f'])
    expect(areasOf(colors('module'), TILE, 0, 3).map(({ label }) => label)).toEqual(['m.py: A.forward', '(no module)'])
    expect(areasOf(colors('category'), TILE, 0, 3)).toEqual([{ label: '(no category recorded)', area: 13, block: 2 }])
  })
  it('differ for as many lines as there are hues, wherever they come', () => {
    const lines = Array.from({ length: 12 }, (_, i) => `f.py(${i}): f`)
    const many = { ...TILE, block: lines.map((_, i) => i), first: lines.map(() => 0), end: lines.map(() => 3) }
    const tile = { ...many, size_bytes: lines.map((_, i) => i + 1), stack: lines.map((_, i) => i), lines }
    const found = colors('line', { ...tile, stack_number: tile.stack })
    expect(new Set(lines.map((_, i) => found.cssOf(tile, i))).size).toBe(12)
    // The largest one of the history has the first hue, though another is asked for first.
    expect(found.cssOf(tile, 11)).toBe(colors('line').cssOf(TILE, 0))
  })
  it('tell blocks of one colour apart that follow each other, in both themes', () => {
    for (const theme of [LIGHT, DARK]) {
      for (const apart of [1, 2, 4, 5]) {
        const tile = { ...TILE, block: [10, 11, 10 + apart] }
        const paints = new BlockColors('line', theme, tile).paintsOf(tile)
        expect(new Set([0, 2].flatMap((i) => [paints.fill(i), paints.edge(i)])).size).toBe(4)
      }
    }
    expect(pixelOf('#102030')).toBe(0xff302010)
  })
})
