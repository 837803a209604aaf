// Operators: the top ten as donuts, all of them as a table, one of them in every detail.
import { useView } from '../state/data'
import { Bones } from '../widgets/basics'
import { Donuts } from './parts/donuts'
import { ViewFrame } from './parts/frame'
import { RowDetail } from './parts/rowDetail'
import { type Group, TableSection } from './parts/tableSection'
import type { ViewProps } from './view'
import frameCss from './parts/frame.module.css'

const GROUPS: Group[] = [
  { table: 'operators', label: 'By operator' },
  { table: 'operators_by_shape', label: 'By input shape' },
]
const KIND = { kind: 'operator' }

export function Operators({ base }: ViewProps) {
  const resource = useView('operators', base)
  return (
    <div className={frameCss.page}>
      <ViewFrame resource={resource} bones={<Bones height={200} />} steps={String(base.steps ?? '')}>
        {(view) => <Donuts payloads={view.payloads} />}
      </ViewFrame>
      {(resource.data || !resource.problem) && (
        <TableSection
          view="operators"
          base={base}
          groups={GROUPS}
          placeholder="Search operators, text or /regex/"
          detail={(row, table) => <RowDetail row={row} table={table} base={base} stacks extra={KIND} />}
        />
      )}
    </div>
  )
}
