// Input of the timeline of one or several ranks, beyond that of every movable canvas.
import { clamp } from '../../lib/axisTicks'
import { type Limits, MovableViewport, type Move } from '../movableViewport'
import type { Drag, Point, Range } from '../viewport'
import { AXIS, GUTTER, GUTTERS, HEAD, STRIP } from './layout'
import type { Item, Spot } from './model'
import { type Arrow, type Stage, toTime, toX } from './scene'

export interface TimelineEvents {
  /** The window moved (already clamped); called on every change. */
  onView(view: Range, move: Move): void
  /** A click or a key chose an item; null = nothing. */
  onPick(item: Item | null): void
  /** A key led along an arrow to another event. */
  onFollow(event: number, spot: Spot): void
  /** `at`: the pointer in the window. */
  onHover(item: Item | null, arrow: Arrow | null, at: Point): void
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

const NARROWEST = 200
/** Merged blocks this many times shorter than the window open in two steps, to keep orientation. */
const TWO_STEPS = 32
/** Grab distance in pixels of the label edge and of bookmarks. */
const EDGE = 6
const FLAG = 7
/** Time limit for the second click of a double click. */
const DOUBLE_MS = 400

interface TimelineHit {
  item: Item | null
  arrow: Arrow | null
}

export abstract class TimelineViewport extends MovableViewport<TimelineHit> {
  abstract override readonly scene: Stage
  abstract readonly model: Range
  protected abstract readonly events: TimelineEvents
  /** The event that an arrow key selects. */
  protected abstract neighbour(key: string): Item | null
  protected abstract titleAt(y: number): string | null
  protected abstract itemAt(x: number, y: number): Item | null
  protected abstract arrowAt(x: number, y: number): Arrow | null
  abstract scrollBy(pixels: number): void
  private zoomedAt = Number.NEGATIVE_INFINITY

  protected override get limits(): Limits {
    const { start, end } = this.model
    return { start, end, narrowest: NARROWEST }
  }

  protected override get plot() {
    const left = this.scene.gutter
    return { left, width: Math.max(100, this.canvas.clientWidth - left) }
  }

  setGutter(width: number): void {
    const wide = clamp(Math.round(width), GUTTERS.narrowest, GUTTERS.widest)
    if (wide === this.scene.gutter) return
    this.scene.gutter = wide
    this.redraw()
  }

  setRange(range: Range | null): void {
    this.scene.range = range
    this.redraw()
  }

  /** Shows a time with a little around it. */
  private focus({ start, end }: Range): void {
    const span = Math.max(end - start, 100)
    this.move(start - span * 0.1, span * 1.2)
  }

  /** Moves to a time at the same zoom, unless it is visible. */
  reveal(spot: Range & Partial<Spot>, how: Move = 'jump'): void {
    const { view } = this.scene
    if (spot.end >= view.start && spot.start <= view.end) return
    const span = view.end - view.start
    this.move((spot.start + spot.end - span) / 2, span, how)
  }

  /** Zooms into a merged block, half way if far; false if no zoom can split it. */
  private open(item: Item): boolean {
    const { view } = this.scene
    const [span, wanted] = [view.end - view.start, Math.max(item.dur * 1.2, NARROWEST)]
    if (wanted >= span) return false
    if (span / wanted <= TWO_STEPS) {
      this.focus({ start: item.start, end: item.start + item.dur })
      return true
    }
    // Keeps its screen position.
    const middle = item.start + item.dur / 2
    const closer = Math.sqrt(span * wanted)
    this.move(middle - ((middle - view.start) / span) * closer, closer)
    return true
  }

  protected override measure(width: number, height: number): boolean {
    this.scene.width = width
    this.scene.height = height
    return width >= this.scene.gutter + 20 && height >= HEAD
  }

  protected override look(): void {
    const { pointer, scene } = this
    scene.cursor = pointer && pointer.x >= scene.gutter ? toTime(scene, pointer.x) : null
    super.look()
    scene.hover = this.hovered?.item ?? null
  }

  protected override hit({ x, y }: Point): TimelineHit | null {
    const [item, arrow] = [this.itemAt(x, y), this.arrowAt(x, y)]
    return item || arrow ? { item, arrow } : null
  }

  protected override onHover(hit: TimelineHit | null, at: Point): void {
    this.events.onHover(hit?.item ?? null, hit?.arrow ?? null, at)
  }

  protected override onView(view: Range, move: Move): void {
    this.events.onView(view, move)
  }

  protected override dragDown(pixels: number): void {
    this.scrollBy(-pixels)
  }

  protected override moveAcross(pixels: number): void {
    this.scrollBy(pixels)
  }

  private isOnEdge(x: number): boolean {
    return x < this.scene.gutter && x >= this.scene.gutter - EDGE
  }

  private flagAt({ x, y }: Point): number | undefined {
    if (y < STRIP || y >= AXIS) return undefined
    return this.scene.bookmarks.find(({ time }) => Math.abs(toX(this.scene, time) - x) <= FLAG)?.time
  }

