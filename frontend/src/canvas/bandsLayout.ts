// A tile of the active-memory timeline as pixels, and back from a place to the block that lies there. A column's blocks lie on
// each other in the order of the tile, the rest on top of them.
import type { Bands } from '../api/payloads'

/** What the height of a picture shows, in bytes. */
export interface Heights {
  low: number
  high: number
}

/** Colours as pixels of an ImageData: 0xAABBGGRR. */
export interface Paints {
  ground: number
  rest: number
  /** By block of the tile: its fill, and the edge between it and the one above. */
  fill: (block: number) => number
  edge: (block: number) => number
}

/** A band gets an edge when it is at least so many pixels high. */
const EDGED = 4

export const columnsOf = (tile: Bands): number => tile.event.length

/** Fills the pixels of a tile: `columnsOf(tile)` wide, `height` high, the first row on top. */
export function paintTile(tile: Bands, pixels: Uint32Array, height: number, heights: Heights, paints: Paints): void {
  const width = columnsOf(tile)
  const perByte = height / (heights.high - heights.low)
  // Of each column: bytes that lie there so far, and the row above which nothing lies yet.
  const bytes = new Float64Array(width)
  const bare = new Int32Array(width).fill(rowOf(0))
  function rowOf(at: number): number {
    const row = Math.round(height - (at - heights.low) * perByte)
    return row < 0 ? 0 : row > height ? height : row
  }
  pixels.fill(paints.ground)
  const { first, end, size_bytes: size } = tile
  for (let i = 0; i < size.length; i++) {
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
  for (let c = 0; c < width; c++) {
    const stop = bare[c] * width + c
    for (let at = rowOf(bytes[c] + tile.rest_bytes[c]) * width + c; at < stop; at += width) pixels[at] = paints.rest
  }
}

/** The block at a height of a column; 'rest' among those that are summed, null above everything. */
export function blockAt(tile: Bands, column: number, at: number): number | 'rest' | null {
  let bytes = 0
  for (let i = 0; i < tile.size_bytes.length; i++) {
    if (tile.first[i] > column || tile.end[i] <= column) continue
    bytes += tile.size_bytes[i]
    if (at < bytes) return i
  }
  return at < bytes + tile.rest_bytes[column] ? 'rest' : null
}

/** The block above (1) or below (-1) another one in a column; null where none is listed. */
export function besideOf(tile: Bands, column: number, block: number, by: 1 | -1): number | null {
  for (let i = block + by; i >= 0 && i < tile.size_bytes.length; i += by) {
    if (tile.first[i] <= column && tile.end[i] > column) return i
  }
  return null
}

/** Place in the tile of a block of the device; -1 where it is not listed. Rows of blocks ascend. */
export function placeOf(tile: Bands, row: number): number {
  let low = 0
  let high = tile.block.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (tile.block[middle] < row) low = middle + 1
    else high = middle
  }
  return tile.block[low] === row ? low : -1
}

/** In each column of a block: the bytes that lie below it. */
export function groundOf(tile: Bands, block: number): Float64Array {
  const [from, to] = [tile.first[block], tile.end[block]]
  const change = new Float64Array(to - from + 1)
  for (let i = 0; i < block; i++) {
    const [a, b] = [Math.max(tile.first[i], from), Math.min(tile.end[i], to)]
    if (b <= a) continue
    change[a - from] += tile.size_bytes[i]
    change[b - from] -= tile.size_bytes[i]
  }
  for (let c = 1; c < change.length; c++) change[c] += change[c - 1]
  return change.subarray(0, to - from)
}
