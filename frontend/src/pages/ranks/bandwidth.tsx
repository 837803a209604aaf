// Bandwidth against message size, and slow nodes.
import type { Table, View } from '../../api/payloads'
import { counted } from '../../lib/format'
import { nodeSets, slowestText } from '../../lib/nodeSpeed'
import { payloadByName } from '../../parts/payloadByName'
import { Card } from '../../widgets/basics'
import { SizePlot } from '../../widgets/sizePlot'
import { SmallTable } from '../../widgets/smallTable'
import layoutCss from '../../widgets/layout.module.css'
import textCss from '../../widgets/text.module.css'
import css from './bandwidth.module.css'

const SHOWN = 10
/** So few sizes need no more room than half of the page. */
const FEW = 4

export function Bandwidth({ view }: { view: View }) {
  const bandwidth = payloadByName(view, 'bandwidth', 'series')
  const fits = payloadByName(view, 'bandwidth_fits', 'table')
  const nodes = payloadByName(view, 'nodes', 'table')
  // A table of fits needs more than half of the page; its absence does not.
  const isNarrow = bandwidth !== null && bandwidth.x.length <= FEW && !(fits && isFitted(fits))
  return (
    <>
      {bandwidth && (
        <Card title={bandwidth.title} subtitle={bandwidth.subtitle}>
          <div className={layoutCss.grid}>
            <div className={isNarrow ? layoutCss.span6 : layoutCss.span12}>
              <SizePlot series={bandwidth} height={280} />
            </div>
            {fits && (
              <div className={isNarrow ? layoutCss.span6 : layoutCss.span12}>
                <Fits table={fits} />
              </div>
            )}
          </div>
        </Card>
      )}
      {nodes && nodes.rows.length > 1 && <Nodes table={nodes} />}
    </>
  )
}

const isFitted = (table: Table) => table.rows.some((row) => row.fit_latency_ns !== null)

function Fits({ table }: { table: Table }) {
  return (
    <div className={css.fits}>
      <h3>{table.title}</h3>
      {isFitted(table) ? (
        <SmallTable table={table} />
      ) : (
        <p className={textCss.none}>
          No latency and bandwidth fit. The fit needs three sizes, the largest at least four times the smallest.
        </p>
      )}
    </div>
  )
}

/** Single nodes apart from pairs and larger sets: times are compared among as many nodes alone. */
function Nodes({ table }: { table: Table }) {
  const sets = nodeSets(table.rows)
  return (
    <Card title={table.title} subtitle="same collectives on each group of nodes; slowest first">
      <p className={css.say}>{slowestText(sets)}</p>
      <div className={`${layoutCss.grid} ${css.sets}`}>
        {sets.map(({ title, rows }, at) => (
          <div key={title} className={sets.length > 1 && at < 2 ? layoutCss.span6 : layoutCss.span12}>
            <h3>
              {title} <small>{rows.length > SHOWN ? `the ${SHOWN} slowest` : counted(rows.length, 'row')}</small>
            </h3>
            <SmallTable table={withSlowdownTitle(table, rows)} without={['node_count']} limit={SHOWN} counted />
          </div>
        ))}
      </div>
    </Card>
  )
}

function withSlowdownTitle(table: Table, rows: Table['rows']): Table {
  const columns = table.columns.map((column) =>
    column.metric.key === 'slowdown' ? { ...column, metric: { ...column.metric, title: 'Times the median' } } : column,
  )
  return { ...table, columns, rows }
}
