// Segments as lines of addresses at one scale. Long segments wrap like text.
import type { MemoryMap } from '../api/payloads'
import { categoryColor } from '../lib/color'
import { boxColors, cutText, drawBox, FONT, FONT_TITLE, type Theme } from './surface'

export const LINE = 21
const BAR = 16
const TITLE = 26
/** Room at the left for the address of the first segment of a line. */
export const GUTTER = 112
const BETWEEN = 4
const LEAST = 2
/** Lines that a picture of everything has, about. */
const USUAL_LINES = 22
/** The usual segments fit into a line. */
const SMALLEST_LINE = 2 ** 25

type Order = 'address' | 'size'

export interface MapChoice {
  order: Order
  /** '' = all. */
  group: string
  /** '' = all, else small, large or expandable. */
  segments: string
  /** Bytes of a line; 0 = so that everything is seen. */
  line: number
}

interface Slice {
  row: number
  /** Bytes from the first of the segment. */
  from: number
  to: number
  x: number
  width: number
}

interface MapLine {
  y: number
  height: number
  /** A title has no slices. */
  group: number
  isTitle: boolean
  first: number
  end: number
}

interface MapLayout {
  lines: MapLine[]
  slices: Slice[]
  height: number
  perLine: number
  scale: number
  rows: number
}

export function selectedRows(map: MemoryMap, choice: MapChoice): number[] {
  const rows: number[] = []
  for (let row = 0; row < map.row_bytes.length; row++) {
    if (choice.group !== '' && String(map.row_group[row]) !== choice.group) continue
    if (choice.segments === 'small' && map.row_is_large[row]) continue
    if (choice.segments === 'large' && !map.row_is_large[row]) continue
    if (choice.segments === 'expandable' && !map.row_is_expandable[row]) continue
    rows.push(row)
  }
  const bySize = choice.order === 'size'
  // Rows come by address; the sort is stable.
  rows.sort((a, b) => map.row_group[a] - map.row_group[b] || (bySize ? map.row_bytes[b] - map.row_bytes[a] : a - b))
  return rows
}

/** A power of two, so that everything takes about as many lines as fit into sight. */
export function defaultLineBytes(map: MemoryMap, rows: readonly number[]): number {
  const total = rows.reduce((sum, row) => sum + map.row_bytes[row], 0)
  return Math.max(SMALLEST_LINE, 2 ** Math.ceil(Math.log2(Math.max(1, total / USUAL_LINES))))
}

export function layoutOf(map: MemoryMap, choice: MapChoice, width: number): MapLayout {
  const rows = selectedRows(map, choice)
  const perLine = choice.line || defaultLineBytes(map, rows)
  const room = Math.max(40, width - GUTTER)
  const scale = room / perLine
  const lines: MapLine[] = []
  const slices: Slice[] = []
  let y = 0
  let x = 0
  let group = -1
  const open = (isTitle: boolean) => {
    const height = isTitle ? TITLE : LINE
    lines.push({ y, height, group, isTitle, first: slices.length, end: slices.length })
    y += height
    x = 0
  }
  const put = (row: number, from: number, to: number, w: number) => {
    slices.push({ row, from, to, x: GUTTER + x, width: w })
    lines[lines.length - 1].end = slices.length
    x += w + (w > 2 * BETWEEN ? BETWEEN : 1)
  }
  for (const row of rows) {
    if (map.row_group[row] !== group) {
      group = map.row_group[row]
      open(true)
      open(false)
    }
    const bytes = map.row_bytes[row]
    const whole = Math.max(LEAST, bytes * scale)
    if (x > 0 && x + whole > room + 0.5) open(false)
    for (let from = 0; from < bytes || from === 0; from += perLine) {
      if (from > 0) open(false)
      const to = Math.min(bytes, from + perLine)
      put(row, from, to, Math.max(LEAST, (to - from) * scale))
    }
  }
  return { lines, slices, height: y, perLine, scale, rows: rows.length }
}

/** The first piece of a row that reaches beyond a byte. */
function pieceFrom(map: MemoryMap, row: number, byte: number): number {
  let low = map.row_first[row]
  let high = map.row_first[row + 1]
  while (low < high) {
    const middle = (low + high) >> 1
    if (map.piece_offset[middle] + map.piece_span[middle] <= byte) low = middle + 1
    else high = middle
  }
  return low
}

/** A piece at a byte of a row; piece -1 is a gap. */
export interface Spot {
  row: number
  piece: number
  offset: number
  bytes: number
}

