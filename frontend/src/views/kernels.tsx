// Kernels: where the device's compute time went, by kernel, by launch, and the copies beside them.
import { useView } from '../state/data'
import { Bones } from '../widgets/basics'
import { Donuts } from './parts/donuts'
import { ViewFrame } from './parts/frame'
import { RowDetail } from './parts/rowDetail'
import { type Group, TableSection } from './parts/tableSection'
import type { ViewProps } from './view'
import frameCss from './parts/frame.module.css'

const GROUPS: Group[] = [
  { table: 'kernels', label: 'By kernel' },
  { table: 'kernels_by_launch', label: 'By launch properties' },
  { table: 'copies', label: 'Copies' },
]

export function Kernels({ base }: ViewProps) {
  const resource = useView('kernels', base)
  return (
    <div className={frameCss.page}>
      <ViewFrame resource={resource} bones={<Bones height={200} />} steps={String(base.steps ?? '')}>
        {(view) => <Donuts payloads={view.payloads} />}
      </ViewFrame>
      {(resource.data || !resource.problem) && (
        <TableSection
          view="kernels"
          base={base}
          groups={GROUPS}
          nameStyle="kernel"
          placeholder="Search kernels, text or /regex/"
          detail={(row, table) => <RowDetail row={row} table={table} base={base} stacks={false} />}
        />
      )}
    </div>
  )
}
