// Two panels with a draggable divider.
import { type KeyboardEvent, type PointerEvent, type ReactNode, useRef, useState } from 'react'
import { clamp } from '../lib/axisTicks'
import css from './split.module.css'

const NOTCH = 0.05

export function Split(props: {
  children: ReactNode
  /** null: nothing is below, and there is no bar. */
  below: ReactNode | null
  label: string
  /** Height share of the lower part, and its limits. */
  share: number
  limits: { least: number; most: number; usual: number }
  onShare: (share: number) => void
}) {
  const { children, below, label, share, limits, onShare } = props
  const whole = useRef<HTMLDivElement>(null)
  const [moving, setMoving] = useState<number | null>(null)
  const now = moving ?? share
  const bounded = (wanted: number) => clamp(wanted, limits.least, limits.most)
  /** How far the pointer took hold of the bar from its lower edge, as a share. */
  const grip = useRef(0)
  const at = (event: PointerEvent) => {
    const box = whole.current?.getBoundingClientRect()
    return box ? (box.bottom - event.clientY) / box.height : now
  }
  const onKey = (event: KeyboardEvent) => {
    const to: Record<string, number> = {
      ArrowUp: share + NOTCH,
      ArrowDown: share - NOTCH,
      Home: limits.most,
      End: limits.least,
      Enter: limits.usual,
    }
    const wanted = to[event.key]
    if (wanted === undefined) return
    event.preventDefault()
    onShare(bounded(wanted))
  }
  return (
    <div ref={whole} className={css.split}>
      {children}
      {below !== null && (
        <>
          <div
            role="separator"
            tabIndex={0}
            aria-label={label}
            aria-orientation="horizontal"
            aria-valuemin={Math.round(limits.least * 100)}
            aria-valuemax={Math.round(limits.most * 100)}
            aria-valuenow={Math.round(now * 100)}
            title="Drag or use the arrow keys; double-click to reset"
            className={css.bar}
            onKeyDown={onKey}
            onDoubleClick={() => onShare(limits.usual)}
            onPointerDown={(event) => {
              event.currentTarget.setPointerCapture(event.pointerId)
              grip.current = at(event) - now
              setMoving(now)
            }}
            onPointerMove={(event) => moving !== null && setMoving(bounded(at(event) - grip.current))}
            onPointerUp={() => {
              if (moving !== null) onShare(moving)
              setMoving(null)
            }}
            onPointerCancel={() => setMoving(null)}
          />
          <div className={css.below} style={{ flexBasis: `${now * 100}%` }}>
            {below}
          </div>
        </>
      )}
    </div>
  )
}
