// A titled box in an opened row.
import { type ReactNode, useMemo } from 'react'
import type { Query } from '../api/client'
import type { Row } from '../lib/tableRows'
import { usePages } from '../state/tablePages'
import { Placeholder } from '../widgets/basics'
import { ProblemPanel } from '../widgets/problem'
import { SmallTable } from '../widgets/smallTable'
import type { NameStyle } from '../widgets/tableCells'
import css from './detailBlock.module.css'

export function DetailBlock(props: {
  title: string
  small?: ReactNode
  /** Buttons after the title. */
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

/** The first rows of a table of a view. */
export function FirstRows(props: {
  title: string
  view: string
  table: string
  base: Query
  where?: string
  limit: number
  without?: readonly string[]
  nameStyle?: NameStyle
  /** Named in `show`: the rows' way into the timeline. `key`: the columns that tell rows apart. */
  show?: { label: string; of: (row: Row, key: readonly string[]) => () => void }
  /** Shown if there are more rows. */
  more?: ReactNode
  testid?: string
}) {
  const { title, view, base, where, limit, without, nameStyle, show, more, testid } = props
  const query = useMemo(() => ({ sort: '', desc: true, search: '', where: where ? [where] : [] }), [where])
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
