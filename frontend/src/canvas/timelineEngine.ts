// The timeline's hands: wheel, drag, keys and clicks move a window over a model and ask for a redraw. One class, one
// state machine of the pointer: splitting it would only pass the same fields around.

import type { Timeline } from '../api/payloads'
import { clamp } from '../lib/scale'
import { fit as sharpen, type Theme } from './surface'
import {
  contentHeight,
  draw,
  GUTTER,
  HEAD,
  layout,
  type Placed,
  type Range,
  rowAt,
  rowTop,
  type Scene,
  STRIP,
  toTime,
  toX,
} from './timelineDraw'
import { eventAt, neighbour, overview, positionOf, prepare, type TimelineModel } from './timelineModel'

export interface TimelineEvents {
  /** The window moved (already clamped); called on every change. */
  onView(view: Range): void
  /** A click: the position in the model, -1 = nothing there. */
  onPick(index: number): void
  onHover(index: number, x: number, y: number): void
  /** Shift + drag measured a range; null = cleared. */
  onRange(range: Range | null): void
  onCollapse(collapsed: ReadonlySet<number>): void
}

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

export class TimelineEngine {
  private readonly canvas: HTMLCanvasElement
  private readonly events: TimelineEvents
  private readonly abort = new AbortController()
  private readonly observer: ResizeObserver
  private readonly calm: boolean
  private model: TimelineModel | null = null
  private scene: Scene | null = null
  private theme: Theme
  private placed: Placed[] = []
  private strip: Scene['overview'] = null
  private matches: ((name: string) => boolean) | null = null
  private view: Range | null = null
  private drag: Drag | null = null
  private frame = 0
  private readonly held = new Set<string>()
  private holding = 0

  constructor(canvas: HTMLCanvasElement, theme: Theme, events: TimelineEvents) {
    this.canvas = canvas
    this.theme = theme
    this.events = events
    this.calm = window.matchMedia('(prefers-reduced-motion: reduce)').matches
    this.observer = new ResizeObserver(() => this.redraw())
    this.observer.observe(canvas)
    this.listen()
  }

  destroy(): void {
    this.abort.abort()
    this.observer.disconnect()
    cancelAnimationFrame(this.frame)
    cancelAnimationFrame(this.holding)
  }

  get width(): number {
    return this.canvas.clientWidth
  }

  /** Pixels that show time. */
  get plotWidth(): number {
    return Math.max(100, this.canvas.clientWidth - GUTTER)
  }

  setData(payload: Timeline): TimelineModel {
    const model = prepare(payload)
    const old = this.scene
    const sameTracks = old && old.model.tracks.length === model.tracks.length
    this.model = model
    this.view ??= { start: model.loadedStart, end: Math.max(model.loadedEnd, model.loadedStart + 1) }
    this.scene = {
      model,
      view: this.view,
      scroll: old?.scroll ?? 0,
      width: 0,
      height: 0,
      theme: this.theme,
      collapsed: sameTracks ? old.collapsed : new Set(),
      overview: this.strip,
      match: null,
      selected: old?.selected ?? null,
      hover: -1,
      range: old?.range ?? null,
    }
    this.place()
    this.applySearch()
    this.redraw()
    return model
  }

  setOverview(payload: Timeline): void {
    this.strip = overview(prepare(payload), 1200)
    if (this.scene) this.scene.overview = this.strip
    this.redraw()
  }

  setTheme(theme: Theme): void {
    this.theme = theme
    if (this.scene) this.scene.theme = theme
    this.redraw()
  }

  setSearch(matches: ((name: string) => boolean) | null): void {
    this.matches = matches
    this.applySearch()
    this.redraw()
  }

  setSelected(event: number | null): void {
    if (this.scene) this.scene.selected = event
    this.redraw()
  }

  setRange(range: Range | null): void {
    if (this.scene) this.scene.range = range
    this.redraw()
  }

  setCollapsed(collapsed: ReadonlySet<number>): void {
    if (!this.scene) return
    this.scene.collapsed = collapsed
    this.place()
    this.redraw()
  }

  /** Moves the window without telling anyone: the URL already knows. */
  setView(view: Range): void {
    this.view = view
    if (this.scene) this.scene.view = view
    this.redraw()
  }

