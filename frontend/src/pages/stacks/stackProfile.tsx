// Stacks of a stack file.

import { Button } from '@mantine/core'
import { useMemo } from 'react'
import type { Query } from '../../api/client'
import type { Table, Tree, View } from '../../api/payloads'
import { format } from '../../lib/format'
import { packageColors, packageLabel } from '../../lib/packageColors'
import type { Row } from '../../lib/tableRows'
import { Answers, HeadlineCard } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { payloadByName } from '../../parts/payloadByName'
import { TreePage } from '../../parts/treePage'
import { ViewFrame } from '../../parts/viewFrame'
import { useQuery, useView } from '../../state/data'
import { setRoute, useRoute } from '../../state/urlState'
import { Choice } from '../../widgets/choice'
import { Headline } from '../../widgets/figures'
import { FramePanel, Functions } from './functions'
import { FormControl } from './stacksMenus'
import snapshotCss from '../../parts/pageHead.module.css'
import frameCss from '../../parts/viewFrame.module.css'

export function StackProfile({ base }: PageProps) {
  const { thread = '' } = useRoute()
  const query = useQuery(base, { thread: thread ? [thread] : [] })
  const resource = useView('stack_profile', query)
  return (
    <ViewFrame
      resource={resource}
      bones={500}
      action={
        thread ? (
          <Button size="xs" onClick={() => setRoute({ thread: '', row: '', zoom: '' }, true)}>
            Show all stacks
          </Button>
        ) : undefined
      }
    >
      {(view) => <Page view={view} query={query} />}
    </ViewFrame>
  )
}

const nowhere = (): string[] => []

/** Frames that are no Python calls say nothing of a package. */
const labelOf = (row: Row) => (row.package || row.node_kind !== 'python' ? packageLabel(row) : 'other frames')

function Page({ view, query }: { view: View; query: Query }) {
  const { form = '' } = useRoute()
  const tree = view.payloads.stacks as Tree
  const byPackage = useMemo(() => packageColors(tree.rows), [tree])
  const byFunction = form === 'functions'
  const lead = (
    <>
      <FormControl byFunction={byFunction} />
      <Profiles table={view.payloads.stack_threads as Table} />
    </>
  )
  const top = <Top view={view} />
  if (byFunction) {
    return (
      <div className={frameCss.page}>
        {top}
        <Functions view="stack_profile" base={query} lead={lead} hasEvents={false} />
      </div>
    )
  }
  return (
    <TreePage
      tree={tree}
      lead={lead}
      note={top}
      noun="places"
      whereOf={nowhere}
      tall
      details={(row) => <FramePanel name={String(row.name)} />}
      categoryOf={byPackage}
      labelOf={labelOf}
    />
  )
}

function Top({ view }: { view: View }) {
  const summary = payloadByName(view, 'summary', 'figures')
  if (!summary) return null
  return (
    <HeadlineCard label={summary.title} className={snapshotCss.head} below>
      <Answers view={view} />
      <Headline figures={summary.figures} />
    </HeadlineCard>
  )
}

function Profiles({ table }: { table: Table }) {
  const { thread = '' } = useRoute()
  if (table.total_rows < 2) return null
  const total = table.columns[2].metric
  const data = table.rows.map((row) => ({
    value: String(row.stack_thread_key),
    label: `${row.stack_thread} (${format(row[total.key], total.unit)})`,
  }))
  return (
    <Choice
      size="sm"
      label="Profile of the file"
      value={thread}
      onChange={(next) => setRoute({ thread: next, row: '', zoom: '' }, true)}
      options={[{ value: '', label: `All ${table.total_rows} profiles` }, ...data]}
    />
  )
}
