// A canvas and its input: pointers, keys and frames. Each picture and each timeline extends it.
import { isPrinting } from '../lib/printing'
import { fitCanvas } from './surface'
import { isTyping } from './typing'

export interface Range {
  start: number
  end: number
}

export interface Point {
  x: number
  y: number
}

/** The effect of a pressed pointer, until it is released. */
export interface Drag {
  cursor?: string
  move(to: Point): void
  end?(): void
}

export interface Pinch {
  distance: number
  middle: number
}

/** A pointer that moves less than this many pixels clicks. */
const CLICK_PX = 4
const LEAST_PINCH_PX = 10
/** Keys that the rest of the page uses too: the canvas takes them when it or nothing has the focus. */
const SHARED = new Set([
  'ArrowLeft',
  'ArrowRight',
  'ArrowUp',
  'ArrowDown',
  'PageUp',
  'PageDown',
  'Home',
  'End',
  'Escape',
  'Enter',
  'Backspace',
])

export abstract class Viewport<Hit> {
  protected readonly canvas: HTMLCanvasElement
  protected readonly abort = new AbortController()
  /** The pointer while no button is pressed. */
  protected pointer: Point | null = null
  protected hovered: Hit | null = null
  private reported: Point | null = null
  private readonly pointers = new Map<number, Point>()
  private press: { from: Point; drag: Drag | null; hasMoved: boolean } | null = null
  private pinch: ((now: Pinch) => void) | null = null
  private readonly observer: ResizeObserver
  private frame = 0

  /** `keysFrom`: other windows whose keys are handled as well. */
  constructor(canvas: HTMLCanvasElement, keysFrom: readonly EventTarget[] = [canvas]) {
    this.canvas = canvas
    const { signal } = this.abort
    canvas.addEventListener('wheel', (event) => this.onWheel(event), { passive: false, signal })
    canvas.addEventListener('pointerdown', (event) => this.onDown(event), { signal })
    canvas.addEventListener('pointermove', (event) => this.onMove(event), { signal })
    canvas.addEventListener('pointerup', (event) => this.onUp(event), { signal })
    canvas.addEventListener('pointercancel', (event) => this.release(event), { signal })
    canvas.addEventListener('pointerleave', () => this.forget(), { signal })
    canvas.addEventListener('contextmenu', (event) => this.onContextMenu(pointOf(event), event), { signal })
    canvas.addEventListener('dblclick', (event) => this.onDoubleClick(pointOf(event), event), { signal })
    for (const source of keysFrom) {
      source.addEventListener('keydown', (event) => this.onKeyDown(event as KeyboardEvent), { signal })
      source.addEventListener('keyup', (event) => this.onKeyUp(keyOf(event as KeyboardEvent)), { signal })
      source.addEventListener('blur', () => this.onBlur(), { signal })
    }
    // The outer window outlives our page.
    window.addEventListener('pagehide', () => this.destroy(), { signal })
    this.observer = new ResizeObserver(() => this.onResize())
    this.observer.observe(canvas)
  }

  destroy(): void {
    this.abort.abort()
    this.observer.disconnect()
    cancelAnimationFrame(this.frame)
  }

  protected abstract hit(point: Point): Hit | null
  protected abstract draw(context: CanvasRenderingContext2D, width: number, height: number): void
  /** `at`: the pointer in the window. */
  protected abstract onHover(hit: Hit | null, at: Point): void
  protected abstract onClick(point: Point, event: PointerEvent): void
  /** False if the key has no effect. */
  protected abstract onKey(key: string, event: KeyboardEvent): boolean

  /** False if the canvas has no room. */
  protected measure(width: number, _height: number): boolean {
    return width > 0
  }
  protected afterDraw(): void {}
  protected onResize(): void {
    this.redraw()
  }
  protected onWheel(_event: WheelEvent): void {}
  protected onDoubleClick(_point: Point, _event: MouseEvent): void {}
  protected onContextMenu(_point: Point, _event: MouseEvent): void {}
  protected onKeyUp(_key: string): void {}
  protected onBlur(): void {}
  protected startDrag(_from: Point, _event: PointerEvent): Drag | null {
    return null
  }
  protected startPinch(_first: Pinch): ((now: Pinch) => void) | null {
    return null
  }
  protected cursorAt(_point: Point): string {
    return ''
  }

