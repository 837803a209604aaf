// The timeline's engine: a scene, the canvas that shows it, and the tiles that it wants. Its hands are timelineHands.ts.
import { type Arrangement, arrange } from '../lib/arrange'
import { clamp } from '../lib/scale'
import type { TileKey } from '../lib/tiles'
import { fit as sharpen, type Theme } from './surface'
import { type ColorBy, Colors, Strip } from './timelineColors'
import type { Counters } from './timelineCounters'
import { draw } from './timelineDraw'
import { type TimelineEvents, TimelineHands } from './timelineHands'
import { GUTTER, HEAD, layout, type Placed, rowAt, rowTop, tracksOf } from './timelineLayout'
import type { Item, Range, Spot, TimelineModel } from './timelineModel'
import { type Arrow, type Gap, inSight, type Scene, type Step, toTime } from './timelineScene'

/** What is shown besides the items. */
export interface Extras {
  arrows: readonly Arrow[]
  gaps: readonly Gap[]
  hits: readonly Spot[]
  marks: readonly number[]
  counters: Counters | null
  steps: readonly Step[]
}

export const NO_EXTRAS: Extras = { arrows: [], gaps: [], hits: [], marks: [], counters: null, steps: [] }

/** When the first complete picture stood: read by `make bench-timeline`. */
const DRAWN = 'torch-trace-timeline-drawn'
/** Nanoseconds of the closest zoom. */
export const NARROWEST = 200
/** Pinned tracks take so much of the height at the most. */
const PINNED = 0.75
/** Tiles asked for ahead at the most. */
const AHEAD = 200

export class TimelineEngine {
  private readonly canvas: HTMLCanvasElement
  readonly model: TimelineModel
  private readonly events: TimelineEvents
  private readonly hands: TimelineHands
  private readonly observer: ResizeObserver
  readonly scene: Scene
  private arrangement: Arrangement = { pinned: [], moved: [], filter: '' }
  private collapsed: ReadonlySet<string> = new Set()
  private frame = 0

  constructor(canvas: HTMLCanvasElement, model: TimelineModel, theme: Theme, view: Range, events: TimelineEvents) {
    this.canvas = canvas
    this.model = model
    this.events = events
    this.scene = {
      model,
      view,
      level: 0,
      layout: layout([], [], 0, this.collapsed, 0),
      scroll: 0,
      width: 0,
      height: 0,
      theme,
      colors: new Colors(theme, 'kind', model.head.categories, model.store),
      strip: new Strip(),
      match: null,
      selected: null,
      hover: null,
      cursor: null,
      range: null,
      ...NO_EXTRAS,
    }
    this.place()
    this.observer = new ResizeObserver(() => this.place())
    this.observer.observe(canvas)
    this.hands = new TimelineHands(canvas, this, events)
  }

  destroy(): void {
    this.hands.destroy()
    this.observer.disconnect()
    cancelAnimationFrame(this.frame)
  }

  /** Pixels that show time. */
  get plotWidth(): number {
    return Math.max(100, this.canvas.clientWidth - GUTTER)
  }

  setTheme(theme: Theme): void {
    this.scene.theme = theme
    this.setColors(this.scene.colors.by)
  }

  setColors(by: ColorBy): void {
    this.scene.colors = new Colors(this.scene.theme, by, this.model.head.categories, this.model.store)
    this.redraw()
  }

  setSearch(matches: ((name: string) => boolean) | null): void {
    const known: boolean[] = []
    const names = this.model.store.names.list
    this.scene.match =
      matches &&
      ((name) => {
        known[name] ??= matches(names[name])
        return known[name]
      })
    this.redraw()
  }

  setSelected(spot: Spot | null): void {
    this.scene.selected = spot
    this.redraw()
  }

  setRange(range: Range | null): void {
    this.scene.range = range
    this.redraw()
  }

  setTracks(arrangement: Arrangement, collapsed: ReadonlySet<string>): void {
    this.arrangement = arrangement
    this.collapsed = collapsed
    this.place()
  }

  setExtras(extras: Extras): void {
    const charts = this.scene.counters?.series.length !== extras.counters?.series.length
    Object.assign(this.scene, extras)
    if (charts) this.place()
    this.redraw()
  }

  /** Moves the window without telling anyone: the URL already knows. */
  setView(view: Range): void {
    this.scene.view = view
    this.redraw()
  }

  zoom(factor: number, at = 0.5): void {
    const { view } = this.scene
    const span = view.end - view.start
    const pivot = view.start + span * at
    this.move(pivot - span * factor * at, span * factor)
  }

  pan(fraction: number): void {
    const { start, end } = this.scene.view
    this.move(start + (end - start) * fraction, end - start)
  }

