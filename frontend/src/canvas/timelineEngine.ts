// The timeline's hands: wheel, drag, keys and clicks move a window over a model and ask for a redraw. One class, one
// state machine of the pointer: splitting it would only pass the same fields around.

import { type Arrangement, arrange } from '../lib/arrange'
import { clamp } from '../lib/scale'
import type { TileKey } from '../lib/tiles'
import { fit as sharpen, type Theme } from './surface'
import { type ColorBy, Colors, Strip } from './timelineColors'
import type { Counters } from './timelineCounters'
import { type Arrow, draw, type Gap, inSight, type Scene, toTime } from './timelineDraw'
import { GUTTER, HEAD, layout, type Placed, rowAt, rowTop, STRIP, tracksOf } from './timelineLayout'
import type { Item, Range, Spot, TimelineModel } from './timelineModel'

export interface TimelineEvents {
  /** The window moved (already clamped); called on every change. */
  onView(view: Range): void
  /** A click or a key chose an item; null = nothing. */
  onPick(item: Item | null): void
  onHover(item: Item | null, x: number, y: number): void
  /** A range was measured; null = cleared. */
  onRange(range: Range | null): void
  /** The id of a track whose title was clicked. */
  onToggle(id: string): void
}

/** What is shown besides the items. */
export interface Extras {
  arrows: readonly Arrow[]
  gaps: readonly Gap[]
  hits: readonly Spot[]
  marks: readonly number[]
  counters: Counters | null
}

export const NO_EXTRAS: Extras = { arrows: [], gaps: [], hits: [], marks: [], counters: null }

/** When the first complete picture stood: read by `make bench-timeline`. */
const DRAWN = 'torch-trace-timeline-drawn'
/** Nanoseconds of the closest zoom. */
export const NARROWEST = 200
/** Pinned tracks take so much of the height at the most. */
const PINNED = 0.75
/** Tiles asked for ahead at the most. */
const AHEAD = 200

const KEYS = new Set([
  'w',
  'a',
  's',
  'd',
  'ArrowLeft',
  'ArrowRight',
  'ArrowUp',
  'ArrowDown',
  '+',
  '=',
  '-',
  'PageUp',
  'PageDown',
  'Home',
  'End',
])

type Drag = { mode: 'pan' | 'range' | 'strip'; x: number; y: number; view: Range; scroll: number; moved: boolean }
type Pinch = { view: Range; distance: number; time: number }

export class TimelineEngine {
  private readonly canvas: HTMLCanvasElement
  private readonly model: TimelineModel
  private readonly events: TimelineEvents
  private readonly abort = new AbortController()
  private readonly observer: ResizeObserver
  private readonly calm: boolean
  private readonly scene: Scene
  private arrangement: Arrangement = { pinned: [], moved: [], filter: '' }
  private collapsed: ReadonlySet<string> = new Set()
  private drag: Drag | null = null
  private readonly pointers = new Map<number, { x: number; y: number }>()
  private pinch: Pinch | null = null
  private frame = 0
  private readonly held = new Set<string>()
  private holding = 0

  constructor(canvas: HTMLCanvasElement, model: TimelineModel, theme: Theme, view: Range, events: TimelineEvents) {
    this.canvas = canvas
    this.model = model
    this.events = events
    this.calm = window.matchMedia('(prefers-reduced-motion: reduce)').matches
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
    this.listen()
  }

