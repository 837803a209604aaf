// Kernels: where the device's compute time went, by kernel, by launch, and the copies beside them.
import { Select } from '@mantine/core'
import type { Table } from '../api/payloads'
import { useView } from '../state/data'
import { joinList, splitList } from '../state/hash'
import { setRoute, useRoute } from '../state/route'
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
  { table: 'copies', label: 'Copies', filters: ['name', 'kind', 'direction'] },
]

const hasClasses = (table: Table | null) => Boolean(table?.columns.some(({ metric }) => metric.key === 'class'))
const CLASS = 'class:'

/** Kernels of one class: also what a slice of the donut chooses. */
function ClassFilter({ names }: { names: readonly string[] }) {
  const where = splitList(useRoute().where)
  const chosen = where.find((item) => item.startsWith(CLASS))?.slice(CLASS.length) ?? null
  const choose = (name: string | null) => {
    const others = where.filter((item) => !item.startsWith(CLASS))
    setRoute({ where: joinList(name ? [...others, CLASS + name] : others), row: '' }, true)
  }
  return (
    <Select
      size="sm"
      w={170}
      aria-label="Class of kernels"
      placeholder="All classes"
      data={chosen === null || names.includes(chosen) ? names : [...names, chosen]}
      value={chosen}
      onChange={choose}
      clearable
    />
  )
}

export function Kernels({ base }: ViewProps) {
  const resource = useView('kernels', base)
  const donut = resource.data?.payloads.classes
  const classes = donut?.kind === 'breakdown' ? donut.parts.map((part) => part.metric.key) : []
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
          filters={(table) => hasClasses(table) && <ClassFilter names={classes} />}
          placeholder="Search kernels, text or /regex/"
          detail={(row, table) => <RowDetail row={row} table={table} base={base} stacks={false} />}
        />
      )}
    </div>
  )
}
