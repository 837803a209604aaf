import { describe, expect, it } from 'vitest'
import type { MemoryMap } from '../api/payloads'
import {
  defaultLineBytes,
  GUTTER,
  heaviestLines,
  hitAt,
  LINE,
  layoutOf,
  type MapChoice,
  neighbourOf,
  pieceOf,
  placeOf,
  rowOf,
  selectedRows,
  spotAt,
} from './memoryMap'

const MIB = 2 ** 20
const ALL: MapChoice = { order: 'address', group: '', segments: '', line: 0 }

/** Segments of MiB, each with blocks (offset, size). */
function mapOf(rows: { mib: number; group?: number; blocks?: [number, number][]; large?: boolean }[]): MemoryMap {
  const first = [0]
  for (const row of rows) first.push(first[first.length - 1] + (row.blocks?.length ?? 0))
  const blocks = rows.flatMap((row) => row.blocks ?? [])
  const same = <T>(value: T) => blocks.map(() => value)
  return {
    kind: 'memory_map',
    event: 9,
    groups: [],
    row_address: rows.map((_, i) => `0x${(i * 64 * MIB).toString(16)}`),
    row_bytes: rows.map((row) => row.mib * MIB),
    row_group: rows.map((row) => row.group ?? 0),
    row_is_large: rows.map((row) => row.large ?? true),
    row_is_expandable: rows.map(() => false),
    row_used_bytes: rows.map((row) => (row.blocks ?? []).reduce((sum, [, size]) => sum + size * MIB, 0)),
    row_first: first,
    piece_offset: blocks.map(([offset]) => offset * MIB),
    piece_span: blocks.map(([, size]) => size * MIB),
    piece_bytes: blocks.map(([, size]) => size * MIB),
    piece_blocks: same(1),
    piece_block: blocks.map((_, i) => 100 + i),
    piece_is_pending: same(false),
    piece_line: blocks.map((_, i) => i % 2),
    piece_unused: same(-1),
    piece_begin: same(0),
    piece_in_way: same(false),
    lines: ['a.py(1): f', 'b.py(2): g'],
    cell_bytes: 0,
  }
}

/** Lines with segments, as the rows and MiB of their slices. */
const told = (map: MemoryMap, choice: MapChoice, width = GUTTER + 1000) => {
  const layout = layoutOf(map, choice, width)
  return layout.lines
    .filter((line) => !line.isTitle)
    .map((line) =>
      layout.slices.slice(line.first, line.end).map(({ row, from, to }) => `${row}:${from / MIB}-${to / MIB}`),
    )
}

describe('lines of segments', () => {
  it('follow each other, and a segment that does not fit begins a line', () => {
    const map = mapOf([{ mib: 4 }, { mib: 4 }, { mib: 4 }, { mib: 2 }])
    expect(told(map, { ...ALL, line: 10 * MIB })).toEqual([
      ['0:0-4', '1:0-4'],
      ['2:0-4', '3:0-2'],
    ])
  })
  it('hold a longer segment in several', () => {
    const map = mapOf([{ mib: 2 }, { mib: 25 }, { mib: 2 }])
    expect(told(map, { ...ALL, line: 10 * MIB })).toEqual([['0:0-2'], ['1:0-10'], ['1:10-20'], ['1:20-25', '2:0-2']])
  })
  it('begin anew with each pool, below its title', () => {
    const map = mapOf([{ mib: 2, group: 1 }, { mib: 2 }, { mib: 2, group: 1 }])
    expect(told(map, { ...ALL, line: 10 * MIB })).toEqual([['1:0-2'], ['0:0-2', '2:0-2']])
    expect(
      layoutOf(map, ALL, 900)
        .lines.filter((line) => line.isTitle)
        .map((line) => line.group),
    ).toEqual([0, 1])
  })
  it('show everything at one scale without a choice', () => {
    const map = mapOf(Array.from({ length: 200 }, () => ({ mib: 20 })))
    expect(defaultLineBytes(map, selectedRows(map, ALL))).toBe(256 * MIB)
    const layout = layoutOf(map, ALL, 1200)
    expect(layout.scale).toBeCloseTo((1200 - GUTTER) / (256 * MIB))
    expect(layout.rows).toBe(200)
  })
  it('are there without any segment', () => {
    expect(layoutOf(mapOf([]), ALL, 900)).toMatchObject({ lines: [], slices: [], height: 0 })
  })
})