  zoom(factor: number, at = 0.5): void {
    const view = this.view
    if (!view) return
    const span = view.end - view.start
    const pivot = view.start + span * at
    this.move(pivot - span * factor * at, span * factor)
  }

  pan(fraction: number): void {
    if (this.view)
      this.move(this.view.start + (this.view.end - this.view.start) * fraction, this.view.end - this.view.start)
  }

  reset(): void {
    if (this.model) this.move(this.model.windowStart, this.model.windowEnd - this.model.windowStart)
  }

  show(range: Range): void {
    this.move(range.start, range.end - range.start)
  }

  /** Moves the window, at the zoom it has, so far that the range is in sight. */
  reveal({ start, end }: Range): void {
    const view = this.view
    if (!view || (end >= view.start && start <= view.end)) return
    const span = view.end - view.start
    this.move((start + end - span) / 2, span)
  }

  private move(start: number, span: number): void {
    const model = this.model
    if (!model) return
    const whole = model.windowEnd - model.windowStart
    const wide = clamp(span, Math.min(whole, 200), whole)
    const from = clamp(start, model.windowStart, model.windowEnd - wide)
    const view = { start: Math.round(from), end: Math.round(from + wide) }
    this.setView(view)
    this.events.onView(view)
  }

  private scrollBy(pixels: number): void {
    if (!this.scene) return
    const most = Math.max(0, contentHeight(this.placed) - (this.canvas.clientHeight - HEAD))
    this.scene.scroll = clamp(this.scene.scroll + pixels, 0, most)
    this.redraw()
  }

  private place(): void {
    if (this.scene) this.placed = layout(this.scene.model, this.scene.collapsed)
    this.scrollBy(0)
  }

  private applySearch(): void {
    const { scene, matches } = this
    if (!scene) return
    scene.match = matches ? Uint8Array.from(scene.model.names, (name) => (matches(name) ? 1 : 0)) : null
  }

  private redraw(): void {
    if (this.frame) return
    this.frame = requestAnimationFrame(() => {
      this.frame = 0
      const scene = this.scene
      if (!scene) return
      scene.width = this.canvas.clientWidth
      scene.height = this.canvas.clientHeight
      if (scene.width < GUTTER + 20 || scene.height < HEAD) return
      const context = sharpen(this.canvas, scene.width, scene.height)
      if (context) draw(context, scene)
    })
  }

  private hit(x: number, y: number): number {
    const scene = this.scene
    if (!scene || x < GUTTER || y < HEAD) return -1
    const inside = y - HEAD + scene.scroll
    const placed = this.placed.find((track) => inside >= track.top && inside < track.top + track.height)
    if (!placed) return -1
    const row = rowAt(placed, inside)
    const off = inside - rowTop(placed, row)
    if (off < -1 || off > 16) return -1
    const slack = ((scene.view.end - scene.view.start) / (scene.width - GUTTER)) * 3
    return eventAt(scene.model, placed.track, row, toTime(scene, x), slack)
  }

  private listen(): void {
    const { canvas } = this
    const signal = this.abort.signal
    canvas.addEventListener('wheel', (event) => this.onWheel(event), { passive: false, signal })
    canvas.addEventListener('pointerdown', (event) => this.onDown(event), { signal })
    canvas.addEventListener('pointermove', (event) => this.onMove(event), { signal })
    canvas.addEventListener('pointerup', (event) => this.onUp(event), { signal })
    canvas.addEventListener('pointerleave', () => this.hover(-1, 0, 0), { signal })
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
    const scene = this.scene
    if (!scene || event.button !== 0) return
    this.canvas.focus({ preventScroll: true })
    this.canvas.setPointerCapture(event.pointerId)
    const mode = event.offsetY < STRIP ? 'strip' : event.shiftKey || event.offsetY < HEAD ? 'range' : 'pan'
    this.drag = { mode, x: event.offsetX, y: event.offsetY, view: scene.view, scroll: scene.scroll, moved: false }
    if (mode === 'strip') this.toStrip(event.offsetX)
  }

  private toStrip(x: number): void {
    if (!this.model || !this.view || x < GUTTER) return
    const whole = this.model.windowEnd - this.model.windowStart
    const span = this.view.end - this.view.start
    this.move(this.model.windowStart + ((x - GUTTER) / this.plotWidth) * whole - span / 2, span)
  }

