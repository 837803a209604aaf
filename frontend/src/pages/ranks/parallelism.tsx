// Parallelism: device time by method, and its exposed part.
import type { Table } from '../../api/payloads'
import { format } from '../../lib/format'
import { HeadlineCard, HeadlineSentence } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { payloadByName } from '../../parts/payloadByName'
import { RowDetail } from '../../parts/rowDetail'
import { type Group, TableSection } from '../../parts/tableSection'
import { ViewFrame } from '../../parts/viewFrame'
import { useView } from '../../state/data'
import { Placeholder } from '../../widgets/basics'
import { Headline } from '../../widgets/figures'
import frameCss from '../../parts/viewFrame.module.css'

const GROUPS: Group[] = [{ table: 'roles', label: 'By role' }]

export function Parallelism({ base }: PageProps) {
  const resource = useView('parallelism', base)
  return (
    <div className={frameCss.page}>
      <ViewFrame resource={resource} bones={<Placeholder height={110} />} steps={String(base.steps ?? '')}>
        {(view) => {
          const summary = payloadByName(view, 'summary', 'figures')
          const roles = payloadByName(view, 'roles', 'table')
          return (
            summary && (
              <HeadlineCard below>
                <Headline figures={summary.figures} alarms={new Map()} />
                {roles && (
                  <HeadlineSentence severity="info">
                    {answered(roles, summary.figures.find(({ note }) => note)?.note ?? '')}
                  </HeadlineSentence>
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

/** Device time by method, largest first, with exposed communication. */
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
  return `Device time${steps && ` ${steps}`}: ${told.join(', ')}. Exposed means not overlapped with compute.`
}
