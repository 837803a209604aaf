// The lifetime of a canvas engine and its window.
import { type RefObject, useEffect, useRef } from 'react'
import type { Range } from '../canvas/timeline/model'

interface Engine {
  setView(view: Range): void
  destroy(): void
}

export interface Windowed {
  view: Range
  /** The last window that the canvas itself brought into the URL: by then it may have moved on. */
  lastSent: RefObject<Range | null>
}

/** Keeps `engine` made by `make`, anew for each model; effects that tell it something depend on the model as well. */
export function useEngine<E extends Engine>(
  engine: RefObject<E | null>,
  canvas: RefObject<HTMLCanvasElement | null>,
  model: object,
  { view, lastSent }: Windowed,
  make: (canvas: HTMLCanvasElement) => E,
): void {
  const latest = useRef(make)
  latest.current = make
  // biome-ignore lint/correctness/useExhaustiveDependencies: a model has an engine of its own
  useEffect(() => {
    if (!canvas.current) return
    const made = latest.current(canvas.current)
    engine.current = made
    return () => made.destroy()
  }, [model])
  // biome-ignore lint/correctness/useExhaustiveDependencies: a window is its two ends
  useEffect(() => {
    const own = lastSent.current
    lastSent.current = null
    if (own?.start !== view.start || own.end !== view.end) engine.current?.setView(view)
  }, [view.start, view.end, model])
}