export function spotAt(map: MemoryMap, row: number, byte: number): Spot {
  const next = pieceFrom(map, row, byte)
  const end = map.row_first[row + 1]
  if (next < end && map.piece_offset[next] <= byte)
    return { row, piece: next, offset: map.piece_offset[next], bytes: map.piece_bytes[next] }
  const before = next > map.row_first[row] ? map.piece_offset[next - 1] + map.piece_span[next - 1] : 0
  const after = next < end ? map.piece_offset[next] : map.row_bytes[row]
  return { row, piece: -1, offset: before, bytes: after - before }
}

/** The line at a height; -1 = none. */
function lineAt(layout: MapLayout, y: number): number {
  let low = 0
  let high = layout.lines.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (layout.lines[middle].y + layout.lines[middle].height <= y) low = middle + 1
    else high = middle
  }
  return low < layout.lines.length && y >= layout.lines[low].y ? low : -1
}

export function hitAt(map: MemoryMap, layout: MapLayout, x: number, y: number): Spot | null {
  const at = lineAt(layout, y)
  if (at < 0) return null
  const line = layout.lines[at]
  for (let i = line.first; i < line.end; i++) {
    const slice = layout.slices[i]
    if (x < slice.x || x >= slice.x + slice.width) continue
    const byte = slice.from + Math.min(slice.to - slice.from - 1, Math.floor((x - slice.x) / layout.scale))
    return spotAt(map, slice.row, Math.max(slice.from, byte))
  }
  return null
}

export function placeOf(layout: MapLayout, row: number, byte: number): { line: number; x: number } | null {
  const at = layout.slices.findIndex((slice) => slice.row === row && byte >= slice.from && byte < slice.to)
  if (at < 0) return null
  const line = layout.lines.findIndex((one) => at >= one.first && at < one.end)
  return { line, x: layout.slices[at].x + (byte - layout.slices[at].from) * layout.scale }
}

/** The piece that an arrow key means: along the lines, or the nearest one of the next line that has any. */
export function neighbourOf(map: MemoryMap, layout: MapLayout, piece: number, key: string): number {
  const walk = [...new Set(layout.slices.map((slice) => slice.row))].flatMap((row) =>
    Array.from({ length: map.row_first[row + 1] - map.row_first[row] }, (_, i) => map.row_first[row] + i),
  )
  if (walk.length === 0) return -1
  const at = walk.indexOf(piece)
  if (at < 0) return walk[0]
  if (key === 'ArrowRight') return walk[Math.min(walk.length - 1, at + 1)]
  if (key === 'ArrowLeft') return walk[Math.max(0, at - 1)]
  const row = rowOf(map, piece)
  const place = placeOf(layout, row, map.piece_offset[piece])
  if (!place) return piece
  const step = key === 'ArrowDown' ? 1 : -1
  for (let line = place.line + step; line >= 0 && line < layout.lines.length; line += step) {
    const found = nearest(map, layout, layout.lines[line], place.x)
    if (found >= 0) return found
  }
  return piece
}

function nearest(map: MemoryMap, layout: MapLayout, line: MapLine, x: number): number {
  let best = -1
  let least = Number.POSITIVE_INFINITY
  for (let i = line.first; i < line.end; i++) {
    const slice = layout.slices[i]
    for (
      let piece = pieceFrom(map, slice.row, slice.from);
      piece < map.row_first[slice.row + 1] && map.piece_offset[piece] < slice.to;
      piece++
    ) {
      const left = slice.x + (Math.max(map.piece_offset[piece], slice.from) - slice.from) * layout.scale
      if (Math.abs(left - x) < least) [best, least] = [piece, Math.abs(left - x)]
    }
  }
  return best
}

export function rowOf(map: MemoryMap, piece: number): number {
  let low = 0
  let high = map.row_bytes.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (map.row_first[middle + 1] <= piece) low = middle + 1
    else high = middle
  }
  return low
}

/** The piece of a block; -1 if it has none of its own. */
export const pieceOf = (map: MemoryMap, block: number): number => map.piece_block.indexOf(block)

export const STATES = { allocated: 'kernel', pending: 'memcpy', inWay: 'dataloader', unused: 'memset' }

export type ColorOf = (piece: number) => string

export const stateOf =
  (map: MemoryMap): ColorOf =>
  (piece) =>
    map.piece_in_way[piece] ? STATES.inWay : map.piece_is_pending[piece] ? STATES.pending : STATES.allocated

