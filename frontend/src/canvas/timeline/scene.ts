// The state of a timeline picture, and its coordinates.

import type { Table, Timeline } from '../../api/payloads'
import type { Point as Point2 } from '../../lib/tooltipPosition'
import type { Theme } from '../surface'
import type { Range } from '../viewport'
import type { Colors, Strip } from './colors'
import type { Counters } from './counters'
import { BAR, HEAD, type Layout, type Placed, rowTop } from './layout'
import { type Item, type Spot, spotOfRow, type TimelineModel } from './model'

export interface Point extends Spot {
  /** Row of the event in the trace table. */
  event: number
}

export interface Arrow {
  from: Point
  to: Point
  kind: string
  /** The arrow's name in the trace, else its type. */
  name: string
}

export interface Step extends Range {
  label: string
}

export interface Bookmark {
  time: number
  note: string
}

/** An idle gap of a lane, with the CPU activity in it. */
export interface Gap extends Range {
  lane: number
  why: string
  /** The largest cause's category; '' if the device is never idle in it. */
  cause: string
}

/** A piece of the critical path. */
export interface PathMark extends Range {
  lane: number
  /** Null if the marks of a lane are joined. */
  row: number | null
}

export const pathMarkOf = (row: Table['rows'][number]): PathMark => {
  const { lane, row: place, start, end } = spotOfRow(row)
  return { lane, row: row.row === null ? null : place, start, end }
}

/** Gaps not nested in others: a device is idle within gaps of its streams. */
export function topLevelGaps(gaps: readonly Gap[]): readonly Gap[] {
  const inOrder = [...gaps].sort((a, b) => a.lane - b.lane || a.start - b.start || b.end - a.end)
  let last: Gap | undefined
  return inOrder.filter((gap) => {
    const within = last !== undefined && last.lane === gap.lane && gap.end <= last.end
    if (!within) last = gap
    return !within
  })
}

/** A canvas with a time axis, and its hovered item. */
export interface Stage {
  view: Range
  scroll: number
  gutter: number
  width: number
  height: number
  theme: Theme
  selected: Spot | null
  hover: Item | null
  cursor: number | null
  range: Range | null
  bookmarks: readonly Bookmark[]
  arrows: readonly Arrow[]
  steps: readonly Step[]
}

/** The head of a canvas: utilization, axis, steps. */
export interface HeadStage extends Stage {
  model: Range & { readonly head: Pick<Timeline, 'busy' | 'busy_is_device'> }
  /** Search hits as shares of the trace. */
  marks: readonly number[]
}

export interface Scene extends HeadStage {
  model: TimelineModel
  level: number
  layout: Layout
  colors: Colors
  strip: Strip
  /** Names by number: do they match the search? null = there is none. */
  match: ((name: number) => boolean) | null
  gaps: readonly Gap[]
  path: readonly PathMark[]
  hits: readonly Spot[]
  /** Events that match the search; null: names decide. */
  hitEvents: ReadonlySet<number> | null
  /** Events selected with Ctrl or Cmd, if several. */
  picked: readonly Spot[]
  counters: Counters | null
  failures: readonly Bookmark[]
}

type Plot = Pick<Stage, 'view' | 'gutter' | 'width'>

export const toX = (scene: Plot, time: number) =>
  scene.gutter + ((time - scene.view.start) / (scene.view.end - scene.view.start)) * (scene.width - scene.gutter)

export const toTime = (scene: Plot, x: number) =>
  scene.view.start + ((x - scene.gutter) / (scene.width - scene.gutter)) * (scene.view.end - scene.view.start)

/** Left and right edge of a mark of the path, wide enough to see; null if it is not visible. */
export function pathSpan(scene: Plot, { start, end }: Range): [number, number] | null {
  const x = toX(scene, start)
  const from = Math.max(scene.gutter, x)
  const to = Math.min(scene.width, Math.max(x + PATH_WIDTH, toX(scene, end)))
  return to > from ? [from, to] : null
}
const PATH_WIDTH = 1.5

