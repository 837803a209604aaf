// The timeline's hands: wheel, drag, pinch, keys and clicks, told to the engine. One state machine of the pointer: splitting
// it would only pass the same fields around.
import { clamp } from '../lib/scale'
import type { TimelineEngine } from './timelineEngine'
import { AXIS, GUTTER, HEAD, STRIP } from './timelineLayout'
import type { Item, Range, Spot } from './timelineModel'
import { toTime } from './timelineScene'

export interface TimelineEvents {
  /** The window moved (already clamped); called on every change. */
  onView(view: Range): void
  /** A click or a key chose an item; null = nothing. */
  onPick(item: Item | null): void
  /** A key led along an arrow to another event. */
  onFollow(event: number, spot: Spot): void
  onHover(item: Item | null, x: number, y: number): void
  /** A range was measured; null = cleared. */
  onRange(range: Range | null): void
  /** The id of a track whose title was clicked. */
  onToggle(id: string): void
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

type Drag = {
  mode: 'pan' | 'range' | 'strip' | 'step'
  x: number
  y: number
  view: Range
  scroll: number
  moved: boolean
}
type Pinch = { view: Range; distance: number; time: number }

export class TimelineHands {
  private readonly canvas: HTMLCanvasElement
  private readonly engine: TimelineEngine
  private readonly events: TimelineEvents
  private readonly abort = new AbortController()
  private readonly calm = window.matchMedia('(prefers-reduced-motion: reduce)').matches
  private drag: Drag | null = null
  private readonly pointers = new Map<number, { x: number; y: number }>()
  private pinch: Pinch | null = null
  private readonly held = new Set<string>()
  private holding = 0

  constructor(canvas: HTMLCanvasElement, engine: TimelineEngine, events: TimelineEvents) {
    this.canvas = canvas
    this.engine = engine
    this.events = events
    this.listen()
  }

  destroy(): void {
    this.abort.abort()
    cancelAnimationFrame(this.holding)
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
      this.engine.scrollBy((event.deltaY || event.deltaX) * pixels)
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.engine.pan((event.deltaX * pixels) / this.engine.plotWidth)
    } else {
      const at = clamp((event.offsetX - GUTTER) / this.engine.plotWidth, 0, 1)
      this.engine.zoom(Math.exp(clamp(event.deltaY * pixels, -240, 240) * 0.0022), at)
    }
  }

  private onDown(event: PointerEvent): void {
    const { scene } = this.engine
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
    const mode =
      event.offsetY < STRIP
        ? 'strip'
        : event.shiftKey || event.offsetY < AXIS
          ? 'range'
          : event.offsetY < HEAD
            ? 'step'
            : 'pan'
    this.drag = { mode, x: event.offsetX, y: event.offsetY, view: scene.view, scroll: scene.scroll, moved: false }
    if (mode === 'strip') this.toStrip(event.offsetX)
  }

  private fingers(): { distance: number; middle: number } {
    const [a, b] = [...this.pointers.values()]
    return { distance: Math.hypot(a.x - b.x, a.y - b.y), middle: (a.x + b.x) / 2 }
  }

  private toStrip(x: number): void {
    if (x < GUTTER) return
    const { start, end } = this.engine.scene.view
    const whole = this.engine.model.end - this.engine.model.start
    this.engine.move(
      this.engine.model.start + ((x - GUTTER) / this.engine.plotWidth) * whole - (end - start) / 2,
      end - start,
    )
  }

