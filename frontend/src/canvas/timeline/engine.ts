// The timeline's engine: scene, canvas and requested tiles.

import { clamp } from '../../lib/axisTicks'
import type { KernelClasses } from '../../lib/kernelClasses'
import { type Arrangement, arrangeLanes } from '../../lib/laneOrder'
import type { TileKey } from '../../lib/tiles'
import type { Point } from '../../lib/tooltipPosition'
import type { Move } from '../movableViewport'
import type { Theme } from '../surface'
import type { Range } from '../viewport'
import { type ColorBy, Colors, NOTHING_HIDDEN, Strip } from './colors'
import type { Counters } from './counters'
import { drawTimeline } from './draw'
import { BAR, GUTTER, HEAD, type Layout, layoutTracks, type Placed, rowAt, rowTop, tracksOf } from './layout'
import { type LegendEntry, legendOf } from './legend'
import type { Item, Spot, TimelineModel } from './model'
import {
  type Arrow,
  arrowAt,
  type Bookmark,
  barPoints,
  curveOf,
  curvePoints,
  type Gap,
  matchByNumber,
  type PathMark,
  rowY,
  type Scene,
  type Step,
  toTime,
  toX,
  visibleTracks,
} from './scene'
import { type TimelineEvents, TimelineViewport } from './timelineViewport'

export interface Overlays {
  arrows: readonly Arrow[]
  gaps: readonly Gap[]
  path: readonly PathMark[]
  hits: readonly Spot[]
  /** Events that match the search; null: names decide. */
  hitEvents: ReadonlySet<number> | null
  marks: readonly number[]
  counters: Counters | null
  steps: readonly Step[]
  bookmarks: readonly Bookmark[]
  failures: readonly Bookmark[]
}

export const NO_OVERLAYS: Overlays = {
  arrows: [],
  gaps: [],
  path: [],
  hits: [],
  hitEvents: null,
  marks: [],
  counters: null,
  steps: [],
  bookmarks: [],
  failures: [],
}

/** The initial view: top, default width, no selection. */
export const INITIAL_SCENE = {
  scroll: 0,
  gutter: GUTTER,
  width: 0,
  height: 0,
  selected: null,
  hover: null,
  cursor: null,
  range: null,
}

/** Track positions for their heads and the scroll bar. */
export interface TrackStack {
  layout: Layout
  scroll: number
  gutter: number
  /** Pixels of the area that scrolls. */
  room: number
}

interface EngineEvents extends TimelineEvents {
  /** Tracks moved, or have another size. */
  onTracks(stack: TrackStack): void
}

/** When the first complete picture stood: read by `make bench-timeline`. */
const DRAWN = 'torch-trace-timeline-drawn'
/** Pinned tracks take so much of the height at the most. */
const PINNED = 0.75
/** Arrows that a tooltip avoids. */
const MOST_CLEAR = 20
/** Tiles asked for ahead at the most. */
const AHEAD = 200

export class TimelineEngine extends TimelineViewport {
  readonly model: TimelineModel
  protected readonly events: EngineEvents
  readonly scene: Scene
  private arrangement: Arrangement = { pinned: [], moved: [], filter: '', hidden: [] }
  private lastStack: TrackStack | null = null
  private collapsed: ReadonlySet<string> = new Set()
  private hidden = NOTHING_HIDDEN

  constructor(
    canvas: HTMLCanvasElement,
    model: TimelineModel,
    theme: Theme,
    view: Range,
    events: EngineEvents,
    keysFrom?: readonly Window[],
  ) {
    super(canvas, keysFrom)
    this.model = model
    this.events = events
    this.scene = {
      model,
      view,
      level: 0,
      layout: layoutTracks([], [], 0, this.collapsed, 0),
      theme,
      colors: new Colors(theme, 'kind', model.head, model.store),
      strip: new Strip(),
      match: null,
      picked: [],
      ...INITIAL_SCENE,
      ...NO_OVERLAYS,
    }
    this.place()
  }

  setTheme(theme: Theme): void {
    this.scene.theme = theme
    this.setColors(this.scene.colors.by, this.scene.colors.classes, this.hidden)
  }

  setColors(by: ColorBy, classes: KernelClasses | null, hidden: ReadonlySet<string>): void {
    this.hidden = hidden
    const { head, store } = this.model
    this.scene.colors = new Colors(this.scene.theme, by, head, store, classes, hidden, this.scene.colors)
    this.redraw()
  }

