// Allocation stacks of a memory snapshot as a flame graph.
import { Button, NativeSelect } from '@mantine/core'
import { useMemo } from 'react'
import type { Query } from '../../api/client'
import type { Tree, View } from '../../api/payloads'
import { packageColors, packageLabel } from '../../lib/packageColors'
import type { Row } from '../../lib/tableRows'
import type { PageProps } from '../../parts/page'
import { payloadByName } from '../../parts/payloadByName'
import { TreePage } from '../../parts/treePage'
import { ViewFrame } from '../../parts/viewFrame'
import { useView } from '../../state/data'
import { setRoute, useRoute } from '../../state/urlState'
import { Placeholder } from '../../widgets/basics'
import { DeviceChoice, EventField } from './snapshotBar'

const OF = [
  { value: '', label: 'Allocated at a moment' },
  { value: 'made', label: 'Allocated between two events' },
  { value: 'left', label: 'Allocated and not released' },
]
const BY = [
  { value: '', label: 'By line' },
  { value: 'function', label: 'By function' },
  { value: 'file', label: 'By file' },
]
const NOTHING = { device: '', at: '', against: '', of: '', by: '' }
const START = '-1'

export function AllocationStacks({ base }: PageProps) {
  const { device = '', at = '', against = '', of = '', by = '' } = useRoute()
  // A second moment applies only between two; without one, from the history's start.
  const query = useMemo<Query>(
    () => ({ ...base, device, at, of, by, against: of ? against || START : '' }),
    [base, device, at, of, by, against],
  )
  const resource = useView('allocation_stacks', query)
  return (
    <ViewFrame
      resource={resource}
      bones={<Placeholder height={500} />}
      action={
        <Button size="xs" onClick={() => setRoute({ ...NOTHING, row: '', zoom: '' }, true)}>
          Show the peak
        </Button>
      }
    >
      {(view) => <Page view={view} />}
    </ViewFrame>
  )
}

const choose = (change: Record<string, string>) => setRoute({ ...change, row: '', zoom: '' }, true)
const nowhere = (): string[] => []

function Page({ view }: { view: View }) {
  const { at = '', against = '', of = '', by = '' } = useRoute()
  const tree = view.payloads.stacks as Tree
  const summary = payloadByName(view, 'summary', 'figures')
  const byPackage = useMemo(() => packageColors(tree.rows), [tree])
  const peak = summary?.figures.find(({ metric }) => metric.key === 'event_number')?.value
  const devices = payloadByName(view, 'devices', 'figures')
  // Without a history there is one moment.
  const hasEvents = devices?.figures.some(({ metric, value }) => metric.title === summary?.title && Number(value) > 0)
  const lead = (
    <>
      <DeviceChoice devices={devices} chosen={summary?.title ?? ''} />
      {hasEvents && (
        <>
          <NativeSelect
            size="sm"
            aria-label="Which blocks the stacks show"
            value={of}
            onChange={(event) => choose({ of: event.currentTarget.value, against: '' })}
            data={OF}
          />
          {of && <EventField label="From" name="against" value={against} usual={START} />}
          <EventField label={of ? 'To' : 'At'} name="at" value={at} usual={String(peak ?? '')} />
        </>
      )}
      <NativeSelect
        size="sm"
        aria-label="Group stacks by"
        value={by}
        onChange={(event) => choose({ by: event.currentTarget.value })}
        data={BY}
      />
    </>
  )
  return (
    <TreePage
      tree={tree}
      lead={lead}
      noun="places"
      whereOf={nowhere}
      tall
      categoryOf={byPackage}
      labelOf={(row: Row) => packageLabel(row)}
    />
  )
}