  protected override cursorAt(point: Point): string {
    const { x, y } = point
    if (this.isOnEdge(x)) return 'ew-resize'
    if (this.flagAt(point) !== undefined) return 'pointer'
    if (x < this.scene.gutter) return y > HEAD ? 'pointer' : 'default'
    return y < AXIS && y > STRIP ? 'col-resize' : 'default'
  }

  protected override startDrag(from: Point, event: PointerEvent): Drag | null {
    if (this.isOnEdge(from.x)) {
      return { move: ({ x }) => this.setGutter(x), end: () => this.events.onGutter(this.scene.gutter) }
    }
    if (from.y < STRIP) {
      this.moveStrip(from.x, 'jump')
      return { move: ({ x }) => this.moveStrip(x, 'pan') }
    }
    if (event.shiftKey || from.y < AXIS) {
      return { move: ({ x }) => this.measureRange(from.x, x), end: () => this.events.onRange(this.scene.range) }
    }
    return super.startDrag(from, event)
  }

  /** Centres the window on a place of the overview strip. */
  private moveStrip(x: number, how: Move): void {
    const { left, width } = this.plot
    if (x < left) return
    const { start, end } = this.scene.view
    const { model } = this
    const middle = model.start + ((x - left) / width) * (model.end - model.start)
    this.move(middle - (end - start) / 2, end - start, how)
  }

  private measureRange(from: number, to: number): void {
    const { scene } = this
    const times = [from, to].map((x) => Math.round(toTime(scene, clamp(x, scene.gutter, scene.width))))
    this.setRange({ start: Math.min(...times), end: Math.max(...times) })
  }

  protected override onClick(point: Point, event: PointerEvent): void {
    const { scene, events } = this
    const { x, y } = point
    if (y < STRIP || this.isOnEdge(x)) return
    const flag = this.flagAt(point)
    if (flag !== undefined) events.onBookmark(flag)
    else if (y >= AXIS && y < HEAD && !event.shiftKey) {
      const time = toTime(scene, x)
      const step = scene.steps.find(({ start, end }) => time >= start && time < end)
      if (step) this.show(step)
    } else if (x < scene.gutter && y > HEAD) {
      const id = this.titleAt(y)
      if (id !== null) events.onToggle(id)
    } else {
      if (scene.range) this.clearRange()
      this.choose(point, event)
    }
  }

  private clearRange(): void {
    this.setRange(null)
    this.events.onRange(null)
  }

  /** Opens the longest event of a block that no zoom can split. */
  private choose({ x, y }: Point, event: PointerEvent): void {
    const item = this.itemAt(x, y)
    if (event.timeStamp - this.zoomedAt < DOUBLE_MS) return
    if (item && item.count > 1 && this.open(item)) this.zoomedAt = event.timeStamp
    else this.events.onPick(item)
  }

  protected override onDoubleClick({ x, y }: Point, event: MouseEvent): void {
    if (this.isOnEdge(x)) {
      this.setGutter(GUTTER)
      this.events.onGutter(GUTTER)
      return
    }
    const item = this.itemAt(x, y)
    if (!item || event.timeStamp - this.zoomedAt < DOUBLE_MS) return
    this.focus({ start: item.start, end: item.start + item.dur })
  }

  protected override readonly acts: Record<string, () => void> = {
    Escape: () => {
      this.clearRange()
      this.events.onPick(null)
    },
    '0': () => this.reset(),
    z: () => this.events.onUndo(),
    /** A bookmark at the pointer, else at the selected event, else in the middle. */
    b: () => {
      const { cursor, selected, view } = this.scene
      this.events.onBookmark(Math.round(cursor ?? selected?.start ?? (view.start + view.end) / 2))
    },
    /** Shows the selected event, else the marked range. */
    f: () => {
      const chosen = this.scene.selected ?? this.scene.range
      if (chosen) this.focus(chosen)
    },
    /** Marks the selected event, else the visible range. */
    m: () => {
      const { start, end } = this.scene.selected ?? this.scene.view
      const range = { start: Math.round(start), end: Math.round(end) }
      if (range.end <= range.start) return
      this.setRange(range)
      this.events.onRange(range)
    },
  }

  protected override walk(key: string, isShift: boolean): boolean {
    const { selected } = this.scene
    if (!selected) return false
    if (isShift && (key === 'ArrowLeft' || key === 'ArrowRight')) {
      this.follow(key, selected)
      return true
    }
    const next = this.neighbour(key)
    if (next) {
      this.reveal({ lane: next.lane, row: next.row, start: next.start, end: next.start + next.dur })
      this.events.onPick(next)
    }
    return true
  }

  private follow(key: 'ArrowLeft' | 'ArrowRight', { lane, row, start }: Spot): void {
    const [here, there] = key === 'ArrowRight' ? (['from', 'to'] as const) : (['to', 'from'] as const)
    const next = this.scene.arrows.find((arrow) => {
      const spot = arrow[here]
      return spot.lane === lane && spot.row === row && spot.start === start
    })?.[there]
    if (next) this.events.onFollow(next.event, next)
  }
}