  private onMove(event: PointerEvent): void {
    const { drag, scene } = this
    if (!scene) return
    if (!drag) {
      this.canvas.style.cursor =
        event.offsetX < GUTTER && event.offsetY > HEAD
          ? 'pointer'
          : event.offsetY < HEAD && event.offsetY > STRIP
            ? 'col-resize'
            : 'default'
      this.hover(this.hit(event.offsetX, event.offsetY), event.offsetX, event.offsetY)
      return
    }
    const [dx, dy] = [event.offsetX - drag.x, event.offsetY - drag.y]
    if (!drag.moved && Math.abs(dx) + Math.abs(dy) < 4) return
    drag.moved = true
    this.hover(-1, 0, 0)
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
    const scene = this.scene
    if (!scene) return
    const [a, b] = [toTime(scene, Math.max(GUTTER, from)), toTime(scene, clamp(to, GUTTER, scene.width))]
    scene.range = { start: Math.round(Math.min(a, b)), end: Math.round(Math.max(a, b)) }
    this.redraw()
  }

  private onUp(event: PointerEvent): void {
    const { drag, scene } = this
    this.drag = null
    this.canvas.style.cursor = 'default'
    if (!drag || !scene) return
    if (drag.moved) {
      if (drag.mode === 'range') this.events.onRange(scene.range)
      return
    }
    if (drag.mode === 'strip') return
    if (event.offsetX < GUTTER && event.offsetY > HEAD) {
      this.toggleAt(event.offsetY - HEAD + scene.scroll)
      return
    }
    if (scene.range) {
      scene.range = null
      this.events.onRange(null)
    }
    this.events.onPick(this.hit(event.offsetX, event.offsetY))
  }

  private toggleAt(inside: number): void {
    const scene = this.scene
    const placed = this.placed.find((track) => inside >= track.top && inside < track.top + track.height)
    if (!scene || !placed) return
    const next = new Set(scene.collapsed)
    if (!next.delete(placed.track)) next.add(placed.track)
    this.setCollapsed(next)
    this.events.onCollapse(next)
  }

  private onDouble(event: MouseEvent): void {
    const index = this.hit(event.offsetX, event.offsetY)
    const model = this.model
    if (index < 0 || !model) return
    const dur = Math.max(model.dur[index], 100)
    this.move(model.start[index] - dur * 0.1, dur * 1.2)
  }

  private hover(index: number, x: number, y: number): void {
    if (!this.scene) return
    if (this.scene.hover !== index) {
      this.scene.hover = index
      this.redraw()
    }
    this.events.onHover(index, x, y)
  }

  private onKey(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key
    if (event.key === 'Escape') {
      this.setRange(null)
      this.events.onRange(null)
      this.events.onPick(-1)
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
    const chosen = this.chosen() ?? this.scene?.range
    if (!chosen) return
    const span = Math.max(chosen.end - chosen.start, 100)
    this.move(chosen.start - span * 0.1, span * 1.2)
  }

  /** Marks the time of the selected event, else all that is in sight. */
  private mark(): void {
    const range = this.chosen() ?? this.view
    if (!range || range.end <= range.start) return
    this.setRange({ ...range })
    this.events.onRange({ ...range })
  }

  /** From the selected event to its neighbour; false when none is selected, so that the arrows move the window. */
  private walk(key: string): boolean {
    const { model, scene } = this
    const from = model && scene ? positionOf(model, scene.selected) : -1
    if (!model || from < 0) return false
    const next = neighbour(model, from, key)
    if (next < 0) return true
    this.events.onPick(next)
    this.reveal({ start: model.start[next], end: model.start[next] + model.dur[next] })
    return true
  }

  private chosen(): Range | null {
    const { model, scene } = this
    const index = model && scene ? positionOf(model, scene.selected) : -1
    return !model || index < 0 ? null : { start: model.start[index], end: model.start[index] + model.dur[index] }
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
    else if (key === 'Home' && this.model) this.pan(-1e9)
    else if (key === 'End') this.pan(1e9)
  }

  /** Where an event is on the screen, for tests and for bringing a selection into sight. */
  placeOf(index: number): { x: number; y: number } | null {
    const scene = this.scene
    if (!scene) return null
    return { x: toX(scene, scene.model.start[index]), y: HEAD }
  }
}
