// A table of a report: its first rows, sorted in the browser.
import { type ComponentProps, useMemo, useState } from 'react'
import type { Table } from '../api/payloads'
import { counted } from '../lib/format'
import type { Row } from '../lib/tableRows'
import { Card, SmallButton } from '../widgets/basics'
import { SmallTable } from '../widgets/smallTable'
import { usePrinting } from '../widgets/usePrinting'
import { sortedTable } from './data'
import type { ReportContext } from './reportPage'
import css from './report.module.css'

/** Rows that are shown at once, and on paper. */
const FIRST = 10
const KERNELS = /kernel|graph_nodes/

export function ReportTable({ table, view, context }: { table: Table; view: string; context: ReportContext }) {
  const { length } = table.rows
  const hasEvents = table.columns.some(({ metric }) => metric.key === 'event')
  const note =
    length < table.matched_rows
      ? `top ${length} of ${counted(table.matched_rows, 'row')}; sorting applies to these`
      : counted(length, 'row')
  return (
    <Card title={table.title} subtitle={note}>
      <FirstRows
        table={table}
        first={FIRST}
        nameStyle={KERNELS.test(`${view} ${table.name}`) ? 'kernel' : 'plain'}
        show={hasEvents ? showEvent(context) : undefined}
      />
    </Card>
  )
}

/** The first rows, and the others on demand. */
export function FirstRows({ table, first, ...look }: { table: Table; first: number } & Look) {
  const [order, setOrder] = useState<{ key: string; descending: boolean } | null>(null)
  const [all, setAll] = useState(false)
  const shown = useMemo(() => (order ? sortedTable(table, order.key, order.descending) : table), [table, order])
  const isPrinting = usePrinting()
  const { length } = table.rows
  return (
    <>
      <div className={css.rows}>
        <SmallTable
          {...look}
          table={shown}
          limit={all ? length : isPrinting ? FIRST : first}
          counted
          onSort={(key, descending) => setOrder({ key, descending })}
        />
      </div>
      {length > first && (
        <SmallButton aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? `Show ${first}` : `Show all ${length}`}
        </SmallButton>
      )}
    </>
  )
}

type Look = Pick<ComponentProps<typeof SmallTable>, 'nameStyle' | 'without' | 'show'>

/** The way from a row to its event in the timeline. */
export const showEvent = ({ toEvent }: ReportContext) => ({
  label: 'Show in timeline',
  of: ({ event }: Row) => (typeof event === 'number' ? toEvent(event) : null),
})
