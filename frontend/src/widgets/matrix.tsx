// A matrix of ranks on a canvas.
import { useMemo, useRef } from 'react'
import type { Unit } from '../api/payloads'
import { cellAt, cellShades, drawMatrix, hasNumbers, heightOf, layoutOf } from '../canvas/matrix'
import { columnScale, format, formatNumber } from '../lib/format'
import { domainOf, type Matrix, neighbourCell } from '../lib/rankMatrix'
import { useTheme } from './basics'
import { TipLines } from './floatingTooltip'
import { Picture } from './picture'
import { useWidth } from './useSize'
import css from './matrix.module.css'
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
  label: string
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
  note?: string
}) {
  const { matrix, unit, category, label, noun, height, tallest, selected, onSelect, onOpen, tell, axis } = props
  const { empty = 'unknown', note = '' } = props
  const theme = useTheme()
  const frame = useRef<HTMLDivElement>(null)
  const width = useWidth(frame)
  const layout = useMemo(() => layoutOf(matrix, width, height, tallest, axis), [matrix, width, height, tallest, axis])
  const domain = useMemo(() => domainOf(matrix.values), [matrix])
  const scale = useMemo(() => columnScale(unit, matrix.values), [unit, matrix])
  const shades = useMemo(() => cellShades(category, theme), [category, theme])
  const drawn = heightOf(layout)
  const textOf = (value: number) => formatNumber(value, scale)
  // The scale's ends use the cells' unit.
  const written = hasNumbers(matrix, layout, textOf) ? scale : undefined
  const onKey = (key: string) => {
    if (key.startsWith('Arrow') || key === 'Home' || key === 'End') onSelect(neighbourCell(matrix, selected, key))
    else if (key === 'Escape') onSelect(-1)
    else if (key === 'Enter' && onOpen && selected >= 0) onOpen(selected)
    else return false
    return true
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
        {domain.low > 0 && !domain.isLog && <span>· colors start at the smallest value</span>}
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
        <Picture<number>
          className={css.canvas}
          height={drawn}
          subject={matrix}
          label={`${label}. Arrow keys select a cell, ${onOpen ? 'Enter opens the rank, ' : ''}Escape deselects. The tables have the same numbers.`}
          draw={(context, width, hover) => {
            const scene = { matrix, layout, domain, category, axis, theme, textOf, selected, hover: hover ?? -1 }
            drawMatrix(context, scene, width)
          }}
          hit={({ x, y }) => {
            const cell = cellAt(matrix, layout, x, y)
            return cell < 0 ? null : cell
          }}
          onClick={(cell) => onSelect(cell ?? -1)}
          onKey={onKey}
          spoken={spoken && `${spoken.title}: ${spoken.lines.map(([name, value]) => `${name} ${value}`).join(', ')}`}
          isWide
          tip={(cell) => {
            const { title, lines } = tell(cell)
            return (
              <>
                <div className={tipCss.head}>{title}</div>
                <TipLines lines={lines} />
              </>
            )
          }}
        />
      </div>
    </div>
  )
}