  destroy(): void {
    this.abort.abort()
    this.observer.disconnect()
    cancelAnimationFrame(this.frame)
    cancelAnimationFrame(this.holding)
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

  private move(start: number, span: number): void {
    const { model } = this
    const whole = model.end - model.start
    const wide = clamp(span, Math.min(whole, NARROWEST), whole)
    const from = clamp(start, model.start, model.end - wide)
    const view = { start: Math.round(from), end: Math.round(from + wide) }
    this.setView(view)
    this.events.onView(view)
  }

  private scrollBy(pixels: number): void {
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

  private hit(x: number, y: number): Item | null {
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

  private listen(): void {
    const { canvas } = this
    const signal = this.abort.signal
    canvas.addEventListener('wheel', (event) => this.onWheel(event), { passive: false, signal })
    canvas.addEventListener('pointerdown', (event) => this.onDown(event), { signal })
    canvas.addEventListener('pointermove', (event) => this.onMove(event), { signal })
    canvas.addEventListener('pointerup', (event) => this.onUp(event), { signal })
    canvas.addEventListener('pointercancel', (event) => this.onCancel(event), { signal })
    canvas.addEventListener('pointerleave', () => this.leave(), { signal })
    canvas.addEventListener('dblclick', (event) => this.onDouble(event), { signal })
    canvas.addEventListener('keydown', (event) => this.onKey(event), { signal })
    canvas.addEventListener('keyup', (event) => this.held.delete(event.key), { signal })
    canvas.addEventListener('blur', () => this.held.clear(), { signal })
  }

  private onWheel(event: WheelEvent): void {
    event.preventDefault()
    const pixels = event.deltaMode === 1 ? 16 : 1
    if (event.shiftKey || event.offsetX < GUTTER) {
      this.scrollBy((event.deltaY || event.deltaX) * pixels)
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.pan((event.deltaX * pixels) / this.plotWidth)
    } else {
      const at = clamp((event.offsetX - GUTTER) / this.plotWidth, 0, 1)
      this.zoom(Math.exp(clamp(event.deltaY * pixels, -240, 240) * 0.0022), at)
    }
  }

  private onDown(event: PointerEvent): void {
    const { scene } = this
    if (event.button !== 0) return
    this.canvas.focus({ preventScroll: true })
    this.canvas.setPointerCapture(event.pointerId)
    this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY })
    if (this.pointers.size === 2) {
      const { distance, middle } = this.fingers()
      this.pinch = { view: scene.view, distance: Math.max(10, distance), time: toTime(scene, middle) }
      this.drag = null
      return
    }
    const mode = event.offsetY < STRIP ? 'strip' : event.shiftKey || event.offsetY < HEAD ? 'range' : 'pan'
    this.drag = { mode, x: event.offsetX, y: event.offsetY, view: scene.view, scroll: scene.scroll, moved: false }
    if (mode === 'strip') this.toStrip(event.offsetX)
  }

  private fingers(): { distance: number; middle: number } {
    const [a, b] = [...this.pointers.values()]
    return { distance: Math.hypot(a.x - b.x, a.y - b.y), middle: (a.x + b.x) / 2 }
  }

  private toStrip(x: number): void {
    if (x < GUTTER) return
    const { start, end } = this.scene.view
    const whole = this.model.end - this.model.start
    this.move(this.model.start + ((x - GUTTER) / this.plotWidth) * whole - (end - start) / 2, end - start)
  }

  private onMove(event: PointerEvent): void {
    const { drag, scene, pinch } = this
    if (this.pointers.has(event.pointerId)) this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY })
    if (pinch && this.pointers.size === 2) {
      // The time that was between the fingers stays there.
      const { distance, middle } = this.fingers()
      const span = ((pinch.view.end - pinch.view.start) * pinch.distance) / Math.max(10, distance)
      this.move(pinch.time - ((middle - GUTTER) / this.plotWidth) * span, span)
      return
    }
    if (!drag) {
      this.canvas.style.cursor =
        event.offsetX < GUTTER && event.offsetY > HEAD
          ? 'pointer'
          : event.offsetY < HEAD && event.offsetY > STRIP
            ? 'col-resize'
            : 'default'
      scene.cursor = event.offsetX >= GUTTER ? toTime(scene, event.offsetX) : null
      this.hover(this.hit(event.offsetX, event.offsetY), event.offsetX, event.offsetY)
      this.redraw()
      return
    }
    const [dx, dy] = [event.offsetX - drag.x, event.offsetY - drag.y]
    if (!drag.moved && Math.abs(dx) + Math.abs(dy) < 4) return
    drag.moved = true
    scene.cursor = null
    this.hover(null, 0, 0)
    if (drag.mode === 'strip') this.toStrip(event.offsetX)
    else if (drag.mode === 'range') this.measure(drag.x, event.offsetX)
    else {
      this.canvas.style.cursor = 'grabbing'
      const perPixel = (drag.view.end - drag.view.start) / this.plotWidth
      this.move(drag.view.start - dx * perPixel, drag.view.end - drag.view.start)
      this.scrollBy(drag.scroll - dy - scene.scroll)
    }
  }

  private measure(from: number, to: number): void {
    const { scene } = this
    const [a, b] = [toTime(scene, Math.max(GUTTER, from)), toTime(scene, clamp(to, GUTTER, scene.width))]
    scene.range = { start: Math.round(Math.min(a, b)), end: Math.round(Math.max(a, b)) }
    this.redraw()
  }

  private onCancel(event: PointerEvent): void {
    this.pointers.delete(event.pointerId)
    this.drag = null
    this.pinch = null
  }

  private onUp(event: PointerEvent): void {
    const { drag, scene } = this
    this.onCancel(event)
    this.canvas.style.cursor = 'default'
    if (!drag) return
    if (drag.moved) {
      if (drag.mode === 'range') this.events.onRange(scene.range)
      return
    }
    if (drag.mode === 'strip') return
    if (event.offsetX < GUTTER && event.offsetY > HEAD) {
      const found = this.placedAt(event.offsetY)
      if (found) this.events.onToggle(found.placed.track.id)
      return
    }
    if (scene.range) {
      this.setRange(null)
      this.events.onRange(null)
    }
    this.events.onPick(this.hit(event.offsetX, event.offsetY))
  }

  private onDouble(event: MouseEvent): void {
    const item = this.hit(event.offsetX, event.offsetY)
    if (!item) return
    const dur = Math.max(item.dur, 100)
    this.move(item.start - dur * 0.1, dur * 1.2)
  }

  private leave(): void {
    this.scene.cursor = null
    this.hover(null, 0, 0)
    this.redraw()
  }

  private hover(item: Item | null, x: number, y: number): void {
    this.scene.hover = item
    this.events.onHover(item, x, y)
  }

  private onKey(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key
    if (event.key === 'Escape') {
      this.setRange(null)
      this.events.onRange(null)
      this.events.onPick(null)
      return
    }
    if (key === '0') this.reset()
    if (key === 'f') this.fit()
    if (key === 'm') this.mark()
    if (!KEYS.has(key)) return
    event.preventDefault()
    if (event.key.startsWith('Arrow') && this.walk(event.key)) return
    if (this.calm) {
      this.step(key, 120)
      return
    }
    this.held.add(event.key)
    if (this.holding === 0) this.loop(performance.now(), true)
  }

  /** Shows the selected event, else the marked range, with a little around it. */
  private fit(): void {
    const chosen = this.scene.selected ?? this.scene.range
    if (!chosen) return
    const span = Math.max(chosen.end - chosen.start, 100)
    this.move(chosen.start - span * 0.1, span * 1.2)
  }

  /** Marks the time of the selected event, else all that is in sight. */
  private mark(): void {
    const { start, end } = this.scene.selected ?? this.scene.view
    if (end <= start) return
    this.setRange({ start, end })
    this.events.onRange({ start, end })
  }

  /** From the selected event to its neighbour; false when none is selected, so that the arrows move the window. */
  private walk(key: string): boolean {
    const { selected, level, view } = this.scene
    if (!selected) return false
    const next = this.model.neighbour(level, view, selected, key)
    if (!next) return true
    this.events.onPick(next)
    this.reveal({ lane: next.lane, row: next.row, start: next.start, end: next.start + next.dur })
    return true
  }

  /** While keys are held the window glides; a tap moves one notch. */
  private loop(before: number, first: boolean): void {
    this.holding = requestAnimationFrame((now) => {
      const elapsed = first ? 60 : Math.min(50, now - before)
      for (const key of this.held) this.step(key.length === 1 ? key.toLowerCase() : key, elapsed)
      this.holding = 0
      if (this.held.size > 0) this.loop(now, false)
    })
  }

  private step(key: string, ms: number): void {
    const amount = ms / 1000
    if (key === 'w' || key === '+' || key === '=') this.zoom(Math.exp(-2.2 * amount))
    else if (key === 's' || key === '-') this.zoom(Math.exp(2.2 * amount))
    else if (key === 'a' || key === 'ArrowLeft') this.pan(-1.2 * amount)
    else if (key === 'd' || key === 'ArrowRight') this.pan(1.2 * amount)
    else if (key === 'ArrowUp') this.scrollBy(-500 * amount)
    else if (key === 'ArrowDown') this.scrollBy(500 * amount)
    else if (key === 'PageUp') this.scrollBy(-2400 * amount)
    else if (key === 'PageDown') this.scrollBy(2400 * amount)
    else if (key === 'Home') this.pan(-1e9)
    else if (key === 'End') this.pan(1e9)
  }
}
