// A tile as pixels, and the block at a pixel. A column's blocks are stacked in tile order, the rest on top.
import type { Bands, BandsEnvelope } from '../../api/payloads'

export interface Heights {
  low: number
  high: number
}

/** Colours as pixels of an ImageData: 0xAABBGGRR. */
export interface BlockPixels {
  ground: number
  rest: number
  /** Private pool bytes outside the blocks drawn one by one. */
  envelope: number
  /** By block of the tile: its fill, and the edge between it and the one above. */
  fill: (block: number) => number
  edge: (block: number) => number
}

/** Pixels from which a block gets an edge. */
const EDGED = 4

export const columnsOf = (tile: Bands): number => tile.event.length

/** A range of heights per column: a private pool with its blocks, or the rest. */
interface Zone {
  envelope: BandsEnvelope | null
  /** Blocks of the tile, the lowest first. */
  blocks: readonly number[]
  /** By column: bytes below it. */
  base: Float64Array
}

const zones = new WeakMap<Bands, readonly Zone[]>()

/** The lowest first; without envelopes everything is one. */
function zonesOf(tile: Bands): readonly Zone[] {
  const known = zones.get(tile)
  if (known) return known
  const found: Zone[] = []
  let base = new Float64Array(columnsOf(tile))
  for (const [i, envelope] of [...tile.envelopes, null].entries()) {
    const own = envelope ? i : -1
    const blocks = [...tile.block.keys()].filter((at) => (tile.envelope[at] ?? -1) === own)
    found.push({ envelope, blocks, base })
    if (envelope) base = base.map((bytes, c) => bytes + envelope.height_bytes[c])
  }
  zones.set(tile, found)
  return found
}

/** Fills the pixels of a tile: `columnsOf(tile)` wide, `height` high, the first row on top. */
export function paintTile(
  tile: Bands,
  pixels: Uint32Array,
  height: number,
  heights: Heights,
  paints: BlockPixels,
): void {
  const width = columnsOf(tile)
  const perByte = height / (heights.high - heights.low)
  function rowOf(at: number): number {
    const row = Math.round(height - (at - heights.low) * perByte)
    return row < 0 ? 0 : row > height ? height : row
  }
  pixels.fill(paints.ground)
  const { first, end, size_bytes: size } = tile
  for (const { envelope, blocks, base } of zonesOf(tile)) {
    // Per column: bytes so far, and the first free row.
    const bytes = base.slice()
    const bare = Int32Array.from(base, rowOf)
    for (const i of blocks) {
      const [fill, edge] = [paints.fill(i), paints.edge(i)]
      for (let c = first[i]; c < end[i]; c++) {
        bytes[c] += size[i]
        const below = bare[c]
        const top = rowOf(bytes[c])
        if (top === below) continue
        bare[c] = top
        let at = top * width + c
        const stop = below * width + c
        if (below - top >= EDGED) {
          pixels[at] = edge
          at += width
        }
        for (; at < stop; at += width) pixels[at] = fill
      }
    }
    const paint = envelope ? paints.envelope : paints.rest
    for (let c = 0; c < width; c++) {
      const top = envelope ? base[c] + envelope.height_bytes[c] : bytes[c] + tile.rest_bytes[c]
      const stop = bare[c] * width + c
      for (let at = rowOf(top) * width + c; at < stop; at += width) pixels[at] = paint
    }
  }
}

/** A block index, 'rest' for the summed blocks, an envelope, or null above everything. */
export function blockAt(tile: Bands, column: number, at: number): number | 'rest' | BandsEnvelope | null {
  for (const { envelope, blocks, base } of zonesOf(tile)) {
    let bytes = base[column]
    if (envelope && at >= bytes + envelope.height_bytes[column]) continue
    for (const i of blocks) {
      if (tile.first[i] > column || tile.end[i] <= column) continue
      bytes += tile.size_bytes[i]
      if (at < bytes) return i
    }
    if (envelope) return envelope
    return at < bytes + tile.rest_bytes[column] ? 'rest' : null
  }
  return null
}

/** The block above (1) or below (-1) in a column; null if none is listed. */
export function adjacentBlock(tile: Bands, column: number, block: number, by: 1 | -1): number | null {
  const order = zonesOf(tile).flatMap(({ blocks }) => blocks)
  for (let at = order.indexOf(block) + by; at >= 0 && at < order.length; at += by) {
    const i = order[at]
    if (tile.first[i] <= column && tile.end[i] > column) return i
  }
  return null
}

/** Index of a block row in the tile; -1 if not listed. Rows are sorted. */
export function indexOfBlock(tile: Bands, row: number): number {
  let low = 0
  let high = tile.block.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (tile.block[middle] < row) low = middle + 1
    else high = middle
  }
  return tile.block[low] === row ? low : -1
}

export function bytesBelow(tile: Bands, block: number): Float64Array {
  const [from, to] = [tile.first[block], tile.end[block]]
  const change = new Float64Array(to - from + 1)
  const zone = zonesOf(tile).find(({ blocks }) => blocks.includes(block))
  for (const i of zone?.blocks ?? []) {
    if (i >= block) break
    const [a, b] = [Math.max(tile.first[i], from), Math.min(tile.end[i], to)]
    if (b <= a) continue
    change[a - from] += tile.size_bytes[i]
    change[b - from] -= tile.size_bytes[i]
  }
  for (let c = 1; c < change.length; c++) change[c] += change[c - 1]
  return change.subarray(0, to - from).map((bytes, c) => bytes + (zone?.base[from + c] ?? 0))
}
