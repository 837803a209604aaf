// Serving: token rate, step times, outliers.

import type { Query } from '../../api/client'
import type { View } from '../../api/payloads'
import { EventFacts } from '../../parts/detailBlock'
import { SummaryCard, todoOf } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { payloadByName } from '../../parts/payloadByName'
import { TablePage } from '../../parts/tablePage'
import type { Group } from '../../parts/tableSection'
import { useView } from '../../state/data'
import { followLink } from '../../state/links'
import { setRoute, useRoute } from '../../state/urlState'
import { Card, LineKeys, LinkButton, SmallButton } from '../../widgets/basics'
import { BreakdownBar } from '../../widgets/breakdown'
import { Chart } from '../../widgets/chart'
import { ScatterPlot } from '../../widgets/scatter'
import colorKeyCss from '../../widgets/colorKey.module.css'
import layoutCss from '../../widgets/layout.module.css'

const GROUPS: Group[] = [
  { table: 'serving_steps', label: 'By step', filters: ['mode', 'is_steady', 'is_outlier'], nameStyle: 'plain' },
  { table: 'serving_modes', label: 'By mode', filters: [], nameStyle: 'plain' },
  { table: 'serving_classes', label: 'By kernel class', filters: ['mode'], nameStyle: 'plain' },
]
/** Everything instead of the steady state. */
const ALL = 'all'

export function Serving({ base }: PageProps) {
  const { steady = '' } = useRoute()
  const query: Query = steady === ALL ? { ...base, steady } : base
  const resource = useView('serving', query)
  return (
    <TablePage
      view="serving"
      resource={resource}
      base={query}
      bones={330}
      top={(view) => <Top view={view} everything={steady === ALL} chosen={Boolean(base.steps)} />}
      groups={GROUPS}
      nameStyle="plain"
      placeholder="Search modes and causes, text or /regex/"
      detail={(row, table) => (
        <EventFacts
          row={row}
          table={table}
          dur="served_step_ns"
          more={
            typeof row.step === 'string' && (
              <span>
                <SmallButton onClick={() => setRoute({ steps: String(row.step) }, true)}>Select this step</SmallButton>
              </span>
            )
          }
        />
      )}
    />
  )
}

const showStep = (step: string) => setRoute({ group: '', where: '', search: '', row: step }, true)

function Top({ view, everything, chosen }: { view: View; everything: boolean; chosen: boolean }) {
  const summary = payloadByName(view, 'summary', 'figures')
  const times = payloadByName(view, 'times', 'breakdown')
  const classes = payloadByName(view, 'classes', 'series')
  const ofOneMode = payloadByName(view, 'classes', 'breakdown')
  const scatters = ['by_batch', 'by_tokens'].flatMap((name) => payloadByName(view, name, 'scatter') ?? [])
  const isSteady = payloadByName(view, 'answer', 'notices')?.notices.some(({ figures }) =>
    figures.some(({ metric, note }) => metric.key === 'figure_steps' && note.includes('steady')),
  )
  if (!summary) return null
  return (
    <div className={layoutCss.grid}>
      <SummaryCard
        view={view}
        add={(notice) => (
          <>
            {todoOf(notice)}{' '}
            {!chosen && (isSteady || everything) && (
              <LinkButton onClick={() => setRoute({ steady: everything ? '' : ALL }, true)}>
                {everything ? 'Show the steady state' : 'Show all steps'}
              </LinkButton>
            )}
          </>
        )}
      />
      {times && (
        <Card className={layoutCss.span12} title={times.title} subtitle={times.subtitle}>
          <BreakdownBar payload={times} onLink={followLink} />
        </Card>
      )}
      {ofOneMode && (
        <Card className={layoutCss.span12} title={ofOneMode.title} subtitle={ofOneMode.subtitle}>
          <BreakdownBar payload={ofOneMode} onLink={followLink} />
        </Card>
      )}
      {classes && (
        <Card className={scatters.length > 0 ? layoutCss.span4 : layoutCss.span12} title={classes.title}>
          <Chart series={classes} height={240} />
          <LineKeys lines={classes.lines} className={colorKeyCss.key} />
        </Card>
      )}
      {scatters.map((scatter) => (
        <Card
          key={scatter.name}
          className={!classes ? layoutCss.span6 : scatters.length > 1 ? layoutCss.span4 : layoutCss.span8}
          title={scatter.title}
          subtitle={scatter.subtitle}
        >
          <ScatterPlot scatter={scatter} height={240} onDot={showStep} />
        </Card>
      ))}
    </div>
  )
}
