// Rates of operators compared with the limits of the device.
import { useMemo } from 'react'
import type { Query } from '../../api/client'
import type { Scatter } from '../../api/payloads'
import { dotsOf } from '../../lib/dots'
import { rowId } from '../../lib/tableRows'
import { evidenceOf, NoticesCard, SummaryCard } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { payloadByName } from '../../parts/payloadByName'
import { RowDetail } from '../../parts/rowDetail'
import { TablePage } from '../../parts/tablePage'
import { useView } from '../../state/data'
import { usePages } from '../../state/tablePages'
import { splitList } from '../../state/tensorboardHash'
import { setRoute, useRoute } from '../../state/urlState'
import { Card } from '../../widgets/basics'
import { ScatterPlot } from '../../widgets/scatter'
import layoutCss from '../../widgets/layout.module.css'

const VIEW = 'roofline'
const GROUPS = [{ table: VIEW, label: 'Rates by operator and input shape' }]
const KIND = { kind: 'operator' }

export function Roofline({ base }: PageProps) {
  const resource = useView(VIEW, base)
  return (
    <TablePage
      view={VIEW}
      resource={resource}
      base={base}
      bones={400}
      top={(view) => {
        const chart = payloadByName(view, 'chart', 'scatter')
        return (
          <div className={layoutCss.column}>
            <SummaryCard view={view} add={evidenceOf} />
            <NoticesCard view={view} name="notes" />
            {chart && <DotsCard chart={chart} base={base} />}
          </div>
        )
      }}
      groups={GROUPS}
      placeholder="Search operators, text or /regex/"
      detail={(row, table) => <RowDetail row={row} table={table} base={base} extra={KIND} />}
    />
  )
}

/** The dots of the rows that match the search and the filters; a click opens the row of a dot. */
function DotsCard({ chart, base }: { chart: Scatter; base: Query }) {
  const { search = '', where = '' } = useRoute()
  const query = useMemo(() => ({ sort: '', desc: true, search, where: splitList(where) }), [search, where])
  const isFiltered = search !== '' || where !== ''
  const { table } = usePages(VIEW, VIEW, base, query, isFiltered)
  const shown = useMemo(
    () => (isFiltered && table ? dotsOf(chart, new Set(table.rows.map((row) => rowId(row, table.row_key)))) : chart),
    [chart, table, isFiltered],
  )
  return (
    <Card title={chart.title} subtitle={chart.subtitle}>
      <ScatterPlot scatter={shown} height={300} area="kernel time" onDot={(row) => setRoute({ row }, true)} />
    </Card>
  )
}
