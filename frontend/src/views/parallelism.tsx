// Parallelism: what shards, stages of a pipeline, offloading and experts take of the device, and what nothing hides of it.
import { useView } from '../state/data'
import { Bones } from '../widgets/basics'
import { Headline } from '../widgets/figures'
import { ViewFrame } from './parts/frame'
import { HeadlineCard } from './parts/headline'
import { pick } from './parts/pick'
import { RowDetail } from './parts/rowDetail'
import { type Group, TableSection } from './parts/tableSection'
import type { ViewProps } from './view'
import frameCss from './parts/frame.module.css'

const GROUPS: Group[] = [{ table: 'roles', label: 'By role' }]

export function Parallelism({ base }: ViewProps) {
  const resource = useView('parallelism', base)
  return (
    <div className={frameCss.page}>
      <ViewFrame resource={resource} bones={<Bones height={110} />} steps={String(base.steps ?? '')}>
        {(view) => {
          const summary = pick(view, 'summary', 'figures')
          return (
            summary && (
              <HeadlineCard below>
                <Headline figures={summary.figures} alarms={new Map()} />
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
