// A tooltip at the pointer.
import { type ReactNode, useLayoutEffect, useRef } from 'react'
import { tooltipPosition } from '../lib/tooltipPosition'
import textCss from './text.module.css'
import css from './tip.module.css'

/** `x`, `y`: the pointer's place in the window. */
export function FloatingTooltip(props: { x: number; y: number; children: ReactNode; wide?: boolean }) {
  const { x, y, children, wide } = props
  const box = useRef<HTMLDivElement>(null)
  // Text and size may change without a pointer move.
  useLayoutEffect(() => {
    const node = box.current
    if (!node) return
    const { offsetWidth: width, offsetHeight: height } = node
    const at = tooltipPosition({ x, y }, { width, height }, { width: window.innerWidth, height: window.innerHeight })
    node.style.left = `${at.x}px`
    node.style.top = `${at.y}px`
  })
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
