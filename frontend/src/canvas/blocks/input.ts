// Mouse, touch and keys of the active-memory timeline.
import { clamp } from '../../lib/axisTicks'
import type { Move } from '../timeline/input'
import type { Range } from '../timeline/model'
import type { BlocksEngine } from './engine'
import { type BlockSpot, LEFT, plotHeight, plotWidth, TOP, toUnit } from './scene'

export interface BlocksEvents {
  /** The window moved (already clamped, in whole units); called on every change. */
  onView(view: Range, move: Move): void
  /** A click or a key chose the block of a row; null = nothing. */
  onPick(row: number | null): void
  onHover(spot: BlockSpot | null, x: number, y: number): void
  /** Everything is to be seen after an event, -1 = before the first one. */
  onMoment(event: number): void
  /** Back to the window before the last zoom or jump. */
  onUndo(): void
}

/** Of the wheel, as on the timeline. */
const NOTCH = 0.0022

interface Drag {
  x: number
  y: number
  view: Range
  low: number
  high: number
  moved: boolean
}

export class BlocksInput {
  private readonly canvas: HTMLCanvasElement
  private readonly engine: BlocksEngine
  private readonly events: BlocksEvents
  private readonly abort = new AbortController()
  private readonly pointers = new Map<number, number>()
  private drag: Drag | null = null
  private pinch: { view: Range; distance: number; unit: number } | null = null
  private told: { x: number; y: number } | null = null

  constructor(canvas: HTMLCanvasElement, engine: BlocksEngine, events: BlocksEvents) {
    this.canvas = canvas
    this.engine = engine
    this.events = events
    const signal = this.abort.signal
    canvas.addEventListener('wheel', (event) => this.onWheel(event), { passive: false, signal })
    canvas.addEventListener('pointerdown', (event) => this.onDown(event), { signal })
    canvas.addEventListener('pointermove', (event) => this.onMove(event), { signal })
    canvas.addEventListener('pointerup', (event) => this.onUp(event), { signal })
    canvas.addEventListener('pointercancel', (event) => this.onCancel(event), { signal })
    canvas.addEventListener('pointerleave', () => this.forget(), { signal })
    canvas.addEventListener('dblclick', () => this.engine.reset(), { signal })
    canvas.addEventListener('keydown', (event) => this.onKey(event), { signal })
  }

  destroy(): void {
    this.abort.abort()
  }

  private onWheel(event: WheelEvent): void {
    const { engine } = this
    const isAside = event.shiftKey || event.offsetX < LEFT || Math.abs(event.deltaX) > Math.abs(event.deltaY)
    // Nothing to zoom out of: let the page scroll.
    if (!isAside && !event.ctrlKey && event.deltaY > 0 && engine.isWhole()) return
    event.preventDefault()
    const pixels = event.deltaMode === 1 ? 16 : 1
    const notch = (delta: number) => Math.exp(clamp(delta * pixels, -240, 240) * NOTCH)
    if (event.shiftKey || event.offsetX < LEFT) {
      // Browsers turn Shift + wheel into a horizontal scroll.
      const at = 1 - clamp((event.offsetY - TOP) / plotHeight(engine.scene), 0, 1)
      engine.zoomBytes(notch(event.deltaY || event.deltaX), at)
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      engine.pan((event.deltaX * pixels) / plotWidth(engine.scene))
    } else {
      engine.zoom(notch(event.deltaY), clamp((event.offsetX - LEFT) / plotWidth(engine.scene), 0, 1))
    }
  }

  private onDown(event: PointerEvent): void {
    const { scene } = this.engine
    if (event.button !== 0) return
    this.canvas.focus({ preventScroll: true })
    this.canvas.setPointerCapture(event.pointerId)
    this.pointers.set(event.pointerId, event.offsetX)
    if (this.pointers.size === 2) {
      const [a, b] = [...this.pointers.values()]
      this.pinch = { view: scene.view, distance: Math.max(10, Math.abs(a - b)), unit: toUnit(scene, (a + b) / 2) }
      this.drag = null
      return
    }
    this.drag = { x: event.offsetX, y: event.offsetY, view: scene.view, ...scene.heights, moved: false }
  }

