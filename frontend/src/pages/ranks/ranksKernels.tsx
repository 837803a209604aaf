// Kernels that differ between ranks.
import type { View } from '../../api/payloads'
import { RowFacts } from '../../parts/answerPage'
import { Answers, HeadlineCard, NoticesCard } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { payloadByName } from '../../parts/payloadByName'
import { type Group, TableSection } from '../../parts/tableSection'
import { openViewOfProfile, workerLink } from '../../state/urlState'
import { Card, SmallButton } from '../../widgets/basics'
import { HeatMap } from '../../widgets/heat'
import { AllWorkersFrame, useAllWorkers } from './allWorkers'
import pageCss from '../../parts/pageHead.module.css'
import frameCss from '../../parts/viewFrame.module.css'
import layoutCss from '../../widgets/layout.module.css'

const GROUPS: Group[] = [
  { table: 'kernels_across_ranks', label: 'All workers', nameStyle: 'kernel' },
  { table: 'kernels_by_rank', label: 'Each worker', nameStyle: 'kernel' },
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
              <SmallButton
                onClick={() =>
                  openViewOfProfile({ ...place, worker: workerOf(row) }, 'kernels', {
                    search: String(row.name),
                  })
                }
              >
                Open the kernels of {workerOf(row)}
              </SmallButton>
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
  return (
    <div className={layoutCss.column}>
      {answer.length > 0 && (
        <HeadlineCard label="Answer" className={pageCss.head} below>
          <Answers view={view} />
        </HeadlineCard>
      )}
      <NoticesCard view={view} wayOf={workerLink(place)} />
      {map && (
        <Card title={map.title} subtitle={map.subtitle}>
          <HeatMap series={map} row="Kernel" />
        </Card>
      )}
    </div>
  )
}