  setSearch(matches: ((name: string) => boolean) | null): void {
    this.scene.match = matchByNumber(matches, this.model.store.names.list)
    this.redraw()
  }

  setSelected(spot: Spot | null): void {
    const before = this.scene.selected
    this.scene.selected = spot
    const stays = before?.lane === spot?.lane && before?.row === spot?.row && before?.start === spot?.start
    if (spot && !stays) this.bring(spot.lane, spot.row)
    this.redraw()
  }

  /** Outlines events that are selected together. */
  setPicked(picked: readonly Spot[]): void {
    this.scene.picked = picked
    this.redraw()
  }

  setTracks(arrangement: Arrangement, collapsed: ReadonlySet<string>): void {
    this.arrangement = arrangement
    this.collapsed = collapsed
    this.place()
  }

  setExtras(extras: Overlays): void {
    const charts = this.scene.counters?.series.length !== extras.counters?.series.length
    Object.assign(this.scene, extras)
    if (charts) this.place()
    this.redraw()
  }

  /** Assigns distinct colours only after all visible tiles are loaded, so that a link always gives the same colours. */
  legend(most: number): LegendEntry[] {
    const { colors } = this.scene
    const entries = legendOf(this.scene, most)
    if (!this.isLoaded(this.visibleTiles())) return entries
    if (!colors.distinguish(entries.map(({ key }) => key))) return entries
    this.redraw()
    return entries.map((entry) => ({ ...entry, color: colors.ofEntry(entry.key) }))
  }

  /** Moves and scrolls to a spot at the same zoom. */
  override reveal(spot: Range & Partial<Spot>, how?: Move): void {
    if (spot.lane !== undefined) this.bring(spot.lane, spot.row ?? 0)
    super.reveal(spot, how)
  }

  /** Scrolls to a row; a closed or hidden track that does not draw it is opened, and scrolled to once it is. */
  private bring(lane: number, row: number): void {
    const placed = this.scene.layout.lanes.get(lane)?.placed
    if (!placed || row >= placed.rows) this.events.onOpen(this.model.lanes[lane].id)
    this.scrollToRow(lane, row)
  }

  /** Scrolls to a track unless it is visible. */
  bringTrack(id: string): void {
    const { layout, scroll } = this.scene
    const placed = layout.rest.find(({ track }) => track.id === id)
    if (!placed) return
    const low = placed.top + Math.min(placed.height, this.room) - this.room
    this.scrollTo(clamp(scroll, low, placed.top))
  }

  private scrollToRow(lane: number, row: number): void {
    const top = this.topOf(lane, row)
    const room = this.roomOf(this.canvas.clientHeight)
    if (top !== null && !this.isWithin(top, room)) this.scrollBy(top - room / 3 - this.scene.scroll)
  }

  /** Top of a row in the scrolled area; null if pinned or hidden. */
  private topOf(lane: number, row: number): number | null {
    const found = this.scene.layout.lanes.get(lane)
    return found && !found.pinned ? rowTop(found.placed, Math.min(row, found.placed.rows - 1)) : null
  }

  private roomOf(height: number): number {
    return height - HEAD - this.scene.layout.fixed
  }

  private isWithin(top: number, room: number): boolean {
    return top >= this.scene.scroll && top + 20 <= this.scene.scroll + room
  }

  scrollBy(pixels: number): void {
    this.scrollTo(this.scene.scroll + pixels)
  }

  scrollTo(pixels: number): void {
    this.scene.scroll = clamp(pixels, 0, Math.max(0, this.scene.layout.content - this.room))
    this.redraw()
  }

  private get room(): number {
    return this.roomOf(this.canvas.clientHeight)
  }

  protected override selectedPoint(): Point | null {
    const { scene } = this
    const y = scene.selected && rowY(scene, scene.selected.lane, scene.selected.row)
    if (!scene.selected || y === null) return null
    return { x: Math.max(scene.gutter, toX(scene, scene.selected.start)) + 1, y: y + BAR / 2 }
  }

  protected override onResize(): void {
    this.place()
  }

