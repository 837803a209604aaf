// Timeline tiles as the server sends them.

/** The n-th tile of a level, of a group of lanes. */
export interface TileKey {
  level: number
  group: number
  number: number
}

/** Columns of equal length, sorted by lane, row, start. Times in ns. */
export interface TileColumns {
  lane: Int32Array
  row: Int32Array
  start: Float64Array
  dur: Float64Array
  idle: Float64Array
  count: Int32Array
  /** Row of the event in the trace table; of several events the longest, which the columns below are about. */
  event: Int32Array
  category: Uint8Array
  /** Use of matrix units (Tensor Cores or their like) by the name of the kernel: 0 = no, 1 = yes, 2 = unknown. */
  matrix: Uint8Array
  name: Int32Array
  names: string[]
  /** Innermost nn.Module around it. */
  module: Int32Array
  modules: string[]
}

/** Asks for tiles of one level; the answer may hold only the first of them. */
export type FetchTiles = (level: number, tiles: readonly TileKey[], signal: AbortSignal) => Promise<TileColumns[]>
