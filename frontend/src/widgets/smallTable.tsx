// A short table without paging.
import { Tooltip } from '@mantine/core'
import { useMemo, useRef } from 'react'
import type { Column, Table } from '../api/payloads'
import { familyScales, format, formatNumber, isChange, isNumeric, type Scale, scaleFor } from '../lib/format'
import { shortFrame } from '../lib/frames'
import { labelsOf, labelText } from '../lib/names'
import { shareWidth } from '../lib/shareWidth'
import type { Row } from '../lib/tableRows'
import { LinkButton, MetricHelp, MetricName, Value } from './basics'
import { TimelineIcon } from './icons'
import { isFrame, type NameStyle, readableName, shortOf } from './tableCells'
import { useWidth } from './useSize'
import layoutCss from './layout.module.css'
import plainTableCss from './plainTable.module.css'
import css from './smallTable.module.css'
import textCss from './text.module.css'

/** Maximum pixels per character (code, text, capitals, digits, head words) and of cell padding. */
const CODE_PX = 7.6
const TEXT_PX = 7.2
const CAPITAL_PX = 9.4
const DIGIT_PX = 8
const HEAD_PX = 7
const AROUND_PX = 14
const SHOW_PX = 34
const HERE_PX = 66
const ARROWS = { none: '', ascending: ' ▴', descending: ' ▾' }
const LEAST = 10

type Way = (() => void) | string | null

