// Parallelism: what shards, stages of a pipeline, offloading and experts take of the device, and what nothing hides of it.
import type { Table } from '../../api/payloads'
import { format } from '../../lib/format'
import { HeadlineCard, Say } from '../../parts/headlineCard'
import type { ViewProps } from '../../parts/page'
import { pick } from '../../parts/payloadByName'
import { RowDetail } from '../../parts/rowDetail'
import { type Group, TableSection } from '../../parts/tableSection'
import { ViewFrame } from '../../parts/viewFrame'
import { useView } from '../../state/data'
import { Bones } from '../../widgets/basics'
import { Headline } from '../../widgets/figures'
import frameCss from '../../parts/viewFrame.module.css'

const GROUPS: Group[] = [{ table: 'roles', label: 'By role' }]

export function Parallelism({ base }: ViewProps) {
  const resource = useView('parallelism', base)
  return (
    <div className={frameCss.page}>
      <ViewFrame resource={resource} bones={<Bones height={110} />} steps={String(base.steps ?? '')}>
        {(view) => {
          const summary = pick(view, 'summary', 'figures')
          const roles = pick(view, 'roles', 'table')
          return (
            summary && (
              <HeadlineCard below>
                <Headline figures={summary.figures} alarms={new Map()} />
                {roles && (
                  <Say severity="info">{answered(roles, summary.figures.find(({ note }) => note)?.note ?? '')}</Say>
                )}
              </HeadlineCard>
            )
          )
        }}
      </ViewFrame>
      {(resource.data || !resource.problem) && (
        <TableSection
          view="parallelism"
          base={base}
          groups={GROUPS}
          placeholder="Search roles and methods, text or /regex/"
          detail={(row, table) => <RowDetail row={row} table={table} base={base} stacks={false} />}
        />
      )}
    </div>
  )
}

/** What each method takes of the device, most first, and what nothing hides of its communication and copies. */
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
      const hidden = exposed > 0 ? `${format(exposed, 'ns')} exposed` : 'nothing exposed'
      return `${method} ${format(device, 'ns')} (${hidden})`
    })
  return `The device works for ${told.join(', ')}${steps && `, in all ${steps}`}. Exposed is what nothing else hides.`
}
