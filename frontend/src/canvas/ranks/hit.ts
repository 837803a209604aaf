// The event at a point of a section, and back.

import { rowAt, rowTop } from '../timeline/layout'
import { firstEndingAfter, type Item, type Spot } from '../timeline/model'
import type { Scene } from '../timeline/scene'
import type { Tile } from '../timeline/tileStore'
import { HOST_ROWS, workCategories } from './bars'
import type { Call } from './scene'

/** The event in a section's head: communication or other work, over all summed lanes. */
export function hitInHead(
  own: Scene,
  lanes: readonly number[],
  communicates: boolean,
  time: number,
  slack: number,
): Item | null {
  const { categories } = own.model.head
  const work = workCategories(own.model.head)
  for (const lane of lanes) {
    const { isDevice, rows } = own.model.lanes[lane]
    for (let row = 0; row < (isDevice ? rows : Math.min(rows, HOST_ROWS)); row++) {
      const item = own.model.itemAt(own.level, lane, row, time, slack)
      if (!item || (item.category === 'communication') !== communicates) continue
      if (isDevice || work[categories.indexOf(item.category)]) return item
    }
  }
  return null
}

export function hitInTracks(own: Scene, inside: number, time: number, slack: number): Item | null {
  const placed = own.layout.rest.find(({ top, height }) => inside >= top && inside < top + height)
  if (placed?.track.kind !== 'lane') return null
  const row = rowAt(placed, inside)
  const off = inside - rowTop(placed, row)
  return off < -1 || off > 16 ? null : own.model.itemAt(own.level, placed.track.lane, row, time, slack)
}

/** Index of a call's item in a line; -1 if missing or merged. */
export function itemOf(tile: Tile, line: number, { event, start, end }: Call): number {
  // Items without duration end at their start.
  for (let i = firstEndingAfter(tile, line, start - 0.5); i < tile.ranges[line + 1] && tile.start[i] <= start; i++)
    if (event < 0 ? tile.start[i] === start && tile.dur[i] === end - start : tile.event[i] === event) return i
  return -1
}

/** Places of a call in its section. Its time is known, its lane is not. */
export function spotsOf(own: Scene, call: Call): Spot[] {
  const { model, level } = own
  const found: Spot[] = []
  for (const [lane, { placed }] of own.layout.lanes)
    for (const { tile, goesOn, start } of model.pieces(level, model.lanes[lane].group, call)) {
      if (!tile) continue
      for (let row = 0; row < placed.rows; row++) {
        const i = itemOf(tile, model.lineOf(lane, row), call)
        if (i >= 0 && !(goesOn && tile.start[i] < start))
          found.push({ lane, row, start: tile.start[i], end: tile.start[i] + tile.dur[i] })
      }
    }
  return found
}