  private onMove(event: PointerEvent): void {
    const { drag, pinch, engine } = this
    const { scene } = engine
    if (this.pointers.has(event.pointerId)) this.pointers.set(event.pointerId, event.offsetX)
    if (pinch && this.pointers.size === 2) {
      const [a, b] = [...this.pointers.values()]
      const span = ((pinch.view.end - pinch.view.start) * pinch.distance) / Math.max(10, Math.abs(a - b))
      engine.move(pinch.unit - (((a + b) / 2 - LEFT) / plotWidth(scene)) * span, span, 'zoom')
      return
    }
    if (!drag) {
      scene.cursor = { x: event.offsetX, y: event.offsetY }
      engine.redraw()
      return
    }
    const [dx, dy] = [event.offsetX - drag.x, event.offsetY - drag.y]
    if (!drag.moved && Math.abs(dx) + Math.abs(dy) < 4) return
    drag.moved = true
    this.forget()
    this.canvas.style.cursor = 'grabbing'
    const span = drag.view.end - drag.view.start
    engine.move(drag.view.start - (dx / plotWidth(scene)) * span, span, 'pan')
    const bytes = (dy / plotHeight(scene)) * (drag.high - drag.low)
    engine.setHeights({ low: drag.low + bytes, high: drag.high + bytes })
  }

  private onCancel(event: PointerEvent): void {
    this.pointers.delete(event.pointerId)
    this.drag = null
    this.pinch = null
    this.canvas.style.cursor = ''
  }

  private onUp(event: PointerEvent): void {
    const { drag } = this
    this.onCancel(event)
    if (!drag || drag.moved) return
    const spot = this.engine.hit(event.offsetX, event.offsetY)
    if (event.altKey || event.shiftKey) {
      if (spot) this.events.onMoment(spot.tile.event[spot.column])
      return
    }
    this.events.onPick(typeof spot?.block === 'number' ? spot.tile.block[spot.block] : null)
  }

  /** Runs before each frame, because the item under the pointer may have changed. */
  look(): void {
    const { scene } = this.engine
    const { cursor } = scene
    if (!cursor && !this.told) return
    const spot = cursor && this.engine.hit(cursor.x, cursor.y)
    scene.hovered = typeof spot?.block === 'number' ? spot.tile.block[spot.block] : null
    if (cursor === this.told && spot === null) return
    this.told = cursor
    this.events.onHover(spot, cursor?.x ?? 0, cursor?.y ?? 0)
  }

  private forget(): void {
    this.engine.scene.cursor = null
    this.engine.redraw()
  }

  private onKey(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key
    const act = this.acts[key]
    if (!act) return
    event.preventDefault()
    act(key)
  }

  private readonly acts: Record<string, (key: string) => void> = {
    w: () => this.engine.zoom(0.8),
    '+': () => this.engine.zoom(0.8),
    '=': () => this.engine.zoom(0.8),
    s: () => this.engine.zoom(1.25),
    '-': () => this.engine.zoom(1.25),
    a: () => this.engine.pan(-0.1),
    d: () => this.engine.pan(0.1),
    ArrowLeft: (key) => this.walk(key) || this.engine.pan(-0.1),
    ArrowRight: (key) => this.walk(key) || this.engine.pan(0.1),
    ArrowUp: (key) => this.walk(key) || this.engine.zoomBytes(0.8, 0),
    ArrowDown: (key) => this.walk(key) || this.engine.zoomBytes(1.25, 0),
    Home: () => this.engine.pan(-1e9),
    End: () => this.engine.pan(1e9),
    '0': () => this.engine.reset(),
    z: () => this.events.onUndo(),
    m: () => {
      const event = this.engine.pointed()
      if (event !== null) this.events.onMoment(event)
    },
    Escape: () => this.events.onPick(null),
  }

  /** False without a selected block: the arrows then move the window. */
  private walk(key: string): boolean {
    if (this.engine.scene.selected === null) return false
    const next = this.engine.walk(key)
    if (next !== null) this.events.onPick(next)
    return true
  }
}