/** Lines of code that hold most, with a colour each; the others share one. */
export function heaviestLines(map: MemoryMap, most = 8): number[] {
  const bytes = new Map<number, number>()
  map.piece_line.forEach((line, i) => {
    bytes.set(line, (bytes.get(line) ?? 0) + map.piece_bytes[i])
  })
  return [...bytes.keys()].sort((a, b) => (bytes.get(b) ?? 0) - (bytes.get(a) ?? 0) || a - b).slice(0, most)
}

export const lineColor =
  (map: MemoryMap, heaviest: readonly number[]): ColorOf =>
  (piece) => {
    const rank = heaviest.indexOf(map.piece_line[piece])
    return rank < 0 ? 'rest' : `slice${rank}`
  }

interface MapScene {
  map: MemoryMap
  layout: MapLayout
  colorOf: ColorOf
  titleOf: (group: number) => string
  theme: Theme
  width: number
  height: number
  top: number
  hover: Spot | null
  selected: number
}

export function drawMap(context: CanvasRenderingContext2D, scene: MapScene): void {
  const { layout, theme, width, height, top } = scene
  context.fillStyle = theme.panel
  context.fillRect(0, 0, width, height)
  context.textBaseline = 'middle'
  const from = Math.max(0, lineAt(layout, Math.max(0, top)))
  for (let i = from; i < layout.lines.length && layout.lines[i].y < top + height; i++) {
    const line = layout.lines[i]
    const y = line.y - top
    if (line.isTitle) {
      context.font = FONT_TITLE
      context.fillStyle = theme.ink
      context.fillText(cutText(context, scene.titleOf(line.group), width - 8), 0, y + TITLE / 2 + 3)
      continue
    }
    context.font = FONT
    drawGutter(context, scene, line, y)
    for (let at = line.first; at < line.end; at++) drawSlice(context, scene, layout.slices[at], y + (LINE - BAR) / 2)
  }
}

function drawGutter(
  context: CanvasRenderingContext2D,
  { map, layout, theme }: MapScene,
  line: MapLine,
  y: number,
): void {
  const slice = layout.slices[line.first]
  if (!slice) return
  context.fillStyle = theme.mute
  const text = slice.from > 0 ? '…' : map.row_address[slice.row]
  context.fillText(cutText(context, text, GUTTER - 8), 0, y + LINE / 2 + 0.5)
}

function drawSlice(context: CanvasRenderingContext2D, scene: MapScene, slice: Slice, y: number): void {
  const { map, layout, theme, colorOf, hover, selected } = scene
  context.fillStyle = theme.idle
  context.fillRect(slice.x, y, slice.width, BAR)
  const end = map.row_first[slice.row + 1]
  for (let piece = pieceFrom(map, slice.row, slice.from); piece < end; piece++) {
    const [low, high] = [map.piece_offset[piece], map.piece_offset[piece] + map.piece_span[piece]]
    if (low >= slice.to) break
    const x = slice.x + (Math.max(low, slice.from) - slice.from) * layout.scale
    const w = (Math.min(high, slice.to) - Math.max(low, slice.from)) * layout.scale
    const inner = Math.max(0.75, w > 4 ? w - 1 : w)
    const label = w > 60 ? (map.lines[map.piece_line[piece]] ?? '') : ''
    drawBox(context, x, y, inner, BAR, boxColors(colorOf(piece), 0.9, theme), shortLine(label))
    const unused = map.piece_unused[piece] * layout.scale
    if (unused > 0.5 && high <= slice.to) {
      context.fillStyle = categoryColor(STATES.unused)
      context.fillRect(x + inner - Math.min(unused, inner), y + BAR - 4, Math.min(unused, inner), 4)
    }
    if (piece === selected || piece === hover?.piece) outline(context, x, y, inner, piece === selected, theme)
  }
  if (hover && hover.piece < 0 && hover.row === slice.row) {
    const low = Math.max(hover.offset, slice.from)
    const high = Math.min(hover.offset + hover.bytes, slice.to)
    if (high > low) {
      outline(context, slice.x + (low - slice.from) * layout.scale, y, (high - low) * layout.scale, false, theme)
    }
  }
}

const shortLine = (text: string) => text.slice(text.lastIndexOf('/') + 1)

function outline(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  width: number,
  isSelected: boolean,
  theme: Theme,
): void {
  context.strokeStyle = isSelected ? theme.mark : theme.ink
  context.lineWidth = isSelected ? 2 : 1
  context.strokeRect(x + 0.5, y + 0.5, Math.max(2, width - 1), BAR - 1)
}
