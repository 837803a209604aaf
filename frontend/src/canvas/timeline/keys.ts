// Keyboard input of the timeline; arrows work only if unused elsewhere.

import { isTyping } from '../typing'
import type { MovableWindow, TimelineEvents } from './input'
import type { Spot } from './model'

/** Keys that other things on the page have a use for: they are the timeline's when the canvas or nothing has the focus. */
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
])
const MOVING = new Set([...SHARED, 'w', 'a', 's', 'd', '+', '=', '-'])
MOVING.delete('Escape')

export class TimelineKeys {
  private readonly canvas: HTMLCanvasElement
  private readonly engine: MovableWindow
  private readonly events: TimelineEvents
  private readonly abort = new AbortController()
  private readonly calm = window.matchMedia('(prefers-reduced-motion: reduce)').matches
  private readonly held = new Set<string>()
  private holding = 0

  /** `from`: windows whose keys are handled: ours and TensorBoard's. */
  constructor(canvas: HTMLCanvasElement, engine: MovableWindow, events: TimelineEvents, from: readonly Window[]) {
    this.canvas = canvas
    this.engine = engine
    this.events = events
    const signal = this.abort.signal
    for (const heard of from) {
      heard.addEventListener('keydown', (event) => this.onKey(event), { signal })
      heard.addEventListener('keyup', (event) => this.held.delete(keyOf(event)), { signal })
      heard.addEventListener('blur', () => this.held.clear(), { signal })
    }
    // The outer window outlives our page.
    window.addEventListener('pagehide', () => this.destroy(), { signal })
  }

  destroy(): void {
    this.abort.abort()
    this.held.clear()
    cancelAnimationFrame(this.holding)
  }

  private onKey(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || !this.isMine(event)) return
    const key = keyOf(event)
    if (MOVING.has(key)) {
      event.preventDefault()
      if (event.shiftKey && this.follow(key)) return
      if (key.startsWith('Arrow') && this.walk(key)) return
      this.hold(key)
      return
    }
    const act = this.acts[key]
    if (!act || event.repeat) return
    event.preventDefault()
    act()
  }

  private isMine(event: KeyboardEvent): boolean {
    const { key } = event
    const [target = null] = event.composedPath()
    // Another TensorBoard tab, or a dialog, has the focus.
    if (this.canvas.clientWidth === 0 || isTyping(target)) return false
    const element = target as Partial<Element> | null
    if (element?.closest?.('[aria-modal="true"]')) return false
    return !SHARED.has(key) || target === this.canvas || element?.tagName === 'BODY'
  }

  private readonly acts: Record<string, () => void> = {
    Escape: () => {
      this.engine.setRange(null)
      this.events.onRange(null)
      this.events.onPick(null)
    },
    '0': () => this.engine.reset(),
    f: () => this.fit(),
    m: () => this.mark(),
    z: () => this.events.onUndo(),
    b: () => this.events.onBookmark(Math.round(this.engine.pointed())),
  }

  /** Shows the selected event, else the marked range, with a little around it. */
  private fit(): void {
    const chosen = this.engine.scene.selected ?? this.engine.scene.range
    if (chosen) this.engine.focus(chosen)
  }

  /** Marks the selected event, else the visible range. */
  private mark(): void {
    const { start, end } = this.engine.scene.selected ?? this.engine.scene.view
    if (end <= start) return
    this.engine.setRange({ start, end })
    this.events.onRange({ start, end })
  }

  /** From the selected event to its neighbour; false when none is selected, so that the arrows move the window. */
  private walk(key: string): boolean {
    if (!this.engine.scene.selected) return false
    const next = this.engine.neighbour(key)
    if (!next) return true
    this.engine.reveal({ lane: next.lane, row: next.row, start: next.start, end: next.start + next.dur })
    this.events.onPick(next)
    return true
  }

  /** Follows a flow arrow forwards or back. */
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

  /** Held keys glide; a tap moves one notch. */
  private hold(key: string): void {
    if (this.calm) {
      this.step(key, 120)
      return
    }
    this.held.add(key)
    if (this.holding === 0) this.loop(performance.now(), true)
  }

  private loop(before: number, first: boolean): void {
    this.holding = requestAnimationFrame((now) => {
      const elapsed = first ? 60 : Math.min(50, now - before)
      for (const key of this.held) this.step(key, elapsed)
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

const keyOf = ({ key }: KeyboardEvent) => (key.length === 1 ? key.toLowerCase() : key)
