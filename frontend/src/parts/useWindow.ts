// The timeline's window, kept in the URL with undo.
import { type RefObject, useCallback, useEffect, useMemo, useRef } from 'react'
import type { Move } from '../canvas/movableViewport'
import type { Range } from '../canvas/viewport'
import { setCurrent } from '../state/current'
import { setRoute, stepBack, useRoute } from '../state/urlState'

/** The URL follows when the window rests so long. */
const REST_MS = 160
/** Zooms that follow each other so closely are undone together. */
const TOGETHER_MS = 1200

export interface TimelineWindow {
  view: Range
  /** The last window that the canvas itself brought into the URL: by then it may have moved on. */
  lastSent: RefObject<Range | null>
  onView: (view: Range, move: Move) => void
  undo: () => void
}

/** Whole nanoseconds: the server takes nothing else. */
export function rangeOf(start: string | undefined, end: string | undefined): Range | null {
  const range = { start: Math.round(Number(start)), end: Math.round(Number(end)) }
  const exact = Number.isSafeInteger(range.start) && Number.isSafeInteger(range.end)
  return start !== undefined && end !== undefined && exact && range.end > range.start ? range : null
}

/** Margins around an event may exceed the recording. */
function within(range: Range | null, { start, end }: Range): Range | null {
  const found = range && { start: Math.max(range.start, start), end: Math.min(range.end, end) }
  return found && found.end > found.start ? found : null
}

const putTimes = (next: Range, push: boolean) =>
  setRoute({ start_ns: String(next.start), end_ns: String(next.end) }, push)

/** The URL's window, clamped; else the first one. */
export function useWindow(first: Range, whole: Range): TimelineWindow {
  const { start_ns, end_ns } = useRoute()
  const view = useMemo(() => within(rangeOf(start_ns, end_ns), whole) ?? first, [start_ns, end_ns, first, whole])
  useEffect(() => {
    setCurrent({ window: view })
    return () => setCurrent({ window: null })
  }, [view])
  return useMovableWindow(view, putTimes)
}

/** A movable window stored in the URL; `put` writes it, with or without a history entry. */
export function useMovableWindow(view: Range, put: (next: Range, push: boolean) => void): TimelineWindow {
  const lastSent = useRef<Range | null>(null)
  const written = useRef<Range | null>(null)
  const waiting = useRef<{ view: Range; push: boolean; timer: number } | null>(null)
  const zoomed = useRef(Number.NEGATIVE_INFINITY)
  const write = useCallback(
    (next: Range, push: boolean) => {
      if (waiting.current) window.clearTimeout(waiting.current.timer)
      waiting.current = null
      lastSent.current = next
      written.current = next
      put(next, push)
    },
    [put],
  )
  const flush = useCallback(() => {
    if (waiting.current) write(waiting.current.view, waiting.current.push)
  }, [write])
  const onView = useCallback(
    (next: Range, move: Move) => {
      const now = performance.now()
      // One history entry per gesture; none for panning.
      const begins = move === 'zoom' && now - zoomed.current > TOGETHER_MS
      zoomed.current = move === 'zoom' ? now : move === 'jump' ? Number.NEGATIVE_INFINITY : zoomed.current
      if (begins || move === 'jump') flush()
      if (move === 'jump') {
        write(next, true)
        return
      }
      const push = begins || (waiting.current?.push ?? false)
      if (waiting.current) window.clearTimeout(waiting.current.timer)
      waiting.current = { view: next, push, timer: window.setTimeout(flush, REST_MS) }
    },
    [flush, write],
  )
  const undo = useCallback(() => {
    flush()
    zoomed.current = Number.NEGATIVE_INFINITY
    stepBack()
  }, [flush])
  useEffect(() => {
    // Back, a link or a search moved elsewhere: drop the pending write.
    if (waiting.current && (written.current?.start !== view.start || written.current.end !== view.end)) {
      window.clearTimeout(waiting.current.timer)
      waiting.current = null
    }
    written.current = view
  }, [view])
  useEffect(() => () => window.clearTimeout(waiting.current?.timer), [])
  return { view, lastSent, onView, undo }
}
