// The lifetime of a canvas engine and its window.
import { type RefObject, useEffect, useRef } from 'react'
import type { Range } from '../canvas/viewport'

interface Engine {
  setView(view: Range): void
  destroy(): void
}

export interface Windowed<E extends Engine> {
  view: Range
  /** The window that the canvas last wrote to the URL. The canvas may show a later one. */
  lastSent: RefObject<Range | null>
  engine: RefObject<E | null>
}

/** Creates an engine for each model. Effects that set properties of the engine also depend on the model. */
export function useEngine<E extends Engine>(
  canvas: RefObject<HTMLCanvasElement | null>,
  model: object,
  { view, lastSent, engine }: Windowed<E>,
  make: (canvas: HTMLCanvasElement) => E,
): void {
  const latest = useRef(make)
  latest.current = make
  // biome-ignore lint/correctness/useExhaustiveDependencies: a model has an engine of its own
  useEffect(() => {
    if (!canvas.current) return
    const made = latest.current(canvas.current)
    engine.current = made
    return () => {
      engine.current = null
      made.destroy()
    }
  }, [model])
  // biome-ignore lint/correctness/useExhaustiveDependencies: a window is its two ends
  useEffect(() => {
    const own = lastSent.current
    lastSent.current = null
    if (own?.start !== view.start || own.end !== view.end) engine.current?.setView(view)
  }, [view.start, view.end, model])
}
