// Kernels that differ between ranks.
import { Button } from '@mantine/core'
import type { View } from '../../api/payloads'
import { RowFacts } from '../../parts/answerPage'
import { HeadlineCard, HeadlineSentence } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { payloadByName } from '../../parts/payloadByName'
import { type Group, TableSection } from '../../parts/tableSection'
import { followLink } from '../../state/links'
import { openViewOfProfile, workerLink } from '../../state/urlState'
import { Card } from '../../widgets/basics'
import { HeatMap } from '../../widgets/heat'
import { NoticeList, Sentence } from '../../widgets/notices'
import { AllWorkersFrame, useAllWorkers } from './allWorkers'
import pageCss from '../../parts/pageHead.module.css'
import frameCss from '../../parts/viewFrame.module.css'
import layoutCss from '../../widgets/layout.module.css'

const GROUPS: Group[] = [
  { table: 'kernels_across_ranks', label: 'All workers' },
  { table: 'kernels_by_rank', label: 'Each worker' },
]

export function RanksKernels(props: PageProps) {
  const { base, profile } = props
  const all = useAllWorkers('ranks_kernels', props)
  const place = { run: profile.run, span: profile.span }
  return (
    <div className={frameCss.page}>
      <AllWorkersFrame all={all} why="The view compares every kernel on all ranks." steps={String(base.steps ?? '')}>
        {(view) => <Page view={view} place={place} />}
      </AllWorkersFrame>
      {all.resource.data && (
        <TableSection
          view="ranks_kernels"
          base={all.query}
          groups={GROUPS}
          placeholder="Search kernels and workers, text or /regex/"
          detail={(row, table) => (
            <RowFacts row={row} table={table}>
              <Button
                size="compact-xs"
                variant="default"
                onClick={() =>
                  openViewOfProfile({ ...place, worker: workerOf(row) }, 'kernels', {
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

function Page({ view, place }: { view: View; place: { run: string; span: string } }) {
  const answer = payloadByName(view, 'answer', 'notices')?.notices ?? []
  const map = payloadByName(view, 'slower_map', 'series')
  const notes = payloadByName(view, 'data_quality', 'notices')
  return (
    <div className={layoutCss.column}>
      {answer.length > 0 && (
        <HeadlineCard label="Answer" className={pageCss.head} below>
          {answer.map((notice) => (
            <HeadlineSentence key={notice.rule} severity={notice.severity}>
              <Sentence notice={notice} text={notice.text} />
            </HeadlineSentence>
          ))}
        </HeadlineCard>
      )}
      {notes && (
        <Card title={notes.title}>
          <NoticeList notices={notes.notices} onLink={followLink} none="" wayOf={workerLink(place)} />
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
