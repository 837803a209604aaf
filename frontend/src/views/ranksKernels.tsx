// Kernels of all ranks side by side: which differ most from rank to rank, and on which rank they are slow.
import { Button } from '@mantine/core'
import { useMemo } from 'react'
import type { Query } from '../api/client'
import type { View } from '../api/payloads'
import { useView } from '../state/data'
import { followLink } from '../state/links'
import { openElsewhere } from '../state/route'
import { Bones, Card } from '../widgets/basics'
import { HeatMap } from '../widgets/heat'
import { NoticeList, Sentence } from '../widgets/notices'
import { RowFacts } from './parts/answerPage'
import { ViewFrame } from './parts/frame'
import { HeadlineCard, Say } from './parts/headline'
import { pick } from './parts/pick'
import { type Group, TableSection } from './parts/tableSection'
import type { ViewProps } from './view'
import layoutCss from '../widgets/layout.module.css'
import frameCss from './parts/frame.module.css'
import pageCss from './parts/snapshotPage.module.css'

const GROUPS: Group[] = [
  { table: 'kernels_across_ranks', label: 'All workers' },
  { table: 'kernels_by_rank', label: 'Each worker' },
]

export function RanksKernels({ base, profile }: ViewProps) {
  // The view is about all workers: which one is open does not matter to the answer.
  const query = useMemo<Query>(() => ({ ...base, worker: '' }), [base])
  const resource = useView('ranks_kernels', query)
  const place = { run: profile.run, span: profile.span }
  return (
    <div className={frameCss.page}>
      <ViewFrame resource={resource} bones={<Bones height={420} />} steps={String(base.steps ?? '')}>
        {(view) => <Page view={view} />}
      </ViewFrame>
      {resource.data && (
        <TableSection
          view="ranks_kernels"
          base={query}
          groups={GROUPS}
          placeholder="Search kernels and workers, text or /regex/"
          detail={(row, table) => (
            <RowFacts row={row} table={table}>
              <Button
                size="compact-xs"
                variant="default"
                onClick={() =>
                  openElsewhere({ ...place, worker: workerOf(row) }, 'kernels', {
                    search: String(row.name),
                  })
                }
              >
                Open the kernels of {workerOf(row)}
              </Button>
            </RowFacts>
          )}
        />
      )}
    </div>
  )
}

/** The worker of a row, else the one on which the kernel takes most time. */
const workerOf = (row: Record<string, unknown>) => String(row.worker ?? row.longest_worker)

function Page({ view }: { view: View }) {
  const answer = pick(view, 'answer', 'notices')?.notices ?? []
  const map = pick(view, 'slower_map', 'series')
  const notes = pick(view, 'data_quality', 'notices')
  return (
    <div className={layoutCss.column}>
      {answer.length > 0 && (
        <HeadlineCard label="Answer" className={pageCss.head} below>
          {answer.map((notice) => (
            <Say key={notice.rule} severity={notice.severity}>
              <Sentence notice={notice} text={notice.text} />
            </Say>
          ))}
        </HeadlineCard>
      )}
      {notes && (
        <Card title={notes.title}>
          <NoticeList notices={notes.notices} onLink={followLink} none="" />
        </Card>
      )}
      {map && (
        <Card title={map.title} subtitle={map.subtitle}>
          <HeatMap series={map} row="Kernel" />
        </Card>
      )}
    </div>
  )
}
