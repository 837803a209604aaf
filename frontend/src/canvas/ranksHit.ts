// What is at a place of a section, and where an event of it is.
import { rowAt, rowTop } from './timelineLayout'
import type { Item, Spot } from './timelineModel'
import type { Scene } from './timelineScene'

/** The event in the head of a section: of all lanes that it sums up what communicates, or what does not. */
export function inHead(
  own: Scene,
  lanes: readonly number[],
  communicates: boolean,
  time: number,
  slack: number,
): Item | null {
  for (const lane of lanes)
    for (let row = 0; row < (own.model.lanes[lane].isDevice ? own.model.lanes[lane].rows : 1); row++) {
      const item = own.model.itemAt(own.level, lane, row, time, slack)
      if (item && (item.category === 'communication') === communicates) return item
    }
  return null
}

export function inTracks(own: Scene, inside: number, time: number, slack: number): Item | null {
  const placed = own.layout.rest.find(({ top, height }) => inside >= top && inside < top + height)
  if (placed?.track.kind !== 'lane') return null
  const row = rowAt(placed, inside)
  const off = inside - rowTop(placed, row)
  return off < -1 || off > 16 ? null : own.model.itemAt(own.level, placed.track.lane, row, time, slack)
}

/** Where a call is drawn in its section: its lane is not known, its time is. */
export function spotsOf(own: Scene, start: number, end: number): Spot[] {
  const found: Spot[] = []
  for (const [lane, { placed }] of own.layout.lanes)
    for (let row = 0; row < placed.rows; row++) {
      const item = own.model.itemAt(own.level, lane, row, start, 0)
      if (item && item.start === start && item.dur === end - start) found.push({ lane, row, start, end })
    }
  return found
}
