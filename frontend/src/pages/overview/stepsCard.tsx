// Card with the time of each step, as a chart or a table.

import { useEffect, useMemo, useState } from 'react'
import type { Query } from '../../api/client'
import type { Breakdown, Series, Table } from '../../api/payloads'
import { isNumeric } from '../../lib/format'
import { parseSteps } from '../../lib/stepSelection'
import type { Pages, Row } from '../../lib/tableRows'
import { SqlButton } from '../../parts/tableSection'
import { useQuery } from '../../state/data'
import { followLink } from '../../state/links'
import { PAGE_ROWS, usePages } from '../../state/tablePages'
import { setRoute, useRoute } from '../../state/urlState'
import { Card, Placeholder, SignButtons } from '../../widgets/basics'
import { Chart } from '../../widgets/chart'
import { Switch } from '../../widgets/choice'
import { ProblemPanel } from '../../widgets/problem'
import { SmallTable } from '../../widgets/smallTable'
import layoutCss from '../../widgets/layout.module.css'
import textCss from '../../widgets/text.module.css'
import css from './stepsCard.module.css'

/** Link target of the step's runtime part; null if there is none. */
const callsOf = (average: Breakdown | null) =>
  average?.parts.find((part) => part.link?.view === 'launches' && part.value > 0) ?? null

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
  const pages = usePages('overview', 'steps', useQuery(base, { steps: '' }), query, form === 'table')
  const { table, want } = pages
  const [wanted, setStart] = useState(0)
  // Another worker may have fewer steps.
  const start = wanted < pages.count ? wanted : 0
  useEffect(() => {
    if (form === 'table') want(start, start)
  }, [form, want, start])
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
          <StepRows
            pages={pages}
            start={start}
            onStart={setStart}
            onStep={choose}
            onSort={(sort, desc) => {
              setOrder({ sort, desc })
              setStart(0)
            }}
          />
        )}
      </div>
    </Card>
  )
}

/** One page of the table of steps. */
export function StepRows(props: {
  pages: Pages
  /** Index of the page's first row. */
  start: number
  onStart: (start: number) => void
  onStep: (label: string) => void
  onSort: (key: string, desc: boolean) => void
}) {
  const { pages, start, onStart, onStep, onSort } = props
  const { table, count, problem } = pages
  const end = Math.min(start + PAGE_ROWS, count)
  const rows: Row[] = []
  for (let i = start; i < end; i++) {
    const row = pages.row(i)
    if (row) rows.push(row)
  }
  const buttons: [string, string, () => void, boolean][] = [
    ['Previous steps', '‹', () => onStart(start - PAGE_ROWS), start > 0],
    ['Next steps', '›', () => onStart(end), end < count],
  ]
  return (
    <div className={css.steps} aria-busy={pages.busy}>
      {table && rows.length > 0 ? (
        <SmallTable
          key={start}
          table={{ ...table, rows }}
          limit={PAGE_ROWS}
          without={unusedColumns(table)}
          onName={(row) => onStep(String(row.step))}
          onSort={onSort}
          className={css.rows}
          counted
        />
      ) : problem ? (
        <ProblemPanel problem={problem} />
      ) : (
        <Placeholder height="100%" />
      )}
      {count > PAGE_ROWS && (
        <p className={css.position}>
          <SignButtons buttons={buttons} />
          <span role="status">
            Rows {(start + 1).toLocaleString('en-US')} to {end.toLocaleString('en-US')} of{' '}
            {count.toLocaleString('en-US')}
          </span>
        </p>
      )}
    </div>
  )
}
