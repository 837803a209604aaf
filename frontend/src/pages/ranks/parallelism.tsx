// Parallelism: device time by method, and its exposed part.

import type { Table, View } from '../../api/payloads'
import { deviceWord } from '../../lib/deviceWords'
import { format } from '../../lib/format'
import { HeadlineSentence, SummaryCard } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { payloadByName } from '../../parts/payloadByName'
import { RowDetail } from '../../parts/rowDetail'
import { TablePage } from '../../parts/tablePage'
import type { Group } from '../../parts/tableSection'
import { useView } from '../../state/data'

const GROUPS: Group[] = [{ table: 'roles', label: 'By role' }]

export function Parallelism({ base }: PageProps) {
  const resource = useView('parallelism', base)
  return (
    <TablePage
      view="parallelism"
      resource={resource}
      base={base}
      bones={110}
      top={(view) => <Top view={view} />}
      groups={GROUPS}
      placeholder="Search roles and methods, text or /regex/"
      detail={(row, table) => <RowDetail row={row} table={table} base={base} />}
    />
  )
}

function Top({ view }: { view: View }) {
  const roles = payloadByName(view, 'roles', 'table')
  const note = payloadByName(view, 'summary', 'figures')?.figures.find((figure) => figure.note)?.note
  return (
    <SummaryCard view={view}>
      {roles && <HeadlineSentence severity="info">{answered(roles, note ?? '')}</HeadlineSentence>}
    </SummaryCard>
  )
}

function answered(roles: Table, steps: string): string {
  const methods = new Map<string, { device: number; exposed: number }>()
  for (const row of roles.rows) {
    const sums = methods.get(String(row.method)) ?? { device: 0, exposed: 0 }
    sums.device += Number(row.role_device_ns)
    sums.exposed += Number(row.role_exposed_ns ?? 0)
    methods.set(String(row.method), sums)
  }
  const told = [...methods]
    .sort(([, one], [, other]) => other.device - one.device)
    .map(([method, { device, exposed }]) => {
      const hidden = exposed > 0 ? `${format(exposed, 'ns')} exposed` : 'all overlapped'
      return `${method} ${format(device, 'ns')} (${hidden})`
    })
  return `${deviceWord()} time${steps && ` ${steps}`}: ${told.join(', ')}. Exposed means not overlapped with compute.`
}
