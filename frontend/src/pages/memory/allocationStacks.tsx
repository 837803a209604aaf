// Allocation stacks of a memory snapshot as a flame graph.

import { Button } from '@mantine/core'
import { useMemo } from 'react'
import type { Tree, View } from '../../api/payloads'
import { packageColors, packageLabel } from '../../lib/packageColors'
import type { Row } from '../../lib/tableRows'
import { Answers, HeadlineCard } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { figureValue, payloadByName } from '../../parts/payloadByName'
import { TreePage } from '../../parts/treePage'
import { ViewFrame } from '../../parts/viewFrame'
import { useQuery, useView } from '../../state/data'
import { setRoute, useRoute } from '../../state/urlState'
import { Choice } from '../../widgets/choice'
import { DeviceChoice, EventField } from './snapshotBar'

const OF = {
  '': 'Allocated after an event',
  made: 'Allocated between two events',
  left: 'Allocated between two events, not released',
}
const BY = { '': 'By line', function: 'By function', file: 'By file' }
const NOTHING = { device: '', at: '', against: '', of: '', by: '' }
const START = '-1'

export function AllocationStacks({ base }: PageProps) {
  const { device = '', at = '', against = '', of = '', by = '' } = useRoute()
  // A second moment applies only between two; without one, from the history's start.
  const query = useQuery(base, { device, at, of, by, against: of ? against || START : '' })
  const resource = useView('allocation_stacks', query)
  return (
    <ViewFrame
      resource={resource}
      bones={500}
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
  const peak = figureValue(summary, 'event_number')
  const devices = payloadByName(view, 'devices', 'figures')
  // Without a history there is one moment.
  const hasEvents = devices?.figures.some(({ metric, value }) => metric.title === summary?.title && Number(value) > 0)
  const lead = (
    <>
      <DeviceChoice devices={devices} chosen={summary?.title ?? ''} />
      {hasEvents && (
        <>
          <Choice
            size="sm"
            label="Which blocks the stacks show"
            value={of}
            onChange={(next) => choose({ of: next, against: '' })}
            options={OF}
          />
          {of && <EventField label="From" name="against" value={against} usual={START} />}
          <EventField label={of ? 'To' : 'At'} name="at" value={at} usual={String(peak ?? '')} />
        </>
      )}
      <Choice size="sm" label="Group stacks by" value={by} onChange={(next) => choose({ by: next })} options={BY} />
    </>
  )
  return (
    <TreePage
      tree={tree}
      note={
        view.payloads.answer && (
          <HeadlineCard below>
            <Answers view={view} />
          </HeadlineCard>
        )
      }
      lead={lead}
      noun="places"
      whereOf={nowhere}
      tall
      categoryOf={byPackage}
      labelOf={(row: Row) => packageLabel(row)}
    />
  )
}
