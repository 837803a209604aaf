// The backward pass, matched to the forward pass.

import { SummaryCard } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { payloadByName } from '../../parts/payloadByName'
import { RowDetail } from '../../parts/rowDetail'
import { TablePage } from '../../parts/tablePage'
import type { Group } from '../../parts/tableSection'
import { useView } from '../../state/data'

const GROUPS: Group[] = [
  { table: 'backward_operators', label: 'By operator', filters: ['module', 'forward_operator', 'forward_line'] },
  { table: 'backward_lines', label: 'By line', nameStyle: 'frame' },
]
const RECOMPUTED: Group[] = [...GROUPS, { table: 'recomputed', label: 'Recomputed' }]

export function BackwardPass({ base }: PageProps) {
  const resource = useView('backward', base)
  return (
    <TablePage
      view="backward"
      resource={resource}
      base={base}
      bones={150}
      top={(view) => <SummaryCard view={view} />}
      groups={resource.data && payloadByName(resource.data, 'recomputed', 'table') ? RECOMPUTED : GROUPS}
      placeholder="Search operators, modules and lines, text or /regex/"
      detail={(row, table) => (
        <RowDetail
          row={row}
          table={table}
          base={base}
          by={table.name === 'recomputed' && !row.module ? [`recomputed_by:${row.recomputed_by}`] : undefined}
        />
      )}
    />
  )
}
