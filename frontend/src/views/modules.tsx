// Modules: the model as it was called, as an icicle chart and as a tree with the same numbers.
import { SegmentedControl } from '@mantine/core'
import type { Query } from '../api/client'
import type { View } from '../api/payloads'
import type { Row } from '../lib/pages'
import { useView } from '../state/data'
import { followLink } from '../state/links'
import { setRoute, useRoute } from '../state/route'
import { Bones } from '../widgets/basics'
import { PayloadCard } from '../widgets/payload'
import { ViewFrame } from './parts/frame'
import { RowDetail } from './parts/rowDetail'
import { type Group, TableSection } from './parts/tableSection'
import { TreePage } from './parts/treePage'
import type { ViewProps } from './view'
import layoutCss from '../widgets/layout.module.css'
import frameCss from './parts/frame.module.css'

export function Modules({ base }: ViewProps) {
  const resource = useView('modules', base)
  return (
    <ViewFrame resource={resource} bones={<Bones height={500} />} steps={String(base.steps ?? '')}>
      {(view) => <Page view={view} base={base} />}
    </ViewFrame>
  )
}

const GROUPS: Group[] = [{ table: 'modules', label: 'Modules' }]

/** Calls of the node's module; repeated ones have its name as well. */
const whereOf = (row: Row) => [`module:${String(row.module).replace(/ \(recomputed\)$/, '')}`]

const categoryOf = (_: Row, value: string) => (value.includes('device') ? 'kernel' : 'cpu')

function Page({ view, base }: { view: View; base: Query }) {
  const route = useRoute()
  const payloads = Object.entries(view.payloads)
  const tree = payloads.map(([, payload]) => payload).find((payload) => payload.kind === 'tree')
  const hasTable = payloads.some(([, payload]) => payload.kind === 'table')
  if (!tree) {
    return (
      <div className={layoutCss.column}>
        {payloads.map(([name, payload]) => (
          <PayloadCard key={name} payload={payload} onLink={followLink} />
        ))}
      </div>
    )
  }
  const form = hasTable ? (
    <SegmentedControl
      size="sm"
      aria-label="Form"
      value={route.form === 'table' ? 'table' : 'tree'}
      onChange={(next) => setRoute({ form: next === 'tree' ? '' : next, row: '', sort: '', desc: '', cols: '' }, true)}
      data={[
        { value: 'tree', label: 'Tree' },
        { value: 'table', label: 'By module' },
      ]}
    />
  ) : null
  if (route.form === 'table' && hasTable) {
    return (
      <div className={frameCss.page}>
        <TableSection
          view="modules"
          base={base}
          groups={GROUPS}
          lead={form}
          placeholder="Search modules, text or /regex/"
          detail={(row, table) => <RowDetail row={row} table={table} base={base} stacks={false} />}
        />
      </div>
    )
  }
  return <TreePage tree={tree} lead={form} noun="modules" whereOf={whereOf} categoryOf={categoryOf} />
}
