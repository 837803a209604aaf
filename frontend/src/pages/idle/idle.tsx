// Idle time of devices, by cause and step.

import type { View } from '../../api/payloads'
import { EventFacts } from '../../parts/detailBlock'
import { SummaryCard, todoOf } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { payloadByName } from '../../parts/payloadByName'
import { TablePage } from '../../parts/tablePage'
import type { Group } from '../../parts/tableSection'
import { useView } from '../../state/data'
import { followLink, GAPS } from '../../state/links'
import { Card } from '../../widgets/basics'
import { BreakdownTable } from '../../widgets/breakdown'
import { Chart } from '../../widgets/chart'
import layoutCss from '../../widgets/layout.module.css'

const GROUPS: Group[] = [
  { table: 'idle_pieces', label: 'Longest', filters: ['cause', 'step', 'device', 'operator', 'idle_host'] },
  { table: 'idle_causes', label: 'By cause', filters: ['cause'], nameStyle: 'plain' },
  { table: 'idle_steps', label: 'By step', filters: [], nameStyle: 'plain' },
]

export function Idle({ base }: PageProps) {
  const resource = useView('idle', base)
  return (
    <TablePage
      view="idle"
      resource={resource}
      base={base}
      bones={330}
      top={(view) => <Top view={view} />}
      groups={GROUPS}
      nameStyle="plain"
      placeholder="Search causes, calls and lines, text or /regex/"
      detail={(row, table) => <EventFacts row={row} table={table} settings={GAPS} />}
    />
  )
}

function Top({ view }: { view: View }) {
  const every = payloadByName(view, 'steps', 'series')
  // A table of parts says more than one bar.
  const steps = every && every.x.length > 1 ? every : null
  const average = payloadByName(view, 'average_idle', 'breakdown')
  return (
    <div className={layoutCss.grid}>
      <SummaryCard view={view} add={todoOf} />
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