  redraw(): void {
    // There is no frame any more before the browser prints.
    if (isPrinting()) this.drawNow()
    else if (!this.frame) this.frame = requestAnimationFrame(() => this.drawNow())
  }

  private drawNow(): void {
    this.frame = 0
    const { clientWidth: width, clientHeight: height } = this.canvas
    if (!this.measure(width, height)) return
    this.look()
    const context = fitCanvas(this.canvas, width, height)
    if (context) this.draw(context, width, height)
    this.afterDraw()
  }

  /** Runs before each frame, because the picture under the pointer may have changed. */
  protected look(): void {
    const { pointer } = this
    const before = this.hovered
    this.hovered = pointer && this.hit(pointer)
    const isSame = isAlike(before, this.hovered)
    if (isSame && (this.hovered === null || pointer === this.reported)) return
    this.reported = pointer
    const box = this.canvas.getBoundingClientRect()
    this.onHover(this.hovered, { x: box.left + (pointer?.x ?? 0), y: box.top + (pointer?.y ?? 0) })
  }

  protected forget(): void {
    this.pointer = null
    this.redraw()
  }

  private onDown(event: PointerEvent): void {
    if (event.button !== 0) return
    this.canvas.focus({ preventScroll: true })
    this.canvas.setPointerCapture(event.pointerId)
    const point = pointOf(event)
    this.pointers.set(event.pointerId, point)
    if (this.pointers.size === 2) {
      this.press = null
      this.pinch = this.startPinch(this.fingers())
    } else this.press = { from: point, drag: this.startDrag(point, event), hasMoved: false }
  }

  private fingers(): Pinch {
    const [a, b] = [...this.pointers.values()]
    return { distance: Math.max(LEAST_PINCH_PX, Math.hypot(a.x - b.x, a.y - b.y)), middle: (a.x + b.x) / 2 }
  }

  private onMove(event: PointerEvent): void {
    const { press, pinch } = this
    const point = pointOf(event)
    if (this.pointers.has(event.pointerId)) this.pointers.set(event.pointerId, point)
    if (pinch && this.pointers.size === 2) pinch(this.fingers())
    else if (!press) {
      this.canvas.style.cursor = this.cursorAt(point)
      this.pointer = point
      this.redraw()
    } else {
      const { from, drag } = press
      press.hasMoved ||= Math.abs(point.x - from.x) + Math.abs(point.y - from.y) >= CLICK_PX
      if (!press.hasMoved) return
      this.forget()
      if (drag?.cursor) this.canvas.style.cursor = drag.cursor
      drag?.move(point)
    }
  }

  private release(event: PointerEvent): void {
    this.pointers.delete(event.pointerId)
    this.press = null
    this.pinch = null
    this.canvas.style.cursor = ''
  }

  private onUp(event: PointerEvent): void {
    const { press } = this
    this.release(event)
    if (press?.hasMoved) press.drag?.end?.()
    else if (press) this.onClick(pointOf(event), event)
  }

  private onKeyDown(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || !this.isMine(event)) return
    if (this.onKey(keyOf(event), event)) event.preventDefault()
  }

  private isMine(event: KeyboardEvent): boolean {
    const [target = null] = event.composedPath()
    // Another TensorBoard tab, or a dialog, has the focus.
    if (this.canvas.clientWidth === 0 || isTyping(target)) return false
    const element = target as Partial<Element> | null
    if (element?.closest?.('[aria-modal="true"]')) return false
    return !SHARED.has(event.key) || target === this.canvas || element?.tagName === 'BODY'
  }
}

const pointOf = ({ offsetX, offsetY }: MouseEvent): Point => ({ x: offsetX, y: offsetY })
const keyOf = ({ key }: KeyboardEvent) => (key.length === 1 ? key.toLowerCase() : key)

/** Whether two hits are equal: they and their parts have the same members. */
function isAlike(a: unknown, b: unknown, depth = 2): boolean {
  if (a === b) return true
  if (depth === 0 || typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  const [one, other] = [a as Record<string, unknown>, b as Record<string, unknown>]
  return Object.keys(one).every((key) => isAlike(one[key], other[key], depth - 1))
}
