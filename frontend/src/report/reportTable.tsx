// A table of a report: its first rows, sorted in the browser.
import { useMemo, useState } from 'react'
import type { Table } from '../api/payloads'
import { counted } from '../lib/format'
import type { Row } from '../lib/tableRows'
import { Card, SmallButton } from '../widgets/basics'
import { SmallTable } from '../widgets/smallTable'
import { usePrinting } from '../widgets/usePrinting'
import { sortedTable } from './data'
import type { ReportContext } from './reportPage'

/** Rows that are shown at once. */
const FIRST = 10
const KERNELS = /kernel|graph_nodes/

export function ReportTable({ table, view, context }: { table: Table; view: string; context: ReportContext }) {
  const [order, setOrder] = useState<{ key: string; descending: boolean } | null>(null)
  const [all, setAll] = useState(false)
  const isPrinting = usePrinting()
  const shown = useMemo(() => (order ? sortedTable(table, order.key, order.descending) : table), [table, order])
  const { length } = table.rows
  const rows = all || isPrinting ? length : Math.min(FIRST, length)
  const hasEvents = view === 'findings' || table.columns.some(({ metric }) => metric.key === 'event')
  const note =
    length < table.matched_rows
      ? `top ${length} of ${counted(table.matched_rows, 'row')}; sorting applies to these`
      : counted(length, 'row')
  return (
    <Card title={table.title} subtitle={note}>
      <SmallTable
        table={shown}
        limit={rows}
        counted
        nameStyle={KERNELS.test(`${view} ${table.name}`) ? 'kernel' : 'plain'}
        onSort={(key, descending) => setOrder({ key, descending })}
        show={hasEvents ? { label: 'Show in timeline', of: (row) => eventOf(row, context) } : undefined}
      />
      {length > FIRST && !isPrinting && (
        <SmallButton aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? `Show ${FIRST}` : `Show all ${length}`}
        </SmallButton>
      )}
    </Card>
  )
}

export const eventOf = ({ event }: Row, context: ReportContext) =>
  typeof event === 'number' ? context.toEvent(event) : null
