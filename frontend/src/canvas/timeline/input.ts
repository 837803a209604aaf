// Mouse and touch input of the timeline. One pointer state machine: splitting it would pass the same fields around.
import { clamp } from '../../lib/axisTicks'
import { AXIS, GUTTER, HEAD, STRIP } from './layout'
import type { Item, Range, Spot } from './model'
import { type Arrow, type Stage, toTime, toX } from './scene'

/** How the window moved: along the time, closer or further, or to another place at once. */
export type Move = 'pan' | 'zoom' | 'jump'

export interface TimelineEvents {
  /** The window moved (already clamped); called on every change. */
  onView(view: Range, move: Move): void
  /** A click or a key chose an item; null = nothing. */
  onPick(item: Item | null): void
  /** A key led along an arrow to another event. */
  onFollow(event: number, spot: Spot): void
  onHover(item: Item | null, arrow: Arrow | null, x: number, y: number): void
  /** Back to the window before the last zoom or jump. */
  onUndo(): void
  /** Sets a bookmark at a time, or opens an existing one. */
  onBookmark(time: number): void
  /** The names of the tracks have another width. */
  onGutter(width: number): void
  /** A range was measured; null = cleared. */
  onRange(range: Range | null): void
  onToggle(id: string): void
  /** Id of a closed track that hides a hit. */
  onOpen(id: string): void
}

/** A window moved by mouse and keys: one or several ranks. */
export interface MovableWindow {
  readonly scene: Stage
  /** Everything there is to see. */
  readonly model: Range
  readonly gutter: number
  readonly plotWidth: number
  /** The time under the pointer, else a default. */
  pointed(): number
  /** The event that an arrow key selects. */
  neighbour(key: string): Item | null
  /** Id of the title at a height. */
  titleAt(y: number): string | null
  hit(x: number, y: number): Item | null
  arrowAt(x: number, y: number): Arrow | null
  zoom(factor: number, at?: number): void
  pan(fraction: number): void
  scrollBy(pixels: number): void
  move(start: number, span: number, how?: Move): void
  show(range: Range): void
  focus(range: Range): void
  reveal(spot: Range & Partial<Spot>, how?: Move): void
  reset(): void
  open(item: Item): boolean
  setGutter(width: number): void
  setRange(range: Range | null): void
  redraw(): void
}

/** Grab distance in pixels of the label edge and of bookmarks. */
const EDGE = 6
const FLAG = 7
/** Time limit for the second click of a double click. */
const DOUBLE_MS = 400

type Drag = {
  mode: 'pan' | 'range' | 'strip' | 'step' | 'gutter'
  x: number
  y: number
  view: Range
  scroll: number
  moved: boolean
}
type Pinch = { view: Range; distance: number; time: number }

export class TimelineInput {
  private readonly canvas: HTMLCanvasElement
  private readonly engine: MovableWindow
  private readonly events: TimelineEvents
  private readonly abort = new AbortController()
  private drag: Drag | null = null
  private readonly pointers = new Map<number, { x: number; y: number }>()
  private pinch: Pinch | null = null
  /** The pointer position while no button is pressed. */
  private pointer: { x: number; y: number } | null = null
  /** The last arrow reported. */
  private arrow: Arrow | null = null
  /** The last pointer position reported. */
  private told: { x: number; y: number } | null = null
  private zoomedAt = Number.NEGATIVE_INFINITY

  constructor(canvas: HTMLCanvasElement, engine: MovableWindow, events: TimelineEvents) {
    this.canvas = canvas
    this.engine = engine
    this.events = events
    this.listen()
  }

  destroy(): void {
    this.abort.abort()
  }

  private listen(): void {
    const { canvas } = this
    const signal = this.abort.signal
    canvas.addEventListener('wheel', (event) => this.onWheel(event), { passive: false, signal })
    canvas.addEventListener('pointerdown', (event) => this.onDown(event), { signal })
    canvas.addEventListener('pointermove', (event) => this.onMove(event), { signal })
    canvas.addEventListener('pointerup', (event) => this.onUp(event), { signal })
    canvas.addEventListener('pointercancel', (event) => this.onCancel(event), { signal })
    canvas.addEventListener('pointerleave', () => this.forget(), { signal })
    canvas.addEventListener('dblclick', (event) => this.onDouble(event), { signal })
  }

