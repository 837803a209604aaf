// The backward pass: its slowest operators, each with the operator, module and line of the forward pass that made it.

import { HeadlineCard, Say } from '../../parts/headlineCard'
import type { ViewProps } from '../../parts/page'
import { pick } from '../../parts/payloadByName'
import { RowDetail } from '../../parts/rowDetail'
import { type Group, TableSection } from '../../parts/tableSection'
import { ViewFrame } from '../../parts/viewFrame'
import { useView } from '../../state/data'
import { Bones } from '../../widgets/basics'
import { Headline } from '../../widgets/figures'
import { Sentence } from '../../widgets/notices'
import frameCss from '../../parts/viewFrame.module.css'

const GROUPS: Group[] = [
  { table: 'backward_operators', label: 'By operator', filters: ['module', 'forward_operator', 'forward_line'] },
  { table: 'backward_lines', label: 'By line' },
]
const RECOMPUTED: Group[] = [...GROUPS, { table: 'recomputed', label: 'Computed again' }]

export function BackwardPass({ base }: ViewProps) {
  const resource = useView('backward', base)
  return (
    <div className={frameCss.page}>
      <ViewFrame resource={resource} bones={<Bones height={150} />} steps={String(base.steps ?? '')}>
        {(view) => {
          const summary = pick(view, 'summary', 'figures')
          const notices = pick(view, 'answer', 'notices')?.notices ?? []
          return (
            summary && (
              <HeadlineCard below>
                <Headline figures={summary.figures} alarms={new Map()} />
                {notices.map((notice) => (
                  <Say key={notice.text} severity={notice.severity}>
                    <Sentence notice={notice} text={notice.text} />
                  </Say>
                ))}
              </HeadlineCard>
            )
          )
        }}
      </ViewFrame>
      {(resource.data || !resource.problem) && (
        <TableSection
          view="backward"
          base={base}
          groups={resource.data && pick(resource.data, 'recomputed', 'table') ? RECOMPUTED : GROUPS}
          placeholder="Search operators, modules and lines, text or /regex/"
          detail={(row, table) => (
            <RowDetail
              row={row}
              table={table}
              base={base}
              stacks={false}
              by={table.name === 'recomputed' && !row.module ? [`recomputed_by:${row.recomputed_by}`] : undefined}
            />
          )}
        />
      )}
    </div>
  )
}
