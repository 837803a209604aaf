// A matrix of ranks on a canvas.
import { type KeyboardEvent, type PointerEvent, useEffect, useMemo, useRef, useState } from 'react'
import type { Unit } from '../api/payloads'
import { cellAt, cellShades, drawMatrix, hasNumbers, heightOf, layoutOf } from '../canvas/matrix'
import { fitCanvas as sharpen } from '../canvas/surface'
import { columnScale, format, formatNumber } from '../lib/format'
import { domainOf, type Matrix, neighbourCell } from '../lib/rankMatrix'
import { useTheme } from './basics'
import { FloatingTooltip } from './floatingTooltip'
import { useWidth } from './useSize'
import css from './matrix.module.css'
import textCss from './text.module.css'
import tipCss from './tip.module.css'

export interface CellTooltip {
  title: string
  lines: readonly [string, string][]
}

const MARKED = 20

export function MatrixPicture(props: {
  matrix: Matrix
  unit: Unit
  category: string
  /** Screen reader label. */
  label: string
  /** Plural noun of the rows. */
  noun: string
  /** Pixels of all cells together at most, and of one row. */
  height: number
  tallest?: number
  selected: number
  onSelect: (cell: number) => void
  /** Absent: a cell leads nowhere. */
  onOpen?: (cell: number) => void
  tell: (cell: number) => CellTooltip
  /** Unit of the columns. */
  axis: string
  /** Meaning of an empty cell. */
  empty?: string
  /** Additional note. */
  note?: string
}) {
  const { matrix, unit, category, label, noun, height, tallest, selected, onSelect, onOpen, tell, axis } = props
  const { empty = 'unknown', note = '' } = props
  const theme = useTheme()
  const frame = useRef<HTMLDivElement>(null)
  const canvas = useRef<HTMLCanvasElement>(null)
  const width = useWidth(frame)
  const [hover, setHover] = useState<{ cell: number; x: number; y: number } | null>(null)
  const layout = useMemo(() => layoutOf(matrix, width, height, tallest, axis), [matrix, width, height, tallest, axis])
  const domain = useMemo(() => domainOf(matrix.values), [matrix])
  const scale = useMemo(() => columnScale(unit, matrix.values), [unit, matrix])
  const shades = useMemo(() => cellShades(category, theme), [category, theme])
  const drawn = heightOf(layout)
  const textOf = (value: number) => formatNumber(value, scale)
  // The scale's ends use the cells' unit.
  const written = hasNumbers(matrix, layout, textOf) ? scale : undefined
  useEffect(() => {
    if (!canvas.current || width === 0) return
    const context = sharpen(canvas.current, width, drawn)
    const shown = { matrix, layout, domain, category, axis, theme, textOf, selected, hover: hover?.cell ?? -1 }
    if (context) drawMatrix(context, shown, width)
  })
  const find = ({ nativeEvent: { offsetX, offsetY } }: PointerEvent) => cellAt(matrix, layout, offsetX, offsetY)
  const onKey = (event: KeyboardEvent) => {
    setHover(null)
    if (event.key.startsWith('Arrow') || event.key === 'Home' || event.key === 'End') {
      onSelect(neighbourCell(matrix, selected, event.key))
    } else if (event.key === 'Escape') onSelect(-1)
    else if (event.key === 'Enter' && onOpen && selected >= 0) onOpen(selected)
    else return
    event.preventDefault()
  }
  const perLine = Math.ceil(matrix.rows.length / (layout.rowFold.length - 1))
  const perPlace = Math.ceil(matrix.columns.length / (layout.columnFold.length - 1))
  const spoken = selected >= 0 && selected < matrix.values.length ? tell(selected) : null
  return (
    <div className={css.frame} data-testid="matrix" data-rows={matrix.rows.length} data-columns={matrix.columns.length}>
      <div className={css.legend} data-testid="matrix-legend">
        <span>{`${domain.isLog ? 'up to ' : ''}${format(domain.low, unit, written)}`}</span>
        <i style={{ background: `linear-gradient(to right, ${shades[0]}, ${shades[shades.length - 1]})` }} />
        <span>{format(domain.high, unit, written)}</span>
        {written && scale.symbol && <span>· numbers in {scale.symbol}</span>}
        {domain.low > 0 && !domain.isLog && <span>· colours start at the smallest value</span>}
        {domain.isLog && <span>· logarithmic scale</span>}
        {layout.right > MARKED && <span>· labels on the right: largest means</span>}
        {domain.isAlike && <span>· all within 2 %</span>}
        {matrix.values.includes(null) && <span>· empty: {empty}</span>}
        {note && <span>· {note}</span>}
        {perLine > 1 && (
          <span>
            · each line is the largest of {perLine} {noun}
          </span>
        )}
        {perPlace > 1 && <span>· each pixel is the largest of {perPlace} columns</span>}
      </div>
      <div ref={frame}>
        <canvas
          ref={canvas}
          className={css.canvas}
          style={{ width: '100%', height: drawn }}
          tabIndex={0}
          role="application"
          aria-label={`${label}. Arrow keys select a cell, ${onOpen ? 'Enter opens the rank, ' : ''}Escape deselects. The tables have the same numbers.`}
          onPointerMove={(event) => {
            const cell = find(event)
            setHover(cell < 0 ? null : { cell, x: event.clientX, y: event.clientY })
          }}
          onPointerLeave={() => setHover(null)}
          onPointerUp={(event) => onSelect(find(event))}
          onKeyDown={onKey}
        />
      </div>
      <span className={textCss.sr} role="status">
        {spoken && `${spoken.title}: ${spoken.lines.map(([name, value]) => `${name} ${value}`).join(', ')}`}
      </span>
      {hover && hover.cell < matrix.values.length && <Tip told={tell(hover.cell)} x={hover.x} y={hover.y} />}
    </div>
  )
}

function Tip({ told, x, y }: { told: CellTooltip; x: number; y: number }) {
  return (
    <FloatingTooltip x={x} y={y} wide>
      <div className={tipCss.head}>{told.title}</div>
      {told.lines.map(([name, value]) => (
        <div className={tipCss.row} key={name}>
          <span className={tipCss.name}>{name}</span>
          <span className={`${textCss.num} ${css.value}`}>{value}</span>
        </div>
      ))}
    </FloatingTooltip>
  )
}