  reset(): void {
    this.move(this.model.start, this.model.end - this.model.start)
  }

  show(range: Range): void {
    this.move(range.start, range.end - range.start)
  }

  /** Moves the window, at the zoom it has, and scrolls so far that the spot is in sight. */
  reveal(spot: Range & Partial<Spot>): void {
    const { view } = this.scene
    if (spot.lane !== undefined) this.scrollTo(spot.lane, spot.row ?? 0)
    if (spot.end >= view.start && spot.start <= view.end) return
    const span = view.end - view.start
    this.move((spot.start + spot.end - span) / 2, span)
  }

  private scrollTo(lane: number, row: number): void {
    const { layout, scroll } = this.scene
    const found = layout.lanes.get(lane)
    if (!found || found.pinned) return
    const top = rowTop(found.placed, row)
    const room = this.canvas.clientHeight - HEAD - layout.fixed
    if (top < scroll || top + 20 > scroll + room) this.scrollBy(top - room / 3 - scroll)
  }

  move(start: number, span: number): void {
    const { model } = this
    const whole = model.end - model.start
    const wide = clamp(span, Math.min(whole, NARROWEST), whole)
    const from = clamp(start, model.start, model.end - wide)
    const view = { start: Math.round(from), end: Math.round(from + wide) }
    this.setView(view)
    this.events.onView(view)
  }

  scrollBy(pixels: number): void {
    const { layout } = this.scene
    const most = Math.max(0, layout.content - (this.canvas.clientHeight - HEAD - layout.fixed))
    this.scene.scroll = clamp(this.scene.scroll + pixels, 0, most)
    this.redraw()
  }

  private place(): void {
    const tracks = tracksOf(this.model.lanes, this.scene.counters?.series ?? [])
    const { order, pinned } = arrange(tracks, this.arrangement)
    const room = (this.canvas.clientHeight - HEAD) * PINNED
    this.scene.layout = layout(tracks, order, pinned, this.collapsed, room)
    this.scrollBy(0)
  }

  redraw(): void {
    if (this.frame) return
    this.frame = requestAnimationFrame(() => {
      this.frame = 0
      const { scene } = this
      scene.width = this.canvas.clientWidth
      scene.height = this.canvas.clientHeight
      if (scene.width < GUTTER + 20 || scene.height < HEAD) return
      scene.level = this.model.levelFor((scene.view.end - scene.view.start) / this.plotWidth)
      const context = sharpen(this.canvas, scene.width, scene.height)
      if (context) draw(context, scene)
      this.want()
    })
  }

  /** Tiles of what is in sight, then those around it and the coarser ones that stand in until finer ones come. */
  private want(): void {
    const { scene, model } = this
    const { view, level } = scene
    const groups = new Set<number>()
    for (const { track } of [...inSight(scene, true), ...inSight(scene, false)])
      if (track.kind === 'lane') groups.add(model.lanes[track.lane].group)
    const now = model.tiles(level, groups, view)
    const span = view.end - view.start
    const around = { start: view.start - span, end: view.end + span }
    const coarser = Math.min(level + 1, model.head.levels.length - 1)
    const ahead: TileKey[] = [
      ...model.tiles(coarser, groups, around),
      ...model.tiles(level, groups, around),
      ...model.tiles(model.head.levels.length - 1, groups, view),
    ]
    model.store.want([...now, ...ahead.slice(0, AHEAD)])
    if (
      now.length > 0 &&
      performance.getEntriesByName(DRAWN).length === 0 &&
      now.every((tile) => model.store.has(tile))
    )
      performance.mark(DRAWN)
  }

  placedAt(y: number): { placed: Placed; inside: number } | null {
    const { layout, scroll } = this.scene
    const below = y - HEAD
    const pinned = below < layout.fixed
    const inside = pinned ? below : below - layout.fixed + scroll
    const placed = (pinned ? layout.pinned : layout.rest).find(
      (one) => inside >= one.top && inside < one.top + one.height,
    )
    return placed ? { placed, inside } : null
  }

  hit(x: number, y: number): Item | null {
    const { scene } = this
    if (x < GUTTER || y < HEAD) return null
    const found = this.placedAt(y)
    if (found?.placed.track.kind !== 'lane') return null
    const row = rowAt(found.placed, found.inside)
    const off = found.inside - rowTop(found.placed, row)
    if (off < -1 || off > 16) return null
    const slack = ((scene.view.end - scene.view.start) / (scene.width - GUTTER)) * 3
    return scene.model.itemAt(scene.level, found.placed.track.lane, row, toTime(scene, x), slack)
  }
}
