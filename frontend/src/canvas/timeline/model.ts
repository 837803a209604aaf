// Lanes, levels of detail and loaded items of a timeline.
import type { Table, Timeline } from '../../api/payloads'
import { clamp } from '../../lib/axisTicks'
import type { FetchTiles, TileColumns, TileKey } from '../../lib/tiles'
import type { Budget, StoreEvents } from '../tileCache'
import type { Range } from '../viewport'
import { type Tile, TileStore } from './tileStore'

export interface Lane {
  id: string
  title: string
  subtitle: string
  isDevice: boolean
  rows: number
  group: number
}

export interface Spot extends Range {
  lane: number
  row: number
}

export const spotOfRow = (row: Table['rows'][number]): Spot => ({
  lane: Number(row.lane),
  row: Number(row.row),
  start: Number(row.start_ns),
  end: Number(row.start_ns) + Number(row.dur_ns),
})

/** An event, or several too short to draw apart. */
export interface Item {
  lane: number
  row: number
  start: number
  dur: number
  busy: number
  count: number
  /** Row of the event in the trace table; of several the longest, as are name, category and module. */
  event: number
  name: string
  category: string
  module: string
  matrix: boolean
  /** The rank, on a timeline of several. */
  rank?: string
}

/** A stretch of time of a group of lanes and the tile that shows it; null = nothing is there yet. */
export interface Piece {
  tile: Tile | null
  start: number
  end: number
  /** The previous piece has the same level, so its tail is drawn. */
  goesOn: boolean
}

/** Colour kinds of tracks, by the end of their ids. */
const TRACK_KINDS: Record<string, string> = {
  work: 'kernel',
  notes: 'annotation',
  calls: 'operator',
  python: 'python',
  waits: 'sync',
  async: 'async',
}
export const trackKind = (id: string) => TRACK_KINDS[id.slice(id.lastIndexOf('/') + 1)] ?? 'other'

const CELLS = 256
const PIXELS = 2

export class TimelineModel {
  readonly head: Timeline
  readonly lanes: Lane[]
  /** The first line of each lane; a line is one row. */
  readonly offset: Int32Array
  readonly store: TileStore

  constructor(head: Timeline, fetch: FetchTiles, events: StoreEvents, budget?: Budget) {
    this.head = head
    const groupOf = new Int32Array(head.tracks.length)
    for (let group = 0; group + 1 < head.groups.length; group++)
      groupOf.fill(group, head.groups[group], head.groups[group + 1])
    this.lanes = head.tracks.map((track, i) => ({
      id: track.id,
      title: track.title,
      subtitle: track.subtitle,
      isDevice: track.is_device,
      rows: Math.max(1, track.rows),
      group: groupOf[i],
    }))
    this.offset = new Int32Array(this.lanes.length + 1)
    this.lanes.forEach((lane, i) => {
      this.offset[i + 1] = this.offset[i] + lane.rows
    })
    this.store = new TileStore(fetch, (group, columns) => this.rangesOf(group, columns), events, budget)
  }

  get start(): number {
    return this.head.start_ns
  }

  get end(): number {
    return Math.max(this.head.end_ns, this.head.start_ns + 1)
  }

  /** The coarsest level with cells of at most two pixels. */
  levelFor(nsPerPixel: number): number {
    const { levels } = this.head
    let level = 0
    while (level + 1 < levels.length && levels[level + 1].tile_ns / CELLS <= PIXELS * nsPerPixel) level++
    return level
  }

  /** Tiles of groups that a view needs. */
  tiles(level: number, groups: Iterable<number>, view: Range): TileKey[] {
    const [first, last] = this.numbers(level, view)
    const keys: TileKey[] = []
    for (const group of groups) for (let number = first; number <= last; number++) keys.push({ level, group, number })
    return keys
  }

  /** Loaded tiles of a group in a view, coarser ones as substitutes. */
  pieces(level: number, group: number, view: Range): Piece[] {
    const [first, last] = this.numbers(level, view)
    const length = this.head.levels[level].tile_ns
    const pieces: Piece[] = []
    let before = -1
    for (let number = first; number <= last; number++) {
      const start = number * length
      const found = this.finest(level, group, start)
      const end = start + length
      pieces.push({ tile: found.tile, start, end, goesOn: found.tile !== null && found.level === before })
      before = found.level
    }
    return pieces
  }

