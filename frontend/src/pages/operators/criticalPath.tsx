// Critical path of the steps: by kind, event, operator and module.

import type { Table } from '../../api/payloads'
import type { Kind } from '../../lib/scales'
import type { Row } from '../../lib/tableRows'
import { EventFacts } from '../../parts/detailBlock'
import type { PageProps } from '../../parts/page'
import { SimulateButton } from '../../parts/simulateButton'
import { StepsSummary } from '../../parts/stepsSummary'
import { TablePage } from '../../parts/tablePage'
import type { Group } from '../../parts/tableSection'
import { useView } from '../../state/data'
import { PATH } from '../../state/links'

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
      top={(view) => <StepsSummary view={view} parts="critical_by_kind" of="% of steps" />}
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
