// Input of the timeline of one or several ranks, beyond that of every movable canvas.
import { clamp } from '../../lib/axisTicks'
import type { WheelStyle } from '../../lib/wheel'
import { type Limits, MovableViewport, type Move } from '../movableViewport'
import type { Drag, Point, Range } from '../viewport'
import { AXIS, gutterOf, HEAD, STRIP } from './layout'
import type { Item, Spot } from './model'
import { type Arrow, type Stage, toTime, toX } from './scene'

/** A place of the canvas for which a menu was asked. */
export interface MenuSpot {
  item: Item | null
  /** Id of the track, null = none. */
  track: string | null
  /** null over the names of tracks. */
  time: number | null
  /** The pointer in the window. */
  at: Point
}

export interface TimelineEvents {
  /** The window moved (already clamped); called on every change. */
  onView(view: Range, move: Move): void
  /** A click or a key chose an item; null = nothing. */
  onPick(item: Item | null): void
  /** Ctrl or Cmd and a click: the event joins the selection, or leaves it. */
  onPickMore(item: Item): void
  /** A plain wheel moved the tracks, or found nothing to move. */
  onWheelScroll(): void
  /** The next click sets this point of a measurement; null = no measurement. */
  onMeasure(point: 'first' | 'second' | null): void
  onMenu(spot: MenuSpot): void
  /** A key led along an arrow to another event. */
  onFollow(event: number, spot: Spot): void
  /** A key asks for the next or previous event on the critical path. */
  onPath?(by: -1 | 1): void
  /** `at`: the pointer in the window. */
  onHover(item: Item | null, arrow: Arrow | null, at: Point): void
  /** Back to the window before the last zoom or jump. */
  onUndo(): void
  /** Sets a bookmark at a time, or opens an existing one. */
  onBookmark(time: number): void
  /** The names of the tracks have another width; 0 = the usual one. */
  onGutter(width: number): void
  /** A range was measured; null = cleared. `track`: id of the track in which the drag began. */
  onRange(range: Range | null, track?: string | null): void
  onToggle(id: string): void
  /** Id of a closed or hidden track with an event to show. */
  onOpen(id: string): void
}

const NARROWEST = 200
/** Merged blocks this many times shorter than the window open in two steps, to keep orientation. */
const TWO_STEPS = 32
/** Grab distance in pixels of the label edge and of bookmarks. */
const EDGE = 6
const FLAG = 7
/** Measured points snap to edges of events that are so near, in pixels. */
const SNAP = 8
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
  private gutterWish = 0
  /** The first point of a measurement, NaN until it is set; null = no measurement. */
  private ruler: number | null = null

  protected override get limits(): Limits {
    const { start, end } = this.model
    return { start, end, narrowest: NARROWEST }
  }

  protected override get plot() {
    const left = this.scene.gutter
    return { left, width: Math.max(100, this.canvas.clientWidth - left) }
  }

  /** 0: the usual width, which depends on that of the canvas. */
  setGutter(width: number): void {
    this.gutterWish = width
    this.scene.gutter = gutterOf(width, this.canvas.clientWidth)
    this.redraw()
  }

  setWheel(style: WheelStyle): void {
    this.wheelStyle = style
  }

  /** Measures from a time to the next click; without a time, two clicks. */
  measureFrom(time = Number.NaN): void {
    this.ruler = time
    this.events.onMeasure(Number.isNaN(time) ? 'first' : 'second')
    this.redraw()
  }

  private stopMeasuring(): void {
    if (this.ruler === null) return
    this.ruler = null
    this.events.onMeasure(null)
  }

  /** The time at a point, or the nearest edge of the event there. */
  private snapped({ x, y }: Point): number {
    const item = this.itemAt(x, y)
    const edges = item ? [item.start, item.start + item.dur] : []
    const off = (time: number) => Math.abs(toX(this.scene, time) - x)
    const [edge] = edges.filter((time) => off(time) <= SNAP).sort((a, b) => off(a) - off(b))
    return Math.round(edge ?? toTime(this.scene, x))
  }

  private measurePoint(point: Point): void {
    const [from, to] = [this.ruler, this.snapped(point)]
    if (from === null) return
    if (Number.isNaN(from)) {
      this.measureFrom(to)
      return
    }
    if (from === to) return
    this.stopMeasuring()
    this.mark({ start: Math.min(from, to), end: Math.max(from, to) })
  }

  /** Marks a range and tells the page. */
  mark(range: Range): void {
    if (range.end <= range.start) return
    this.setRange(range)
    this.events.onRange(range)
  }

  setRange(range: Range | null): void {
    this.scene.range = range
    this.redraw()
  }

  /** Shows a time with a little around it. */
  focus({ start, end }: Range): void {
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
    this.scene.gutter = gutterOf(this.gutterWish, width)
    return width >= this.scene.gutter + 20 && height >= HEAD
  }

  protected override look(): void {
    const { pointer, scene } = this
    scene.cursor = pointer && pointer.x >= scene.gutter ? toTime(scene, pointer.x) : null
    if (pointer && scene.cursor !== null && this.ruler !== null && !Number.isNaN(this.ruler))
      scene.range = { start: this.ruler, end: this.snapped(pointer) }
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

  protected override moveAcross(pixels: number): boolean {
    const before = this.scene.scroll
    this.scrollBy(pixels)
    return this.scene.scroll !== before
  }

  protected override onWheel(event: WheelEvent): void {
    super.onWheel(event)
    if (this.wheelStyle === 'scroll' && !event.ctrlKey && !event.metaKey && !event.shiftKey) this.events.onWheelScroll()
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
    if (this.ruler !== null) return 'crosshair'
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
      const track = from.y > HEAD ? this.titleAt(from.y) : null
      return { move: ({ x }) => this.measureRange(from.x, x), end: () => this.events.onRange(this.scene.range, track) }
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
    } else if (this.ruler !== null) this.measurePoint(point)
    else {
      const item = event.ctrlKey || event.metaKey ? this.itemAt(x, y) : null
      if (item?.count === 1) {
        events.onPickMore(item)
        return
      }
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

  /** Position of the selected event, for a menu opened by a key. */
  protected selectedPoint(): Point | null {
    return null
  }

  protected override onContextMenu(point: Point, event: MouseEvent): void {
    event.preventDefault()
    const box = this.canvas.getBoundingClientRect()
    const here = (event.button === 2 ? null : this.selectedPoint()) ?? point
    this.events.onMenu({
      item: this.itemAt(here.x, here.y),
      track: here.y > HEAD ? this.titleAt(here.y) : null,
      time: here.x < this.scene.gutter ? null : Math.round(toTime(this.scene, here.x)),
      at: { x: box.left + here.x, y: box.top + here.y },
    })
  }

  protected override onDoubleClick({ x, y }: Point, event: MouseEvent): void {
    if (this.isOnEdge(x)) {
      this.setGutter(0)
      this.events.onGutter(0)
      return
    }
    if (this.ruler !== null) return
    const item = this.itemAt(x, y)
    if (!item || event.timeStamp - this.zoomedAt < DOUBLE_MS) return
    this.focus({ start: item.start, end: item.start + item.dur })
  }

  protected override readonly acts: Record<string, () => void> = {
    Escape: () => {
      this.stopMeasuring()
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
      this.mark({ start: Math.round(start), end: Math.round(end) })
    },
    r: () => this.measureFrom(),
    '.': () => this.events.onPath?.(1),
    ',': () => this.events.onPath?.(-1),
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
