// The visible time window, and ways to move it.
import { clamp } from '../../lib/axisTicks'
import type { Move, TimelineEvents } from './input'
import type { Item, Range } from './model'
import type { Stage } from './scene'

/** Nanoseconds of the closest zoom. */
const NARROWEST = 200
/** Merged blocks this many times shorter than the window open in two steps, to keep orientation. */
const TWO_STEPS = 32

export abstract class TimelineWindow {
  abstract readonly scene: Stage
  /** Everything there is to see. */
  abstract readonly model: Range
  protected abstract readonly events: TimelineEvents

  /** Moves the window without telling anyone: the URL already knows. */
  abstract setView(view: Range): void

  zoom(factor: number, at = 0.5): void {
    const { view } = this.scene
    const span = view.end - view.start
    const pivot = view.start + span * at
    this.move(pivot - span * factor * at, span * factor, 'zoom')
  }

  pan(fraction: number): void {
    const { start, end } = this.scene.view
    this.move(start + (end - start) * fraction, end - start, 'pan')
  }

  reset(): void {
    this.move(this.model.start, this.model.end - this.model.start)
  }

  show(range: Range): void {
    this.move(range.start, range.end - range.start)
  }

  /** Shows a time with a little around it. */
  focus({ start, end }: Range): void {
    const span = Math.max(end - start, 100)
    this.move(start - span * 0.1, span * 1.2)
  }

  /** Zooms into a merged block, half way if far; false if no zoom can split it. */
  open(item: Item): boolean {
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

  /** The time under the pointer, else of the selected event, else the middle. */
  pointed(): number {
    const { cursor, selected, view } = this.scene
    return cursor ?? selected?.start ?? (view.start + view.end) / 2
  }

  move(start: number, span: number, how: Move = 'jump'): void {
    const { model } = this
    const whole = model.end - model.start
    const wide = clamp(span, Math.min(whole, NARROWEST), whole)
    const from = clamp(start, model.start, model.end - wide)
    const view = { start: Math.round(from), end: Math.round(from + wide) }
    this.setView(view)
    this.events.onView(view, how)
  }
}
