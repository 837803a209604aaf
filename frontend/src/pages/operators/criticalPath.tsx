// Critical path of the steps: by kind, event, operator and module.

import type { Table, View } from '../../api/payloads'
import type { Kind } from '../../lib/scales'
import type { Row } from '../../lib/tableRows'
import { EventFacts } from '../../parts/detailBlock'
import { SummaryCard } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { payloadByName } from '../../parts/payloadByName'
import { SimulateButton } from '../../parts/simulateButton'
import { TablePage } from '../../parts/tablePage'
import type { Group } from '../../parts/tableSection'
import { useView } from '../../state/data'
import { followLink, PATH } from '../../state/links'
import { Card } from '../../widgets/basics'
import { BreakdownTable } from '../../widgets/breakdown'
import { Chart } from '../../widgets/chart'
import layoutCss from '../../widgets/layout.module.css'

const GROUPS: Group[] = [
  { table: 'critical_events', label: 'By event', filters: ['critical_kind', 'name'], nameStyle: 'kernel' },
  { table: 'critical_operators', label: 'By operator', filters: ['name'] },
  { table: 'critical_modules', label: 'By module', filters: ['module'], nameStyle: 'plain' },
]

export function CriticalPath({ base }: PageProps) {
  const resource = useView('critical_path', base)
  return (
    <TablePage
      view="critical_path"
      resource={resource}
      base={base}
      bones={330}
      top={(view) => <Top view={view} />}
      groups={GROUPS}
      placeholder="Search names, text or /regex/"
      detail={(row, table) => <Detail row={row} table={table} />}
    />
  )
}

/** What a row can be simulated as. */
const KINDS: Record<string, Kind> = { Kernels: 'kernel', 'CPU operators': 'operator' }

function Detail({ row, table }: { row: Row; table: Table }) {
  if (table.name === 'critical_events') {
    const kind = KINDS[String(row.critical_kind)]
    return (
      <EventFacts
        row={row}
        table={table}
        settings={PATH}
        more={kind && <SimulateButton kind={kind} name={row.name} />}
      />
    )
  }
  return table.name === 'critical_modules' ? (
    <SimulateButton kind="module" name={row.module} />
  ) : (
    <SimulateButton kind="operator" name={row.name} />
  )
}

function Top({ view }: { view: View }) {
  const steps = payloadByName(view, 'steps', 'series')
  const kinds = payloadByName(view, 'critical_by_kind', 'breakdown')
  return (
    <div className={layoutCss.grid}>
      <SummaryCard view={view} />
      {steps && (
        <Card className={layoutCss.span8} title={steps.title} subtitle={steps.subtitle}>
          <div className={layoutCss.chart}>
            <Chart series={steps} height="100%" />
          </div>
        </Card>
      )}
      {kinds && (
        <Card className={steps ? layoutCss.span4 : layoutCss.span12} title={kinds.title} subtitle={kinds.subtitle}>
          <BreakdownTable payload={kinds} onLink={followLink} of="% of steps" />
        </Card>
      )}
    </div>
  )
}
