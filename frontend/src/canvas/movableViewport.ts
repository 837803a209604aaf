// A viewport whose window moves along one axis: wheel, drag, pinch and keys pan and zoom it.
//
// A pressed key W: onKey, hold, glide, step, zoom, move, then setView (which redraws) and onView (which tells the page).
import { clamp } from '../lib/axisTicks'
import { type WheelStyle, wheelAction } from '../lib/wheel'
import { type Drag, type Pinch, type Point, type Range, Viewport } from './viewport'

/** How the window moved: along the axis, closer or further, or to another place at once. */
export type Move = 'pan' | 'zoom' | 'jump'

/** Everything there is to see, and the width of the closest zoom. */
export interface Limits extends Range {
  narrowest: number
}

const WHEEL_ZOOM = 0.0022
const WHEEL_LINE_PX = 16
/** Browsers report a pinch as a wheel with Ctrl and few pixels: it zooms this many times as much. */
const PINCH = 4.5
const PINCH_PX = 40
/** Speed of held keys per second: e-foldings of zoom, windows, pixels. */
const KEY_ZOOM = 2.2
const KEY_PAN = 1.2
const KEY_SCROLL_PX = 500
const KEY_PAGE_PX = 2400
/** Time of a held key that moves as far as a tap. */
const TAP_MS = 60
const FRAME_MS = 50

/** Zoom factor of a wheel movement in pixels. */
export const wheelFactor = (pixels: number) => Math.exp(clamp(pixels, -240, 240) * WHEEL_ZOOM)

export abstract class MovableViewport<Hit> extends Viewport<Hit> {
  abstract readonly scene: { view: Range }
  protected abstract get limits(): Limits
  protected abstract get plot(): { left: number; width: number }
  /** The window moved (already clamped, in whole units). */
  protected abstract onView(view: Range, move: Move): void
  /** A drag moved the content down by pixels. */
  protected abstract dragDown(pixels: number): void
  /** The other axis, for the wheel and the arrow keys. `at` is null for keys. False if it is at its end. */
  protected abstract moveAcross(pixels: number, at: Point | null): boolean
  /** Selects the neighbour of the selected item; false if the key should move the window. */
  protected abstract walk(key: string, isShift: boolean): boolean
  protected abstract readonly acts: Record<string, () => void>
  protected wheelStyle: WheelStyle = 'zoom'
  private readonly calm = window.matchMedia('(prefers-reduced-motion: reduce)').matches
  private readonly held = new Set<string>()
  private gliding = 0

  override destroy(): void {
    super.destroy()
    this.held.clear()
    cancelAnimationFrame(this.gliding)
  }

  /** Moves the window without telling the page. */
  setView(view: Range): void {
    this.scene.view = view
    this.redraw()
  }

  /** `at`: the place that stays, as a share of the window. */
  zoom(factor: number, at = 0.5): void {
    const { start, end } = this.scene.view
    const span = (end - start) * factor
    this.move(start + (end - start - span) * at, span, 'zoom')
  }

  pan(fraction: number): void {
    const { start, end } = this.scene.view
    this.move(start + (end - start) * fraction, end - start, 'pan')
  }

  reset(): void {
    this.show(this.limits)
  }

  show({ start, end }: Range): void {
    this.move(start, end - start)
  }

  move(start: number, span: number, how: Move = 'jump'): void {
    const { limits } = this
    const whole = limits.end - limits.start
    const wide = clamp(span, Math.min(whole, limits.narrowest), whole)
    const from = clamp(start, limits.start, limits.end - wide)
    this.setView({ start: from, end: from + wide })
    // Only the page rounds, so that slow drags move.
    const first = Math.round(from)
    this.onView({ start: first, end: Math.max(first + 1, Math.round(from + wide)) }, how)
  }