  private onMove(event: PointerEvent): void {
    const { drag, pinch } = this
    const { scene } = this.engine
    if (this.pointers.has(event.pointerId)) this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY })
    if (pinch && this.pointers.size === 2) {
      // The time that was between the fingers stays there.
      const { distance, middle } = this.fingers()
      const span = ((pinch.view.end - pinch.view.start) * pinch.distance) / Math.max(10, distance)
      this.engine.move(pinch.time - ((middle - GUTTER) / this.engine.plotWidth) * span, span)
      return
    }
    if (!drag) {
      this.canvas.style.cursor =
        event.offsetX < GUTTER && event.offsetY > HEAD
          ? 'pointer'
          : event.offsetY < AXIS && event.offsetY > STRIP
            ? 'col-resize'
            : 'default'
      scene.cursor = event.offsetX >= GUTTER ? toTime(scene, event.offsetX) : null
      this.hover(this.engine.hit(event.offsetX, event.offsetY), event.offsetX, event.offsetY)
      this.engine.redraw()
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
      const perPixel = (drag.view.end - drag.view.start) / this.engine.plotWidth
      this.engine.move(drag.view.start - dx * perPixel, drag.view.end - drag.view.start)
      this.engine.scrollBy(drag.scroll - dy - scene.scroll)
    }
  }

  private measure(from: number, to: number): void {
    const { scene } = this.engine
    const [a, b] = [toTime(scene, Math.max(GUTTER, from)), toTime(scene, clamp(to, GUTTER, scene.width))]
    scene.range = { start: Math.round(Math.min(a, b)), end: Math.round(Math.max(a, b)) }
    this.engine.redraw()
  }

  private onCancel(event: PointerEvent): void {
    this.pointers.delete(event.pointerId)
    this.drag = null
    this.pinch = null
  }

  private onUp(event: PointerEvent): void {
    const { drag } = this
    const { scene } = this.engine
    this.onCancel(event)
    this.canvas.style.cursor = 'default'
    if (!drag) return
    if (drag.moved) {
      if (drag.mode === 'range') this.events.onRange(scene.range)
      return
    }
    if (drag.mode === 'strip') return
    if (drag.mode === 'step') {
      const time = toTime(scene, event.offsetX)
      const step = scene.steps.find(({ start, end }) => time >= start && time < end)
      if (step) this.engine.show(step)
      return
    }
    if (event.offsetX < GUTTER && event.offsetY > HEAD) {
      const found = this.engine.placedAt(event.offsetY)
      if (found) this.events.onToggle(found.placed.track.id)
      return
    }
    if (scene.range) {
      this.engine.setRange(null)
      this.events.onRange(null)
    }
    this.events.onPick(this.engine.hit(event.offsetX, event.offsetY))
  }

  private onDouble(event: MouseEvent): void {
    const item = this.engine.hit(event.offsetX, event.offsetY)
    if (!item) return
    const dur = Math.max(item.dur, 100)
    this.engine.move(item.start - dur * 0.1, dur * 1.2)
  }

  private leave(): void {
    this.engine.scene.cursor = null
    this.hover(null, 0, 0)
    this.engine.redraw()
  }

  private hover(item: Item | null, x: number, y: number): void {
    this.engine.scene.hover = item
    this.events.onHover(item, x, y)
  }

  private onKey(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key
    if (event.key === 'Escape') {
      this.engine.setRange(null)
      this.events.onRange(null)
      this.events.onPick(null)
      return
    }
    if (key === '0') this.engine.reset()
    if (key === 'f') this.fit()
    if (key === 'm') this.mark()
    if (!KEYS.has(key)) return
    event.preventDefault()
    if (event.shiftKey && this.follow(event.key)) return
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
    const chosen = this.engine.scene.selected ?? this.engine.scene.range
    if (!chosen) return
    const span = Math.max(chosen.end - chosen.start, 100)
    this.engine.move(chosen.start - span * 0.1, span * 1.2)
  }

  /** Marks the time of the selected event, else all that is in sight. */
  private mark(): void {
    const { start, end } = this.engine.scene.selected ?? this.engine.scene.view
    if (end <= start) return
    this.engine.setRange({ start, end })
    this.events.onRange({ start, end })
  }

  /** From the selected event to its neighbour; false when none is selected, so that the arrows move the window. */
  private walk(key: string): boolean {
    const { selected, level, view } = this.engine.scene
    if (!selected) return false
    const next = this.engine.model.neighbour(level, view, selected, key)
    if (!next) return true
    this.events.onPick(next)
    this.engine.reveal({ lane: next.lane, row: next.row, start: next.start, end: next.start + next.dur })
    return true
  }

  /** From the selected event along an arrow: to the first one that it led to, or back to where it came from. */
  private follow(key: string): boolean {
    const { selected, arrows } = this.engine.scene
    if (!selected || (key !== 'ArrowLeft' && key !== 'ArrowRight')) return false
    const [here, there] = key === 'ArrowRight' ? (['from', 'to'] as const) : (['to', 'from'] as const)
    const isHere = (spot: Spot) =>
      spot.lane === selected.lane && spot.row === selected.row && spot.start === selected.start
    const next = arrows.find((arrow) => isHere(arrow[here]))?.[there]
    if (next) this.events.onFollow(next.event, next)
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
    if (key === 'w' || key === '+' || key === '=') this.engine.zoom(Math.exp(-2.2 * amount))
    else if (key === 's' || key === '-') this.engine.zoom(Math.exp(2.2 * amount))
    else if (key === 'a' || key === 'ArrowLeft') this.engine.pan(-1.2 * amount)
    else if (key === 'd' || key === 'ArrowRight') this.engine.pan(1.2 * amount)
    else if (key === 'ArrowUp') this.engine.scrollBy(-500 * amount)
    else if (key === 'ArrowDown') this.engine.scrollBy(500 * amount)
    else if (key === 'PageUp') this.engine.scrollBy(-2400 * amount)
    else if (key === 'PageDown') this.engine.scrollBy(2400 * amount)
    else if (key === 'Home') this.engine.pan(-1e9)
    else if (key === 'End') this.engine.pan(1e9)
  }
}
