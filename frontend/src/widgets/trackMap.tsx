// The scroll bar of tracks, with a small picture of them.
import { type PointerEvent, type RefObject, useMemo, useRef } from 'react'
import { categoryColor } from '../lib/color'
import css from './trackMap.module.css'

export interface TrackPart {
  top: number
  height: number
  /** Category whose colour it has. */
  kind: string
}

/** Maximum number of bands; beyond it, adjacent tracks of one kind share a band. */
const MOST_BANDS = 150

/** Bands of the tracks' colours from top to bottom, as an image of the style sheet. */
export function trackBands(parts: readonly TrackPart[], content: number): string {
  const isMany = parts.length > MOST_BANDS
  const percent = (pixels: number) => `${Math.round((pixels / content) * 1e4) / 100}%`
  let from = 0
  const stops = parts.flatMap(({ top, height, kind }, i) => {
    if (isMany && parts[i + 1]?.kind === kind) return []
    const color = categoryColor(kind)
    const [start, end] = [percent(from), percent(top + height)]
    from = top + height
    const gap = isMany ? end : `calc(${end} - 1px)`
    return [`${color} ${start} ${gap}`, `transparent ${gap} ${end}`]
  })
  return stops.length > 0 ? `linear-gradient(to bottom, ${stops.join(', ')})` : 'none'
}

/** `canvas`: id of the canvas that it scrolls. The caller moves the thumb, in every frame. */
export function TrackMap(props: {
  canvas: string
  parts: readonly TrackPart[]
  content: number
  room: number
  scroll: number
  scrollNow: () => number
  thumb: RefObject<HTMLDivElement | null>
  onScroll: (to: number) => void
}) {
  const { canvas, parts, content, room, scroll, scrollNow, thumb, onScroll } = props
  const bar = useRef<HTMLDivElement>(null)
  /** How far below the top of the thumb it was pressed; null = it is not pressed. */
  const grip = useRef<number | null>(null)
  const bands = useMemo(() => trackBands(parts, content), [parts, content])
  const isFull = content <= room
  const at = (event: PointerEvent) => {
    const box = bar.current?.getBoundingClientRect()
    return box ? ((event.clientY - box.top) / box.height) * content : 0
  }
  const release = () => {
    grip.current = null
  }
  return (
    <div
      ref={bar}
      data-testid="track-map"
      className={css.map}
      role="scrollbar"
      aria-label="Scroll tracks"
      aria-orientation="vertical"
      aria-controls={canvas}
      aria-valuemin={0}
      aria-valuemax={Math.max(0, Math.round(content - room))}
      aria-valuenow={Math.round(scroll)}
      onPointerDown={(event) => {
        if (isFull) return
        event.currentTarget.setPointerCapture(event.pointerId)
        const top = scrollNow()
        const place = at(event)
        // Outside the thumb, its middle goes there.
        grip.current = place >= top && place <= top + room ? place - top : room / 2
        onScroll(place - grip.current)
      }}
      onPointerMove={(event) => grip.current !== null && onScroll(at(event) - grip.current)}
      onPointerUp={release}
      onPointerCancel={release}
    >
      <div className={css.bands} style={{ backgroundImage: bands, height: isFull ? content : '100%' }} />
      {!isFull && <div ref={thumb} className={css.thumb} style={{ height: `${(room / content) * 100}%` }} />}
    </div>
  )
}