  protected override onWheel(event: WheelEvent): void {
    const { left, width } = this.plot
    const { view } = this.scene
    const action = wheelAction(event, this.wheelStyle, event.offsetX < left)
    const isForced = event.ctrlKey || event.metaKey
    const isWhole = view.start <= this.limits.start && view.end >= this.limits.end
    // Nothing to zoom out of: the page scrolls.
    if (action === 'zoom' && isWhole && !isForced && event.deltaY > 0) return
    const scale = event.deltaMode === 1 ? WHEEL_LINE_PX : 1
    const [x, y] = [event.deltaX * scale, event.deltaY * scale]
    if (action === 'zoom') {
      const isPinch = event.ctrlKey && Math.abs(y) < PINCH_PX
      this.zoom(wheelFactor(isPinch ? y * PINCH : y), clamp((event.offsetX - left) / width, 0, 1))
    } else if (action === 'along') this.pan((Math.abs(x) > Math.abs(y) ? x : y) / width)
    // Browsers turn Shift + wheel into a horizontal scroll.
    else if (!this.moveAcross(y || x, { x: event.offsetX, y: event.offsetY })) return
    event.preventDefault()
  }

  protected override startDrag(from: Point, _event: PointerEvent): Drag | null {
    const { view } = this.scene
    const span = view.end - view.start
    let { y } = from
    return {
      cursor: 'grabbing',
      move: (to) => {
        this.move(view.start - ((to.x - from.x) / this.plot.width) * span, span, 'pan')
        this.dragDown(to.y - y)
        y = to.y
      },
    }
  }

  /** The place between the fingers stays. */
  protected override startPinch(first: Pinch): (now: Pinch) => void {
    const { start, end } = this.scene.view
    const share = ({ middle }: Pinch) => (middle - this.plot.left) / this.plot.width
    const held = start + share(first) * (end - start)
    return (now) => {
      const span = ((end - start) * first.distance) / now.distance
      this.move(held - share(now) * span, span, 'zoom')
    }
  }

  protected override onKey(key: string, event: KeyboardEvent): boolean {
    if (key.startsWith('Arrow') && this.walk(key, event.shiftKey)) return true
    if (this.moves[key]) this.hold(key)
    else if (!this.acts[key]) return false
    else if (!event.repeat) this.acts[key]()
    return true
  }

  protected override onKeyUp(key: string): void {
    this.held.delete(key)
  }

  protected override onBlur(): void {
    this.held.clear()
  }

  /** A tap moves one notch at once; a held key glides from then on. */
  private hold(key: string): void {
    if (this.calm) {
      this.step(key, 2 * TAP_MS)
      return
    }
    if (this.held.has(key)) return
    this.held.add(key)
    this.step(key, TAP_MS)
    if (this.gliding === 0) this.glide(performance.now())
  }

  private glide(before: number): void {
    this.gliding = requestAnimationFrame((now) => {
      for (const key of this.held) this.step(key, clamp(now - before, 0, FRAME_MS))
      this.gliding = 0
      if (this.held.size > 0) this.glide(now)
    })
  }

  private step(key: string, ms: number): void {
    this.moves[key](ms / 1000)
  }

  private readonly zoomIn = (seconds: number) => this.zoom(Math.exp(-KEY_ZOOM * seconds))
  private readonly zoomOut = (seconds: number) => this.zoom(Math.exp(KEY_ZOOM * seconds))
  private readonly panBack = (seconds: number) => this.pan(-KEY_PAN * seconds)
  private readonly panOn = (seconds: number) => this.pan(KEY_PAN * seconds)
  private readonly moves: Record<string, (seconds: number) => void> = {
    w: this.zoomIn,
    '+': this.zoomIn,
    '=': this.zoomIn,
    s: this.zoomOut,
    '-': this.zoomOut,
    a: this.panBack,
    ArrowLeft: this.panBack,
    d: this.panOn,
    ArrowRight: this.panOn,
    ArrowUp: (seconds) => this.moveAcross(-KEY_SCROLL_PX * seconds, null),
    ArrowDown: (seconds) => this.moveAcross(KEY_SCROLL_PX * seconds, null),
    PageUp: (seconds) => this.moveAcross(-KEY_PAGE_PX * seconds, null),
    PageDown: (seconds) => this.moveAcross(KEY_PAGE_PX * seconds, null),
    Home: () => this.pan(-1e9),
    End: () => this.pan(1e9),
  }
}