/** Top of a row on the canvas; null when its lane is not shown. */
export function rowY(scene: Scene, lane: number, row: number): number | null {
  const found = scene.layout.lanes.get(lane)
  if (!found || row >= found.placed.rows) return null
  const top = HEAD + rowTop(found.placed, row)
  return found.pinned ? top : top + scene.layout.fixed - scene.scroll
}

/** Both ends and the bend of an arrow; null if hidden or not visible. */
export function curveOf(scene: Scene, { from, to }: Arrow) {
  const [y0, y1] = [rowY(scene, from.lane, from.row), rowY(scene, to.lane, to.row)]
  if (y0 === null || y1 === null) return null
  const [x0, x1] = [toX(scene, from.start), toX(scene, to.start)]
  if (Math.max(x0, x1) < scene.gutter || Math.min(x0, x1) > scene.width) return null
  const bend = Math.min(80, Math.max(12, Math.abs(x1 - x0) / 2))
  return { x0, y0: y0 + BAR / 2, x1, y1: y1 + BAR / 2, bend }
}

/** A pointer this near to an arrow means it. */
const NEAR = 4
const PIECES = 32

/** The arrow at a place of the canvas, that which is drawn last. */
export function arrowAt(scene: Scene, x: number, y: number): Arrow | null {
  if (x < scene.gutter || y < HEAD) return null
  return scene.arrows.findLast((arrow) => isOn(curveOf(scene, arrow), x, y)) ?? null
}

/** Points along a curve, its ends included. */
export function curvePoints(curve: ReturnType<typeof curveOf>): Point2[] {
  if (curve === null) return []
  const { x0, y0, x1, y1, bend } = curve
  return Array.from({ length: PIECES + 1 }, (_, i) => {
    const t = i / PIECES
    const [a, b, c, d] = [(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t ** 2 * (1 - t), t ** 3]
    return { x: a * x0 + b * (x0 + bend) + c * (x1 - bend) + d * x1, y: (a + b) * y0 + (c + d) * y1 }
  })
}

const BAR_POINTS = 24

/** Points along the visible part of an event's bar. */
export function barPoints(scene: Scene, { lane, row, start, dur }: Item): Point2[] {
  const top = rowY(scene, lane, row)
  if (top === null) return []
  const [from, to] = [Math.max(scene.gutter, toX(scene, start)), Math.min(scene.width, toX(scene, start + dur))]
  return Array.from({ length: BAR_POINTS }, (_, i) => {
    const x = from + ((to - from) * i) / (BAR_POINTS - 1)
    return [
      { x, y: top + 1 },
      { x, y: top + BAR - 1 },
    ]
  }).flat()
}

/** Whether a point is near the straight pieces that a curve is taken apart into. */
function isOn(curve: ReturnType<typeof curveOf>, x: number, y: number): boolean {
  if (curve === null) return false
  const { x0, y0, x1, y1, bend } = curve
  if (y < Math.min(y0, y1) - NEAR || y > Math.max(y0, y1) + NEAR) return false
  if (x < Math.min(x0, x1 - bend) - NEAR || x > Math.max(x0 + bend, x1) + NEAR) return false
  let { x: px, y: py } = { x: x0, y: y0 }
  for (const { x: qx, y: qy } of curvePoints(curve).slice(1)) {
    const [dx, dy] = [qx - px, qy - py]
    const along = Math.min(1, Math.max(0, ((x - px) * dx + (y - py) * dy) / (dx * dx + dy * dy || 1)))
    if (Math.hypot(x - px - along * dx, y - py - along * dy) <= NEAR) return true
    ;[px, py] = [qx, qy]
  }
  return false
}

export function visibleTracks(scene: Scene, pinned: boolean): Placed[] {
  if (pinned) return scene.layout.pinned
  const low = scene.scroll
  const high = scene.scroll + scene.height - HEAD - scene.layout.fixed
  return scene.layout.rest.filter((placed) => placed.top + placed.height >= low && placed.top <= high)
}

/** Whether each name of a model matches a search, answered once a name; null without a search. */
export function matchByNumber(
  matches: ((name: string) => boolean) | null,
  names: readonly string[],
): ((name: number) => boolean) | null {
  if (!matches) return null
  const known: boolean[] = []
  return (name) => {
    known[name] ??= matches(names[name])
    return known[name]
  }
}
