// Column heads and rows of the large table.
import { Tooltip } from '@mantine/core'
import { type CSSProperties, useState } from 'react'
import type { Column, Table } from '../api/payloads'
import { exactText, isNumeric, type Scale, scaleFor } from '../lib/format'
import type { Label } from '../lib/names'
import type { Row } from '../lib/tableRows'
import { CopyIconButton, MetricHelp, useCopied } from './basics'
import { ChevronDown, ChevronRight } from './icons'
import { CellText, NameText, readableName } from './tableCells'
import rowNameCss from './rowName.module.css'
import css from './table.module.css'

const SORTS = {
  ascending: `${css.sort} ${css.ascending}`,
  descending: `${css.sort} ${css.descending}`,
  none: `${css.sort} ${css.unsorted}`,
}

export const widthProperty = (key: string) => `--tt-c-${key.replace(/[^a-zA-Z0-9_-]/g, '_')}`
const cellStyle = (key: string): CSSProperties => ({ width: `var(${widthProperty(key)})` })

export function HeaderCell(props: {
  column: Column
  scale: Scale | undefined
  isName: boolean
  direction: 'ascending' | 'descending' | 'none'
  onSort: () => void
  width: number
  onResize: (width: number) => void
}) {
  const { column, scale, isName, direction, onSort, width, onResize } = props
  /** Left edge of the column while its right edge is dragged. */
  const [left, setLeft] = useState<number | null>(null)
  const { metric } = column
  const numeric = isNumeric(metric.unit)
  return (
    <div
      role="columnheader"
      aria-sort={direction}
      className={`${css.th} ${numeric ? css.right : ''} ${isName ? css.name : ''}`}
      style={cellStyle(metric.key)}
    >
      <Tooltip label={<MetricHelp metric={metric} />}>
        <button type="button" onClick={onSort}>
          <span>
            {metric.title}
            {scale?.symbol && ' '}
            {scale?.symbol && <small>({scale.symbol})</small>}
          </span>
          <i className={SORTS[direction]} aria-hidden="true" />
        </button>
      </Tooltip>
      <span
        className={left === null ? css.resize : `${css.resize} ${css.dragged}`}
        aria-hidden="true"
        onPointerDown={(event) => {
          event.preventDefault()
          event.currentTarget.setPointerCapture(event.pointerId)
          setLeft(event.clientX - width)
        }}
        onPointerMove={(event) => left !== null && onResize(event.clientX - left)}
        onLostPointerCapture={() => setLeft(null)}
      />
    </div>
  )
}

export function RowCells(props: {
  row: Row
  columns: readonly Column[]
  data: Table
  scales: Map<string, Scale>
  widths: (key: string) => number
  labels: (name: string) => Label
  /** null = a row opens elsewhere, or not at all. */
  isOpen: boolean | null
  onToggle?: () => void
}) {
  const { row, columns, data, scales, widths, labels, isOpen, onToggle } = props
  const [copied, copy] = useCopied()
  const toggle = () => {
    // Selecting text is no click.
    if (window.getSelection()?.toString()) return
    onToggle?.()
  }
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the name is a button that does the same
    // biome-ignore lint/a11y/noStaticElementInteractions: see above
    <div className={copied ? `${css.row} ${css.copied}` : css.row} onClick={toggle}>
      {columns.map((column) => {
        const { key, unit } = column.metric
        const value = row[key] ?? null
        const width = widths(key)
        if (key === data.name_column) {
          const text = String(value ?? '')
          return (
            <div key={key} role="rowheader" className={`${css.td} ${css.name}`} style={cellStyle(key)}>
              <button
                type="button"
                className={rowNameCss.rowName}
                aria-expanded={isOpen ?? undefined}
                onClick={(event) => {
                  event.stopPropagation()
                  toggle()
                }}
                onKeyDown={(event) => {
                  if (event.key === 'c' && !event.ctrlKey && !event.metaKey) copy(rowText(row, columns))
                }}
              >
                {isOpen !== null && (isOpen ? <ChevronDown /> : <ChevronRight />)}
                <NameText text={readableName(row, key)} label={labels(readableName(row, key))} />
              </button>
              <CopyIconButton text={text} label="Copy name" />
            </div>
          )
        }
        return (
          <div
            key={key}
            role="cell"
            className={isNumeric(unit) ? `${css.td} ${css.right}` : css.td}
            style={cellStyle(key)}
            onDoubleClick={() => copy(value === null ? '' : String(value))}
          >
            <CellText
              row={row}
              column={column}
              scale={scales.get(key) ?? scaleFor(unit, 0)}
              total={data.totals[key] ?? null}
              most={data.extremes[key]?.[1] ?? 0}
              width={width}
            />
          </div>
        )
      })}
    </div>
  )
}

/** A row as text: one line per column with the exact value. */
export const rowText = (row: Row, columns: readonly Column[]) =>
  columns
    .map(({ metric }) => {
      const value = row[metric.key] ?? null
      return `${metric.title}\t${typeof value === 'number' ? exactText(value, metric.unit) : (value ?? '')}`
    })
    .join('\n')
