// Idle time of devices, by cause and step.
import { Button } from '@mantine/core'
import type { Table, View } from '../../api/payloads'
import type { Row } from '../../lib/tableRows'
import { HeadlineCard, HeadlineSentence } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { payloadByName } from '../../parts/payloadByName'
import { type Group, TableSection } from '../../parts/tableSection'
import { ViewFrame } from '../../parts/viewFrame'
import { useView } from '../../state/data'
import { followLink, GAPS, showInTimeline } from '../../state/links'
import { Card, Placeholder } from '../../widgets/basics'
import { BreakdownTable } from '../../widgets/breakdown'
import { Chart } from '../../widgets/chart'
import { FigureList, Headline } from '../../widgets/figures'
import { Advice } from '../../widgets/notices'
import frameCss from '../../parts/viewFrame.module.css'
import layoutCss from '../../widgets/layout.module.css'

const GROUPS: Group[] = [
  { table: 'idle_pieces', label: 'Longest', filters: ['cause', 'step', 'device', 'operator', 'idle_host'] },
  { table: 'idle_causes', label: 'By cause', filters: ['cause'], nameStyle: 'plain' },
  { table: 'idle_steps', label: 'By step', filters: [], nameStyle: 'plain' },
]

export function Idle({ base }: PageProps) {
  const resource = useView('idle', base)
  return (
    <div className={frameCss.page}>
      <ViewFrame resource={resource} bones={<Placeholder height={330} />} steps={String(base.steps ?? '')}>
        {(view) => <Top view={view} />}
      </ViewFrame>
      {(resource.data || !resource.problem) && (
        <TableSection
          view="idle"
          base={base}
          groups={GROUPS}
          nameStyle="plain"
          placeholder="Search causes, calls and lines, text or /regex/"
          detail={(row, table) => <Detail row={row} table={table} />}
        />
      )}
    </div>
  )
}

function Top({ view }: { view: View }) {
  const summary = payloadByName(view, 'summary', 'figures')
  const answer = payloadByName(view, 'answer', 'notices')?.notices[0]
  const every = payloadByName(view, 'steps', 'series')
  // A table of parts says more than one bar.
  const steps = every && every.x.length > 1 ? every : null
  const average = payloadByName(view, 'average_idle', 'breakdown')
  if (!summary) return null
  return (
    <div className={layoutCss.grid}>
      <HeadlineCard below>
        <Headline figures={summary.figures} alarms={new Map()} />
        {answer && (
          <HeadlineSentence severity={answer.severity}>
            <Advice notice={answer} />
          </HeadlineSentence>
        )}
      </HeadlineCard>
      {steps && (
        <Card className={layoutCss.span8} title={steps.title} subtitle={steps.subtitle}>
          <div className={layoutCss.chart}>
            <Chart series={steps} height="100%" />
          </div>
        </Card>
      )}
      {average && (
        <Card className={steps ? layoutCss.span4 : layoutCss.span12} title={average.title} subtitle={average.subtitle}>
          <BreakdownTable payload={average} onLink={followLink} of="% of idle" />
        </Card>
      )}
    </div>
  )
}

function Detail({ row, table }: { row: Row; table: Table }) {
  const { start_ns: start, dur_ns: dur, event } = row
  const figures = table.columns.flatMap(({ metric, hidden }) =>
    hidden ? [] : [{ metric, value: row[metric.key] ?? null, note: '' }],
  )
  return (
    <div className={layoutCss.column}>
      {typeof start === 'number' && typeof dur === 'number' && (
        <span>
          <Button
            size="compact-xs"
            variant="default"
            onClick={() => showInTimeline(typeof event === 'number' ? event : null, start, dur, GAPS)}
          >
            Show in timeline
          </Button>
        </span>
      )}
      <FigureList figures={figures} exact />
    </div>
  )
}