  private onWheel(event: WheelEvent): void {
    event.preventDefault()
    const pixels = event.deltaMode === 1 ? 16 : 1
    if (event.shiftKey || event.offsetX < this.engine.gutter) {
      this.engine.scrollBy((event.deltaY || event.deltaX) * pixels)
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.engine.pan((event.deltaX * pixels) / this.engine.plotWidth)
    } else {
      const at = clamp((event.offsetX - this.engine.gutter) / this.engine.plotWidth, 0, 1)
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
    const mode = this.onEdge(event.offsetX)
      ? 'gutter'
      : event.offsetY < STRIP
        ? 'strip'
        : event.shiftKey || event.offsetY < AXIS
          ? 'range'
          : event.offsetY < HEAD
            ? 'step'
            : 'pan'
    this.drag = { mode, x: event.offsetX, y: event.offsetY, view: scene.view, scroll: scene.scroll, moved: false }
    if (mode === 'strip') this.toStrip(event.offsetX, 'jump')
  }

  private onEdge(x: number): boolean {
    return x < this.engine.gutter && x >= this.engine.gutter - EDGE
  }

  private fingers(): { distance: number; middle: number } {
    const [a, b] = [...this.pointers.values()]
    return { distance: Math.hypot(a.x - b.x, a.y - b.y), middle: (a.x + b.x) / 2 }
  }

  private toStrip(x: number, move: Move): void {
    if (x < this.engine.gutter) return
    const { start, end } = this.engine.scene.view
    const whole = this.engine.model.end - this.engine.model.start
    this.engine.move(
      this.engine.model.start + ((x - this.engine.gutter) / this.engine.plotWidth) * whole - (end - start) / 2,
      end - start,
      move,
    )
  }

  private onMove(event: PointerEvent): void {
    const { drag, pinch } = this
    const { scene } = this.engine
    if (this.pointers.has(event.pointerId)) this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY })
    if (pinch && this.pointers.size === 2) {
      // The time between the fingers stays in place.
      const { distance, middle } = this.fingers()
      const span = ((pinch.view.end - pinch.view.start) * pinch.distance) / Math.max(10, distance)
      this.engine.move(pinch.time - ((middle - this.engine.gutter) / this.engine.plotWidth) * span, span, 'zoom')
      return
    }
    if (!drag) {
      this.canvas.style.cursor = this.cursorAt(event.offsetX, event.offsetY)
      this.pointer = { x: event.offsetX, y: event.offsetY }
      this.engine.redraw()
      return
    }
    const [dx, dy] = [event.offsetX - drag.x, event.offsetY - drag.y]
    if (!drag.moved && Math.abs(dx) + Math.abs(dy) < 4) return
    drag.moved = true
    this.forget()
    if (drag.mode === 'strip') this.toStrip(event.offsetX, 'pan')
    else if (drag.mode === 'gutter') this.engine.setGutter(event.offsetX)
    else if (drag.mode === 'range') this.measure(drag.x, event.offsetX)
    else {
      this.canvas.style.cursor = 'grabbing'
      const perPixel = (drag.view.end - drag.view.start) / this.engine.plotWidth
      this.engine.move(drag.view.start - dx * perPixel, drag.view.end - drag.view.start, 'pan')
      this.engine.scrollBy(drag.scroll - dy - scene.scroll)
    }
  }

  private cursorAt(x: number, y: number): string {
    if (this.onEdge(x)) return 'ew-resize'
    if (this.flagAt(x, y) !== undefined) return 'pointer'
    if (x < this.engine.gutter) return y > HEAD ? 'pointer' : 'default'
    return y < AXIS && y > STRIP ? 'col-resize' : 'default'
  }

  private flagAt(x: number, y: number): number | undefined {
    const { scene } = this.engine
    if (y < STRIP || y >= AXIS) return undefined
    return scene.bookmarks.find(({ time }) => Math.abs(toX(scene, time) - x) <= FLAG)?.time
  }

  /** Runs before each frame, because the item under the pointer may have changed. */
  look(): void {
    const { pointer } = this
    const { scene } = this.engine
    scene.cursor = pointer && pointer.x >= this.engine.gutter ? toTime(scene, pointer.x) : null
    const item = pointer && this.engine.hit(pointer.x, pointer.y)
    const arrow = pointer && this.engine.arrowAt(pointer.x, pointer.y)
    const before = scene.hover
    scene.hover = item
    const stays = before?.event === item?.event && before?.start === item?.start && before?.count === item?.count
    if (stays && arrow === this.arrow && ((item === null && arrow === null) || pointer === this.told)) return
    this.told = pointer
    this.arrow = arrow
    this.events.onHover(item, arrow, pointer?.x ?? 0, pointer?.y ?? 0)
  }

  private forget(): void {
    this.pointer = null
    this.engine.redraw()
  }

  private measure(from: number, to: number): void {
    const { scene } = this.engine
    const [a, b] = [
      toTime(scene, Math.max(this.engine.gutter, from)),
      toTime(scene, clamp(to, this.engine.gutter, scene.width)),
    ]
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
      if (drag.mode === 'gutter') this.events.onGutter(this.engine.gutter)
      return
    }
    if (drag.mode === 'strip' || drag.mode === 'gutter') return
    const flag = this.flagAt(event.offsetX, event.offsetY)
    if (flag !== undefined) {
      this.events.onBookmark(flag)
      return
    }
    if (drag.mode === 'step') {
      const time = toTime(scene, event.offsetX)
      const step = scene.steps.find(({ start, end }) => time >= start && time < end)
      if (step) this.engine.show(step)
      return
    }
    if (event.offsetX < this.engine.gutter && event.offsetY > HEAD) {
      const id = this.engine.titleAt(event.offsetY)
      if (id !== null) this.events.onToggle(id)
      return
    }
    if (scene.range) {
      this.engine.setRange(null)
      this.events.onRange(null)
    }
    this.choose(event)
  }

  /** Opens the longest event of a block that no zoom can split. */
  private choose(event: PointerEvent): void {
    const item = this.engine.hit(event.offsetX, event.offsetY)
    if (event.timeStamp - this.zoomedAt < DOUBLE_MS) return
    if (item && item.count > 1 && this.engine.open(item)) this.zoomedAt = event.timeStamp
    else this.events.onPick(item)
  }

  private onDouble(event: MouseEvent): void {
    if (this.onEdge(event.offsetX)) {
      this.engine.setGutter(GUTTER)
      this.events.onGutter(GUTTER)
      return
    }
    const item = this.engine.hit(event.offsetX, event.offsetY)
    if (!item || event.timeStamp - this.zoomedAt < DOUBLE_MS) return
    this.engine.focus({ start: item.start, end: item.start + item.dur })
  }
}
