// Parts of an opened row.
import { type ComponentProps, type ReactNode, useMemo } from 'react'
import type { Query } from '../api/client'
import type { Column, Figure, Table } from '../api/payloads'
import type { Row } from '../lib/tableRows'
import { showInTimeline } from '../state/links'
import { usePages } from '../state/tablePages'
import { joinList, splitList } from '../state/tensorboardHash'
import { Placeholder, SmallButton } from '../widgets/basics'
import { FigureList } from '../widgets/figures'
import { ProblemPanel } from '../widgets/problem'
import { SmallTable } from '../widgets/smallTable'
import type { NameStyle } from '../widgets/tableCells'
import { EditorSetting, StackFrames } from './stack'
import layoutCss from '../widgets/layout.module.css'
import css from './detailBlock.module.css'

export function DetailBlock(props: {
  title: string
  small?: ReactNode
  actions?: ReactNode
  /** As wide as the row. */
  wide?: boolean
  testid?: string
  children: ReactNode
}) {
  const { title, small, actions, wide, testid, children } = props
  return (
    <div className={wide ? `${css.block} ${css.wide}` : css.block} data-testid={testid}>
      <h3>
        {title}
        {small !== undefined && <small>{small}</small>}
        {actions}
      </h3>
      {children}
    </div>
  )
}

/** How many there are, and how many of them are shown. */
export const counted = (shown: number, all: number) =>
  all > shown ? `${shown} of ${all.toLocaleString('en-US')}` : all.toLocaleString('en-US')

export function FirstRows(props: {
  title: string
  view: string
  table: string
  base: Query
  where?: string | readonly string[]
  limit: number
  without?: readonly string[]
  nameStyle?: NameStyle
  /** Named in `show`: the rows' way into the timeline. `key`: the columns that tell rows apart. */
  show?: { label: string; of: (row: Row, key: readonly string[]) => (() => void) | null }
  more?: ReactNode
  testid?: string
}) {
  const { title, view, base, where, limit, without, nameStyle, show, more, testid } = props
  const filters = joinList(typeof where === 'string' ? [where] : (where ?? []))
  const query = useMemo(() => ({ sort: '', desc: true, search: '', where: splitList(filters) }), [filters])
  const pages = usePages(view, props.table, base, query)
  const { table } = pages
  if (pages.problem) return <ProblemPanel problem={pages.problem} />
  if (!table) return <Placeholder height={170} />
  const shown = Math.min(limit, table.rows.length)
  return (
    <DetailBlock
      title={title}
      small={counted(shown, pages.count)}
      actions={pages.count > shown && more}
      testid={testid}
      wide
    >
      <SmallTable
        table={table}
        limit={limit}
        without={without}
        nameStyle={nameStyle}
        show={show && { label: show.label, of: (row) => show.of(row, table.row_key) }}
        className={css.rows}
        counted
      />
    </DetailBlock>
  )
}

/** Stacks with the choice of the editor. */
export function StackBlock({ title, small, stacks }: { title: string; small?: ReactNode; stacks: readonly string[] }) {
  return (
    <DetailBlock title={title} small={small} actions={<EditorSetting />} wide>
      {stacks.map((stack, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: stacks never move
        <StackFrames key={i} stack={stack} />
      ))}
    </DetailBlock>
  )
}

export const rowFigures = (row: Row, table: Table, isShown: (column: Column) => boolean): Figure[] =>
  table.columns.filter(isShown).map(({ metric }) => ({ metric, value: row[metric.key] ?? null, note: '' }))

const isVisible = ({ hidden }: Column) => !hidden

/** Every digit of a row. */
export const RowFigures = (props: { row: Row; table: Table; isShown?: (column: Column) => boolean }) => (
  <FigureList figures={rowFigures(props.row, props.table, props.isShown ?? isVisible)} exact />
)

/** The way into the timeline, of a row with a start. `dur`: the column of its duration. */
export function EventButton(
  props: ComponentProps<typeof SmallButton> & { row: Row; dur?: string; settings?: Record<string, string> },
) {
  const { row, dur = 'dur_ns', settings, children = 'Show in timeline', ...button } = props
  const show = showEvent(row, dur, settings)
  if (!show) return null
  return (
    <span>
      <SmallButton {...button} onClick={show}>
        {children}
      </SmallButton>
    </span>
  )
}

export function showEvent(row: Row, dur = 'dur_ns', settings?: Record<string, string>): (() => void) | null {
  const { start_ns: start, event, [dur]: length } = row
  if (typeof start !== 'number' || typeof length !== 'number') return null
  return () => showInTimeline(typeof event === 'number' ? event : null, start, length, settings)
}

/** An opened row of an event: the way to it, and its figures. */
export function EventFacts(
  props: ComponentProps<typeof EventButton> & { table: Table; isShown?: (column: Column) => boolean; more?: ReactNode },
) {
  const { table, isShown, more, ...button } = props
  return (
    <div className={layoutCss.column}>
      <EventButton {...button} />
      {more}
      <RowFigures row={button.row} table={table} isShown={isShown} />
    </div>
  )
}
