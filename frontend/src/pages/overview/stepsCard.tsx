// Time of each step, as chart or table.

import { useMemo, useState } from 'react'
import type { Query } from '../../api/client'
import type { Breakdown, Series, Table } from '../../api/payloads'
import { isNumeric } from '../../lib/format'
import { parseSteps } from '../../lib/stepSelection'
import { SqlButton } from '../../parts/tableSection'
import { useQuery } from '../../state/data'
import { followLink } from '../../state/links'
import { usePages } from '../../state/tablePages'
import { setRoute, useRoute } from '../../state/urlState'
import { Card } from '../../widgets/basics'
import { Chart } from '../../widgets/chart'
import { Switch } from '../../widgets/choice'
import { SmallTable } from '../../widgets/smallTable'
import layoutCss from '../../widgets/layout.module.css'
import textCss from '../../widgets/text.module.css'

/** Link target of the step's runtime part; null if there is none. */
const callsOf = (average: Breakdown | null) =>
  average?.parts.find((part) => part.link?.view === 'launches' && part.value > 0) ?? null

/** Rows of the first page of a table. */
const MOST_ROWS = 200

/** Columns that are 0 in all steps. */
const unusedColumns = ({ columns, extremes }: Table) =>
  columns.filter(({ metric }) => isNumeric(metric.unit) && !extremes[metric.key]).map(({ metric }) => metric.key)

export function StepsCard(props: { series: Series; average: Breakdown | null; base: Query }) {
  const { series, average, base } = props
  const route = useRoute()
  const [form, setForm] = useState('chart')
  const [order, setOrder] = useState({ sort: '', desc: true })
  const query = useMemo(() => ({ ...order, search: '', where: [] }), [order])
  // Steps stay in the table if others are selected.
  const { table } = usePages('overview', 'steps', useQuery(base, { steps: '' }), query, form === 'table')
  const selected = useMemo(() => new Set((route.steps ?? '').split(',').filter(Boolean)), [route.steps])
  const choose = (label: string) => setRoute({ steps: selected.has(label) && selected.size === 1 ? '' : label }, true)
  const calls = callsOf(average)
  const atIndex = (x: string, category: string | null) => {
    const label = String(series.x[Number(x)] ?? x)
    if (calls?.link && category === calls.category) followLink({ ...calls.link, params: { steps: label } })
    else choose(label)
  }
  const bars = calls ? `click a step, or ${calls.metric.title} for calls` : 'click a bar to select its step'
  const lit = useMemo(() => parseSteps(route.steps ?? '', series.x.map(String)), [route.steps, series])
  return (
    <Card
      className={average ? layoutCss.span8 : layoutCss.span12}
      title={series.title}
      subtitle={[series.subtitle, form === 'chart' ? bars : 'click a step to select it'].filter(Boolean).join(' · ')}
      actions={
        <span className={textCss.row}>
          {table?.sql && <SqlButton query={table.sql} size="compact-xs" />}
          <Switch
            value={form}
            onChange={setForm}
            label="View of the steps"
            options={{ chart: 'Chart', table: 'Table' }}
          />
        </span>
      }
    >
      <div className={layoutCss.chart}>
        {form === 'chart' ? (
          <Chart series={series} height="100%" selected={lit} onBar={atIndex} />
        ) : (
          table && (
            <SmallTable
              table={table}
              limit={MOST_ROWS}
              without={unusedColumns(table)}
              onName={(row) => choose(String(row.step))}
              onSort={(sort, desc) => setOrder({ sort, desc })}
            />
          )
        )}
      </div>
    </Card>
  )
}