  /** The item of a line at a time, within a tolerance. */
  itemAt(level: number, lane: number, row: number, time: number, slack: number): Item | null {
    const { group } = this.lanes[lane]
    const line = this.lineOf(lane, row)
    let best: Item | null = null
    let distance = slack
    for (const { tile } of this.pieces(level, group, { start: time - slack, end: time + slack })) {
      if (!tile) continue
      const to = tile.ranges[line + 1]
      for (let i = firstEndingAfter(tile, line, time - slack); i < to && tile.start[i] <= time + slack; i++) {
        const away = Math.max(0, tile.start[i] - time, time - tile.start[i] - tile.dur[i])
        if (away > distance || (away === distance && best)) continue
        best = this.item(tile, i)
        distance = away
      }
    }
    return best
  }

  /** The item that an arrow key selects: along the row, outwards or inwards. */
  neighbour(level: number, view: Range, from: Spot, key: string): Item | null {
    const span = view.end - view.start
    const row = key === 'ArrowUp' ? from.row - 1 : key === 'ArrowDown' ? from.row + 1 : from.row
    if (row < 0 || row >= this.lanes[from.lane].rows) return null
    const line = this.lineOf(from.lane, row)
    const back = key === 'ArrowLeft'
    const near = { start: back ? from.start - span : from.start, end: back ? from.start : from.end + span }
    let found: Item | null = null
    for (const { tile, goesOn } of this.pieces(level, this.lanes[from.lane].group, near)) {
      if (!tile) continue
      for (let i = firstEndingAfter(tile, line, near.start); i < tile.ranges[line + 1]; i++) {
        if (goesOn && found && tile.start[i] <= found.start) continue
        if (row !== from.row) {
          return tile.start[i] <= from.end ? this.item(tile, i) : null
        }
        if (back && tile.start[i] >= from.start) return found
        if (!back && tile.start[i] > from.start) return this.item(tile, i)
        if (back) found = this.item(tile, i)
      }
    }
    return found
  }

  lineOf(lane: number, row: number): number {
    return this.offset[lane] + row - this.offset[this.head.groups[this.lanes[lane].group]]
  }

  item(tile: Tile, i: number): Item {
    return {
      lane: tile.lane[i],
      row: tile.row[i],
      start: tile.start[i],
      dur: tile.dur[i],
      busy: tile.dur[i] - tile.idle[i],
      count: tile.count[i],
      event: tile.event[i],
      name: this.store.names.list[tile.name[i]],
      category: this.head.categories[tile.category[i]],
      module: this.store.modules.list[tile.module[i]],
      matrix: tile.matrix[i] === 1,
    }
  }

  private numbers(level: number, view: Range): [number, number] {
    const length = this.head.levels[level].tile_ns
    const number = (time: number) => Math.floor(clamp(time, this.start, this.end) / length)
    return [number(view.start), number(view.end)]
  }

  private finest(level: number, group: number, start: number): { tile: Tile | null; level: number } {
    for (let coarser = level; coarser < this.head.levels.length; coarser++) {
      const tile = this.store.get(coarser, group, Math.floor(start / this.head.levels[coarser].tile_ns))
      if (tile) return { tile, level: coarser }
    }
    return { tile: null, level: -1 }
  }

  private rangesOf(group: number, columns: TileColumns): Int32Array {
    const first = this.offset[this.head.groups[group]]
    const lines = this.offset[this.head.groups[group + 1]] - first
    const ranges = new Int32Array(lines + 1)
    for (let i = 0; i < columns.lane.length; i++) ranges[this.offset[columns.lane[i]] + columns.row[i] - first + 1]++
    for (let line = 0; line < lines; line++) ranges[line + 1] += ranges[line]
    return ranges
  }
}

/** First item of a line of a tile that ends after a time; items of a line do not overlap. */
export function firstEndingAfter(tile: Tile, line: number, time: number): number {
  let [low, high] = [tile.ranges[line], tile.ranges[line + 1]]
  while (low < high) {
    const mid = (low + high) >> 1
    if (tile.start[mid] + tile.dur[mid] <= time) low = mid + 1
    else high = mid
  }
  return low
}
