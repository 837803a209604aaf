// A tooltip at the pointer.
import { type ReactNode, useEffect, useLayoutEffect, useRef } from 'react'
import { type Point, tooltipPosition } from '../lib/tooltipPosition'
import textCss from './text.module.css'
import css from './tip.module.css'

/** `x`, `y`: the pointer's place in the window. `clear`: places that it should not cover. */
export function FloatingTooltip(props: {
  x: number
  y: number
  children: ReactNode
  wide?: boolean
  clear?: readonly Point[]
}) {
  const { x, y, children, wide, clear } = props
  const box = useRef<HTMLDivElement>(null)
  const place = useRef(() => {})
  place.current = () => {
    const node = box.current
    if (!node) return
    const { offsetWidth: width, offsetHeight: height } = node
    const room = { width: window.innerWidth, height: window.innerHeight }
    const at = tooltipPosition({ x, y }, { width, height }, room, clear)
    node.style.left = `${at.x}px`
    node.style.top = `${at.y}px`
  }
  // Text and size may change without a pointer move, and later than this.
  useLayoutEffect(() => place.current())
  useEffect(() => {
    const observer = new ResizeObserver(() => place.current())
    if (box.current) observer.observe(box.current)
    return () => observer.disconnect()
  }, [])
  return (
    <div ref={box} data-testid="tip" className={`${css.tip} ${css.float} ${wide ? css.wide : ''}`}>
      {children}
    </div>
  )
}

export const TipLines = ({ lines }: { lines: readonly (readonly [string, string])[] }) =>
  lines.map(([name, value]) => (
    <div className={css.row} key={name}>
      <span className={css.name}>{name}</span>
      <span className={textCss.num}>{value}</span>
    </div>
  ))
