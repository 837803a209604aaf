// What a picture of the timeline is made from, and where things are on it.
import type { Theme } from './surface'
import type { Colors, Strip } from './timelineColors'
import type { Counters } from './timelineCounters'
import { HEAD, type Layout, type Placed, rowTop } from './timelineLayout'
import type { Item, Range, Spot, TimelineModel } from './timelineModel'

/** One end of an arrow. */
export interface Point extends Spot {
  /** Row of the event in the trace table. */
  event: number
}

/** What an event is connected with. */
export interface Arrow {
  from: Point
  to: Point
  kind: string
}

/** A recorded step. */
export interface Step extends Range {
  label: string
}

/** A time that somebody wants to find again, and why. */
export interface Bookmark {
  time: number
  note: string
}

/** A time in which nothing ran on a lane, and what the host did then. */
export interface Gap extends Range {
  lane: number
  why: string
  /** Category of what has most of it, '' where the device is never idle in it. */
  cause: string
}

/** Of gaps on one lane those that lie in no other: a device stands still within gaps of its streams. */
export function outermost(gaps: readonly Gap[]): readonly Gap[] {
  const inOrder = [...gaps].sort((a, b) => a.lane - b.lane || a.start - b.start || b.end - a.end)
  let last: Gap | undefined
  return inOrder.filter((gap) => {
    const within = last !== undefined && last.lane === gap.lane && gap.end <= last.end
    if (!within) last = gap
    return !within
  })
}

export interface Scene {
  model: TimelineModel
  view: Range
  level: number
  layout: Layout
  scroll: number
  /** Width of the names of tracks. */
  gutter: number
  width: number
  height: number
  theme: Theme
  colors: Colors
  strip: Strip
  /** Names by number: do they match the search? null = there is none. */
  match: ((name: number) => boolean) | null
  selected: Spot | null
  hover: Item | null
  /** The pointer's time. */
  cursor: number | null
  range: Range | null
  bookmarks: readonly Bookmark[]
  arrows: readonly Arrow[]
  gaps: readonly Gap[]
  hits: readonly Spot[]
  counters: Counters | null
  /** Where hits of a search lie, as shares of the whole trace. */
  marks: readonly number[]
  steps: readonly Step[]
}

export const toX = (scene: Scene, time: number) =>
  scene.gutter + ((time - scene.view.start) / (scene.view.end - scene.view.start)) * (scene.width - scene.gutter)

export const toTime = (scene: Scene, x: number) =>
  scene.view.start + ((x - scene.gutter) / (scene.width - scene.gutter)) * (scene.view.end - scene.view.start)

/** Top of a row on the canvas; null when its lane is not shown. */
export function rowY(scene: Scene, lane: number, row: number): number | null {
  const found = scene.layout.lanes.get(lane)
  if (!found || row >= found.placed.rows) return null
  const top = HEAD + rowTop(found.placed, row)
  return found.pinned ? top : top + scene.layout.fixed - scene.scroll
}

/** The tracks of a region that are in sight. */
export function inSight(scene: Scene, pinned: boolean): Placed[] {
  if (pinned) return scene.layout.pinned
  const low = scene.scroll
  const high = scene.scroll + scene.height - HEAD - scene.layout.fixed
  return scene.layout.rest.filter((placed) => placed.top + placed.height >= low && placed.top <= high)
}