  /** Updates the layout; a visible selection keeps its place. */
  private place(): void {
    const { selected, height } = this.scene
    const top = selected && this.topOf(selected.lane, selected.row)
    const stays = top !== null && this.isWithin(top, this.roomOf(height))
    const tracks = tracksOf(this.model.lanes, this.scene.counters?.series ?? [])
    const { order, pinned } = arrangeLanes(tracks, this.arrangement)
    const room = (this.canvas.clientHeight - HEAD) * PINNED
    this.scene.layout = layoutTracks(tracks, order, pinned, this.collapsed, room)
    this.scrollBy(0)
    if (selected && (stays || top === null)) this.scrollToRow(selected.lane, selected.row)
  }

  protected override measure(width: number, height: number): boolean {
    const { scene } = this
    const isDrawable = super.measure(width, height)
    scene.level = this.model.levelFor((scene.view.end - scene.view.start) / this.plot.width)
    return isDrawable
  }

  protected draw(context: CanvasRenderingContext2D): void {
    drawTimeline(context, this.scene)
  }

  /** Requests visible tiles, then neighbours and coarser substitutes. */
  protected override afterDraw(): void {
    this.report()
    const { scene, model } = this
    const { view, level } = scene
    const groups = this.visibleGroups()
    const now = this.visibleTiles(groups)
    const span = view.end - view.start
    const around = { start: view.start - span, end: view.end + span }
    const coarser = Math.min(level + 1, model.head.levels.length - 1)
    const ahead: TileKey[] = [
      ...model.tiles(coarser, groups, around),
      ...model.tiles(level, groups, around),
      ...model.tiles(model.head.levels.length - 1, groups, view),
    ]
    model.store.want([...now, ...ahead.slice(0, AHEAD)])
    if (now.length > 0 && performance.getEntriesByName(DRAWN).length === 0 && this.isLoaded(now))
      performance.mark(DRAWN)
  }

  private visibleGroups(): Set<number> {
    const groups = new Set<number>()
    for (const { track } of [...visibleTracks(this.scene, true), ...visibleTracks(this.scene, false)])
      if (track.kind === 'lane') groups.add(this.model.lanes[track.lane].group)
    return groups
  }

  private visibleTiles(groups = this.visibleGroups()): TileKey[] {
    return this.model.tiles(this.scene.level, groups, this.scene.view)
  }

  private isLoaded(tiles: readonly TileKey[]): boolean {
    return tiles.every((tile) => this.model.store.has(tile))
  }

  private report(): void {
    const { layout, scroll, gutter } = this.scene
    const now: TrackStack = { layout, scroll, gutter, room: this.room }
    const before = this.lastStack
    if (before && (Object.keys(now) as (keyof TrackStack)[]).every((key) => now[key] === before[key])) return
    this.lastStack = now
    this.events.onTracks(now)
  }

  private placedAt(y: number): { placed: Placed; inside: number } | null {
    const { layout, scroll } = this.scene
    const below = y - HEAD
    const pinned = below < layout.fixed
    const inside = pinned ? below : below - layout.fixed + scroll
    const placed = (pinned ? layout.pinned : layout.rest).find(
      (one) => inside >= one.top && inside < one.top + one.height,
    )
    return placed ? { placed, inside } : null
  }

  protected titleAt(y: number): string | null {
    return this.placedAt(y)?.placed.track.id ?? null
  }

  protected arrowAt(x: number, y: number): Arrow | null {
    return arrowAt(this.scene, x, y)
  }

  protected neighbour(key: string): Item | null {
    const { selected, level, view } = this.scene
    return selected && this.model.neighbour(level, view, selected, key)
  }

  protected itemAt(x: number, y: number): Item | null {
    const { scene } = this
    if (x < scene.gutter || y < HEAD) return null
    const found = this.placedAt(y)
    if (found?.placed.track.kind !== 'lane') return null
    const row = rowAt(found.placed, found.inside)
    const off = found.inside - rowTop(found.placed, row)
    if (off < -1 || off > 16) return null
    const slack = ((scene.view.end - scene.view.start) / (scene.width - scene.gutter)) * 3
    const item = scene.model.itemAt(scene.level, found.placed.track.lane, row, toTime(scene, x), slack)
    return item && scene.colors.hidesItem(item) ? null : item
  }

  /** Places of the canvas that a tooltip should leave free: the event's bar, and arrows. */
  keepClear(item: Item | null, arrow: Arrow | null): Point[] {
    const { scene } = this
    const bar = item ? barPoints(scene, item) : []
    const arrows = arrow ? [arrow] : scene.arrows.slice(0, MOST_CLEAR)
    return [...bar, ...arrows.flatMap((one) => curvePoints(curveOf(scene, one)))]
  }
}
