// The timeline's hands: wheel, drag, pinch and clicks, told to the engine (keys: keys.ts). One state machine of the
// pointer: splitting it would only pass the same fields around.
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
  /** A bookmark is wanted at a time, or the one that stands there is to be opened. */
  onBookmark(time: number): void
  /** The names of the tracks have another width. */
  onGutter(width: number): void
  /** A range was measured; null = cleared. */
  onRange(range: Range | null): void
  /** The id of a track whose title was clicked. */
  onToggle(id: string): void
  /** The id of a closed track that hides what was found. */
  onOpen(id: string): void
}

/** What hands and keys move: the timeline of one profile, or those of several ranks on one axis. */
export interface MovableWindow {
  readonly scene: Stage
  /** Everything there is to see. */
  readonly model: Range
  readonly gutter: number
  readonly plotWidth: number
  /** The time under the pointer, else another one that somebody may mean. */
  pointed(): number
  /** Where an arrow key leads from the selected event. */
  neighbour(key: string): Item | null
  /** Id of the track, or of what else has a title, at a height of the canvas. */
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

/** Pixels of the names beside their edge, and on both sides of a bookmark, that take hold of it. */
const EDGE = 6
const FLAG = 7
/** What follows a zoom by a click so soon is the second half of a double click. */
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
  /** Where the pointer is while no button is held. */
  private pointer: { x: number; y: number } | null = null
  /** The arrow that the page was told of last. */
  private arrow: Arrow | null = null
  /** Where it was when the page was told last. */
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
      // The time that was between the fingers stays there.
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

  /** Time of the bookmark whose flag on the axis is there. */
  private flagAt(x: number, y: number): number | undefined {
    const { scene } = this.engine
    if (y < STRIP || y >= AXIS) return undefined
    return scene.bookmarks.find(({ time }) => Math.abs(toX(scene, time) - x) <= FLAG)?.time
  }

  /** Before each picture: what is under the pointer may be another thing than in the last one. */
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

  /** What no zoom takes apart is opened as the longest of what it stands for. */
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