describe('what is chosen', () => {
  it('stands by address or size, by pool and kind', () => {
    const map = mapOf([{ mib: 2, large: false }, { mib: 20 }, { mib: 30, group: 1 }, { mib: 40 }])
    expect(selectedRows(map, ALL)).toEqual([0, 1, 3, 2])
    expect(selectedRows(map, { ...ALL, order: 'size' })).toEqual([3, 1, 0, 2])
    expect(selectedRows(map, { ...ALL, group: '1' })).toEqual([2])
    expect(selectedRows(map, { ...ALL, segments: 'small' })).toEqual([0])
    expect(selectedRows(map, { ...ALL, segments: 'large' })).toEqual([1, 3, 2])
    expect(selectedRows(map, { ...ALL, segments: 'expandable' })).toEqual([])
  })
  it('names the lines that hold most', () => {
    expect(
      heaviestLines(
        mapOf([
          {
            mib: 20,
            blocks: [
              [0, 2],
              [2, 5],
              [8, 1],
            ],
          },
        ]),
      ),
    ).toEqual([1, 0])
  })
})

describe('a place in the picture', () => {
  const map = mapOf([
    { mib: 4, blocks: [[1, 2]] },
    {
      mib: 20,
      blocks: [
        [0, 3],
        [15, 5],
      ],
    },
  ])
  const layout = layoutOf(map, { ...ALL, line: 10 * MIB }, GUTTER + 1000)
  const y = (line: number) => layout.lines[line].y + LINE / 2
  it('is a block or the gap around it', () => {
    expect(spotAt(map, 0, 0)).toEqual({ row: 0, piece: -1, offset: 0, bytes: MIB })
    expect(spotAt(map, 0, 2 * MIB)).toMatchObject({ piece: 0, bytes: 2 * MIB })
    expect(spotAt(map, 0, 3 * MIB)).toEqual({ row: 0, piece: -1, offset: 3 * MIB, bytes: MIB })
    expect(spotAt(map, 1, 10 * MIB)).toEqual({ row: 1, piece: -1, offset: 3 * MIB, bytes: 12 * MIB })
  })
  it('is found under the pointer, also in the second line of a segment', () => {
    expect(hitAt(map, layout, GUTTER + 150, y(1))).toMatchObject({ row: 0, piece: 0 })
    expect(hitAt(map, layout, GUTTER + 700, y(3))).toMatchObject({ row: 1, piece: 2 })
    expect(hitAt(map, layout, GUTTER + 700, y(1))).toBeNull()
    expect(hitAt(map, layout, GUTTER + 10, y(0))).toBeNull()
    expect(hitAt(map, layout, GUTTER + 10, -5)).toBeNull()
  })
  it('is told of a byte', () => {
    expect(placeOf(layout, 1, 15 * MIB)).toEqual({ line: 3, x: GUTTER + 500 })
    expect(rowOf(map, 0)).toBe(0)
    expect([1, 2].map((piece) => rowOf(map, piece))).toEqual([1, 1])
    expect(pieceOf(map, 102)).toBe(2)
    expect(pieceOf(map, 7)).toBe(-1)
  })
  it('is walked from block to block', () => {
    expect(neighbourOf(map, layout, -1, 'ArrowRight')).toBe(0)
    expect(neighbourOf(map, layout, 0, 'ArrowRight')).toBe(1)
    expect(neighbourOf(map, layout, 2, 'ArrowRight')).toBe(2)
    expect(neighbourOf(map, layout, 0, 'ArrowDown')).toBe(1)
    expect(neighbourOf(map, layout, 2, 'ArrowUp')).toBe(1)
    expect(neighbourOf(mapOf([]), layoutOf(mapOf([]), ALL, 900), -1, 'ArrowDown')).toBe(-1)
  })
})
