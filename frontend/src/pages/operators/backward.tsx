// The backward pass, matched to the forward pass.

import { HeadlineCard, HeadlineSentence } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { payloadByName } from '../../parts/payloadByName'
import { RowDetail } from '../../parts/rowDetail'
import { type Group, TableSection } from '../../parts/tableSection'
import { ViewFrame } from '../../parts/viewFrame'
import { useView } from '../../state/data'
import { Placeholder } from '../../widgets/basics'
import { Headline } from '../../widgets/figures'
import { Sentence } from '../../widgets/notices'
import frameCss from '../../parts/viewFrame.module.css'

const GROUPS: Group[] = [
  { table: 'backward_operators', label: 'By operator', filters: ['module', 'forward_operator', 'forward_line'] },
  { table: 'backward_lines', label: 'By line' },
]
const RECOMPUTED: Group[] = [...GROUPS, { table: 'recomputed', label: 'Recomputed' }]

export function BackwardPass({ base }: PageProps) {
  const resource = useView('backward', base)
  return (
    <div className={frameCss.page}>
      <ViewFrame resource={resource} bones={<Placeholder height={150} />} steps={String(base.steps ?? '')}>
        {(view) => {
          const summary = payloadByName(view, 'summary', 'figures')
          const notices = payloadByName(view, 'answer', 'notices')?.notices ?? []
          return (
            summary && (
              <HeadlineCard below>
                <Headline figures={summary.figures} alarms={new Map()} />
                {notices.map((notice) => (
                  <HeadlineSentence key={notice.text} severity={notice.severity}>
                    <Sentence notice={notice} text={notice.text} />
                  </HeadlineSentence>
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
          groups={resource.data && payloadByName(resource.data, 'recomputed', 'table') ? RECOMPUTED : GROUPS}
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
