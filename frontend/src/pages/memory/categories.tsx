// Memory by category over time.
import { useMemo } from 'react'
import type { Breakdown, Figures, Series, View } from '../../api/payloads'
import { format } from '../../lib/format'
import { NoticesCard, SummaryCard } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { figureValue, payloadByName } from '../../parts/payloadByName'
import { ViewFrame } from '../../parts/viewFrame'
import { useQuery, useView } from '../../state/data'
import { followLink } from '../../state/links'
import { setRoute, useRoute } from '../../state/urlState'
import { Card, LineKeys, SmallButton } from '../../widgets/basics'
import { BreakdownBar } from '../../widgets/breakdown'
import { Curve, CurveButtons } from '../../widgets/curve'
import { type CurveMarks, windowOf } from '../../widgets/curveOption'
import { SmallTable } from '../../widgets/smallTable'
import layoutCss from '../../widgets/layout.module.css'
import textCss from '../../widgets/text.module.css'
import css from './categories.module.css'

export function Categories({ base }: PageProps) {
  const { start_ns = '', end_ns = '', at_ns = '' } = useRoute()
  const query = useQuery(base, { start_ns, end_ns, at_ns })
  const resource = useView('categories', query)
  return (
    <ViewFrame resource={resource} bones={420}>
      {(view) => <Page view={view} />}
    </ViewFrame>
  )
}

function Page({ view }: { view: View }) {
  const summary = payloadByName(view, 'summary', 'figures')
  const series = payloadByName(view, 'curve', 'series')
  const bar = payloadByName(view, 'composition', 'breakdown')
  const table = payloadByName(view, 'memory_categories', 'table')
  return (
    <div className={layoutCss.column}>
      <SummaryCard view={view} />
      <div className={css.top}>
        {series && <CurveCard series={series} summary={summary} />}
        {bar && <NowCard bar={bar} />}
      </div>
      {table && (
        <Card title={table.title}>
          <SmallTable table={table} />
        </Card>
      )}
      <NoticesCard view={view} />
    </div>
  )
}

function marksOf(series: Series, summary: Figures | null, moment: number | null): CurveMarks {
  const [most, when] = ['categories_peak_bytes', 'categories_peak_time_ns'].map((key) => figureValue(summary, key))
  const [start, end] = windowOf(series)
  const known = typeof most === 'number' && typeof when === 'number' && when >= start && when <= end
  return { bands: [], peak: known ? { x: when, y: most, label: format(most, 'bytes') } : null, moment }
}

function CurveCard({ series, summary }: { series: Series; summary: Figures | null }) {
  const route = useRoute()
  const moment = route.at_ns ? Number(route.at_ns) : null
  const marks = useMemo(() => marksOf(series, summary, moment), [series, summary, moment])
  const zoomed = Boolean(route.start_ns || route.end_ns)
  const [start, end] = windowOf(series)
  const zoom = (low: number, high: number) => setRoute({ start_ns: String(low), end_ns: String(high) }, true)
  const reset = () => setRoute({ start_ns: '', end_ns: '' }, true)
  return (
    <Card
      title={series.title}
      subtitle={
        zoomed
          ? `${format(start, 'ns')} to ${format(end, 'ns')}: all numbers use this window`
          : 'drag to zoom · click: memory at that time'
      }
      actions={<CurveButtons window={[start, end]} zoomed={zoomed} onWindow={zoom} onReset={reset} />}
    >
      <Curve
        series={series}
        marks={marks}
        height={260}
        onWindow={zoom}
        onReset={() => setRoute({ start_ns: '', end_ns: '', at_ns: '' }, true)}
        onMoment={(at) => setRoute({ at_ns: String(at) }, true)}
      />
      <LineKeys lines={[...series.lines].reverse()} />
    </Card>
  )
}

function NowCard({ bar }: { bar: Breakdown }) {
  const { at_ns } = useRoute()
  return (
    <Card
      title={at_ns ? `Memory at ${format(Number(at_ns), 'ns')}` : 'Memory at the peak'}
      actions={at_ns && <SmallButton onClick={() => setRoute({ at_ns: '' }, true)}>At the peak</SmallButton>}
    >
      {bar.total > 0 ? (
        <BreakdownBar payload={bar} onLink={followLink} stacked />
      ) : (
        <p className={textCss.none}>No known allocations at this time.</p>
      )}
    </Card>
  )
}