export function SmallTable(props: {
  table: Table
  limit?: number
  /** Columns that are left out, as are those without any value. */
  without?: readonly string[]
  nameStyle?: NameStyle
  /** A row's timeline link; null if there is none (`here` says why), or the reason as text. */
  show?: { label: string; of: (row: Row) => Way; here?: string }
  /** Opens a row's subject; absent: names are no links. */
  onName?: (row: Row) => void
  /** The row count is shown elsewhere. */
  counted?: boolean
  /** Sorts by column; the caller fetches the rows. */
  onSort?: (key: string, desc: boolean) => void
  className?: string
}) {
  const { table, limit = 100, without, nameStyle = 'plain', show, onName, counted, onSort, className } = props
  const frame = useRef<HTMLDivElement>(null)
  const width = useWidth(frame)
  const rows = useMemo(() => table.rows.slice(0, limit), [table, limit])
  const columns = useMemo(
    () =>
      table.columns.filter(
        ({ metric: { key }, hidden }) =>
          !hidden && !without?.includes(key) && (rows.length === 0 || rows.some((row) => (row[key] ?? null) !== null)),
      ),
    [table, rows, without],
  )
  const scales = useMemo(() => familyScales(columns, (key) => rows.map((row) => row[key] ?? null)), [columns, rows])
  const around = show?.here ? HERE_PX : show ? SHOW_PX : 0
  const texts = useMemo(
    () => cellTexts(table, columns, rows, scales, width - around, nameStyle),
    [table, columns, rows, scales, width, around, nameStyle],
  )
  return (
    <div className={`${layoutCss.scroll} ${className ?? ''}`} tabIndex={0} ref={frame}>
      <table className={`${plainTableCss.table} ${css.table}`}>
        <thead>
          <tr>
            {columns.map((column) => (
              <Head
                key={column.metric.key}
                column={column}
                symbol={scales.get(column.metric.key)?.symbol}
                sort={table.sort}
                onSort={onSort}
              />
            ))}
            {show && (
              <th scope="col">
                <span className={textCss.sr}>Show</span>
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, i) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: rows of one answer never move
            <tr key={i}>
              {columns.map((column) => (
                <Cell
                  key={column.metric.key}
                  row={row}
                  column={column}
                  nameColumn={table.name_column}
                  scale={scales.get(column.metric.key)}
                  short={texts.get(column.metric.key)}
                  onName={column.metric.key === table.name_column ? onName : undefined}
                />
              ))}
              {show && (
                <td>
                  <ShowButton label={show.label} here={show.here} go={show.of(row)} />
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
      {!counted && table.matched_rows > rows.length && (
        <p className={textCss.none}>
          {rows.length.toLocaleString('en-US')} of {table.matched_rows.toLocaleString('en-US')} rows
        </p>
      )}
    </div>
  )
}

function Head(props: {
  column: Column
  symbol?: string
  sort: Table['sort']
  onSort?: (key: string, desc: boolean) => void
}) {
  const { column, symbol, sort, onSort } = props
  const { metric } = column
  const align = isNumeric(metric.unit) ? textCss.right : textCss.left
  const unit = symbol ? ` (${symbol})` : ''
  if (!onSort)
    return (
      <th scope="col" className={align}>
        <MetricName metric={metric} />
        {unit}
      </th>
    )
  const isSorted = sort?.key === metric.key
  const direction = !isSorted ? 'none' : sort.descending ? 'descending' : 'ascending'
  return (
    <th scope="col" className={align} aria-sort={direction}>
      <Tooltip label={<MetricHelp metric={metric} />}>
        <button
          type="button"
          className={css.sort}
          onClick={() => onSort(metric.key, isSorted ? !sort.descending : isNumeric(metric.unit))}
        >
          {metric.title}
          {unit}
          <span className={css.arrow} aria-hidden="true">
            {ARROWS[direction]}
          </span>
        </button>
      </Tooltip>
    </th>
  )
}

function Cell(props: {
  row: Row
  column: Column
  nameColumn: string
  scale?: Scale
  /** Short text per value; absent: the column has no texts. */
  short?: ReadonlyMap<string, string>
  onName?: (row: Row) => void
}) {
  const { row, column, nameColumn, scale, short, onName } = props
  const { key, unit } = column.metric
  const value = row[key] ?? null
  if (!short)
    return (
      <td className={isNumeric(unit) ? textCss.right : textCss.left}>
        <Value value={value} unit={unit} scale={scale} bare={isNumeric(unit)} change={isChange(key)} />
      </td>
    )
  const text = textOf(row, key, nameColumn)
  const font = unit === 'code' ? textCss.mono : ''
  const shown = short.get(text) ?? text
  return (
    <td className={textCss.left}>
      {text === '' ? (
        <span className={textCss.mute}>{format(null, unit)}</span>
      ) : onName ? (
        <LinkButton title={text} onClick={() => onName(row)}>
          <span className={font || undefined}>{shown}</span>
        </LinkButton>
      ) : (
        <span className={font || undefined} title={text}>
          {shown}
        </span>
      )}
    </td>
  )
}

const textOf = (row: Row, key: string, nameColumn: string) =>
  key === nameColumn ? readableName(row, key) : String(row[key] ?? '')

const isText = ({ metric: { unit } }: Column) => unit === 'code' || unit === 'text'

function widthOf(text: string, isCode: boolean): number {
  if (isCode) return text.length * CODE_PX
  const capitals = text.match(/\p{Lu}|_/gu)?.length ?? 0
  return capitals * CAPITAL_PX + (text.length - capitals) * TEXT_PX
}

/** Short texts per column, so that the table fits its frame if possible. */
function cellTexts(
  table: Table,
  columns: readonly Column[],
  rows: readonly Row[],
  scales: ReadonlyMap<string, Scale>,
  width: number,
  nameStyle: NameStyle,
): Map<string, Map<string, string>> {
  const held = columns.filter(isText).map((column) => {
    const { key, unit, title } = column.metric
    const style = key === table.name_column ? shortOf(nameStyle, table) : (text: string) => text
    const texts = [...new Set(rows.map((row) => textOf(row, key, table.name_column)))]
    // Head words may wrap.
    const shown = [...title.split(' '), ...texts.map(style)]
    const need = Math.max(...shown.map((text) => widthOf(text, unit === 'code')))
    const longest = Math.max(...shown.map((text) => text.length))
    return { column, style, texts, need, pixels: need / Math.max(1, longest) }
  })
  const numbers = columns.filter((column) => !isText(column)).map((column) => numberWidth(column, rows, scales))
  const room = width - numbers.reduce((sum, each) => sum + each, 0) - held.length * AROUND_PX
  const needs = held.map(({ need }) => Math.ceil(need))
  const given = width > 0 ? shareWidth(needs, room, LEAST * CODE_PX) : needs
  return new Map(
    held.map(({ column, style, texts, pixels }, i) => {
      const length = Math.max(LEAST, Math.floor(given[i] / pixels))
      const labels = labelsOf(texts, length, (text) => (isFrame(column) ? shortFrame(text, length) : style(text)))
      return [column.metric.key, new Map([...labels].map(([text, label]) => [text, labelText(label)]))]
    }),
  )
}

/** Minimum width; words of the head may wrap. */
function numberWidth(column: Column, rows: readonly Row[], scales: ReadonlyMap<string, Scale>): number {
  const { key, unit, title } = column.metric
  const scale = scales.get(key) ?? scaleFor(unit, 0)
  const words = title.split(' ').map((word) => word.length)
  const digits = rows.map((row) => formatNumber(row[key] ?? null, scale).length)
  return Math.max(Math.max(...words) * HEAD_PX, Math.max(0, ...digits) * DIGIT_PX) + AROUND_PX
}

function ShowButton({ label, here, go }: { label: string; here?: string; go: Way }) {
  if (!go) return here ? <span className={textCss.mute}>{here}</span> : null
  if (typeof go === 'string')
    return (
      <span className={`${css.away} ${textCss.iconLink}`} role="img" title={go} aria-label={go}>
        <TimelineIcon />
      </span>
    )
  return (
    <button
      type="button"
      className={`${textCss.link} ${textCss.iconLink}`}
      title={label}
      aria-label={label}
      onClick={go}
    >
      <TimelineIcon />
    </button>
  )
}
