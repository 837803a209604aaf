// Serving: token rate, step times, outliers.
import { Button } from '@mantine/core'
import type { Query } from '../../api/client'
import type { Table, View } from '../../api/payloads'
import { categoryColor } from '../../lib/color'
import type { Row } from '../../lib/tableRows'
import { HeadlineCard, HeadlineSentence } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { payloadByName } from '../../parts/payloadByName'
import { type Group, TableSection } from '../../parts/tableSection'
import { ViewFrame } from '../../parts/viewFrame'
import { useView } from '../../state/data'
import { followLink, showInTimeline } from '../../state/links'
import { setRoute, useRoute } from '../../state/urlState'
import { Card, Placeholder, Swatch } from '../../widgets/basics'
import { BreakdownBar } from '../../widgets/breakdown'
import { Chart } from '../../widgets/chart'
import { FigureList, Headline } from '../../widgets/figures'
import { Advice } from '../../widgets/notices'
import { ScatterPlot } from '../../widgets/scatter'
import frameCss from '../../parts/viewFrame.module.css'
import colorKeyCss from '../../widgets/colorKey.module.css'
import layoutCss from '../../widgets/layout.module.css'
import textCss from '../../widgets/text.module.css'

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
    <div className={frameCss.page}>
      <ViewFrame resource={resource} bones={<Placeholder height={330} />} steps={String(base.steps ?? '')}>
        {(view) => <Top view={view} everything={steady === ALL} chosen={Boolean(base.steps)} />}
      </ViewFrame>
      {(resource.data || !resource.problem) && (
        <TableSection
          view="serving"
          base={query}
          groups={GROUPS}
          nameStyle="plain"
          placeholder="Search modes and causes, text or /regex/"
          detail={(row, table) => <Detail row={row} table={table} />}
        />
      )}
    </div>
  )
}

const showStep = (step: string) => setRoute({ group: '', where: '', search: '', row: step }, true)

function Top({ view, everything, chosen }: { view: View; everything: boolean; chosen: boolean }) {
  const summary = payloadByName(view, 'summary', 'figures')
  const answer = payloadByName(view, 'answer', 'notices')?.notices[0]
  const times = payloadByName(view, 'times', 'breakdown')
  const classes = payloadByName(view, 'classes', 'series')
  const scatters = ['by_batch', 'by_tokens'].flatMap((name) => payloadByName(view, name, 'scatter') ?? [])
  const isSteady = summary?.figures.some(({ metric, note }) => metric.key === 'figure_steps' && note.includes('steady'))
  if (!summary) return null
  return (
    <div className={layoutCss.grid}>
      <HeadlineCard below>
        <Headline figures={summary.figures} alarms={new Map()} />
        {answer && (
          <HeadlineSentence severity={answer.severity}>
            <Advice notice={answer} />{' '}
            {!chosen && (isSteady || everything) && (
              <button
                type="button"
                className={textCss.link}
                onClick={() => setRoute({ steady: everything ? '' : ALL }, true)}
              >
                {everything ? 'Show the steady state' : 'Show all steps'}
              </button>
            )}
          </HeadlineSentence>
        )}
      </HeadlineCard>
      {times && times.total > 0 && (
        <Card className={layoutCss.span12} title={times.title} subtitle={times.subtitle}>
          <BreakdownBar payload={times} onLink={followLink} />
        </Card>
      )}
      {classes && classes.lines.length > 0 && (
        <Card className={scatters.length > 0 ? layoutCss.span4 : layoutCss.span12} title={classes.title}>
          <Chart series={classes} height={240} />
          <ul className={colorKeyCss.key} aria-label="Colours">
            {classes.lines.map(({ metric, category }) => (
              <li key={category}>
                <Swatch color={categoryColor(category)} />
                {metric.title}
              </li>
            ))}
          </ul>
        </Card>
      )}
      {scatters.map((scatter) => (
        <Card
          key={scatter.name}
          className={scatters.length > 1 ? layoutCss.span4 : layoutCss.span8}
          title={scatter.title}
          subtitle={scatter.subtitle}
        >
          <ScatterPlot scatter={scatter} height={240} onDot={showStep} />
        </Card>
      ))}
    </div>
  )
}

function Detail({ row, table }: { row: Row; table: Table }) {
  const { start_ns: start, served_step_ns: dur } = row
  const figures = table.columns.flatMap(({ metric, hidden }) =>
    hidden ? [] : [{ metric, value: row[metric.key] ?? null, note: '' }],
  )
  return (
    <div className={layoutCss.column}>
      {typeof start === 'number' && typeof dur === 'number' && (
        <span>
          <Button size="compact-xs" variant="default" onClick={() => showInTimeline(null, start, dur)}>
            Show in timeline
          </Button>
        </span>
      )}
      {typeof row.step === 'string' && (
        <span>
          <Button size="compact-xs" variant="default" onClick={() => setRoute({ steps: String(row.step) }, true)}>
            Select this step
          </Button>
        </span>
      )}
      <FigureList figures={figures} exact />
    </div>
  )
}
