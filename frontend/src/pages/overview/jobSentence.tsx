// Late ranks of the run. Other traces are read in the background.
import type { Notice } from '../../api/payloads'
import { counted, format } from '../../lib/format'
import { MOST_UNASKED, spansOfRun, unreadSpans, viewInfo } from '../../lib/profiles'
import { HeadlineSentence } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { payloadByName } from '../../parts/payloadByName'
import { useCachedView, useQuery, useView } from '../../state/data'
import { setReadRequest, useReadRequest, useRunRead } from '../../state/readRuns'
import { openView, workerLink } from '../../state/urlState'
import { LinkButton, SmallButton } from '../../widgets/basics'
import { Sentence } from '../../widgets/notices'

const VIEW = 'distributed'

/** Whether the other ranks' traces say more about a finding. */
export const needsJob = ({ evidence }: Notice) => evidence?.view === VIEW

/** Number of workers in the Distributed view; 0 if unavailable. */
export function comparedWorkers({ catalog, profile }: Pick<PageProps, 'catalog' | 'profile'>): number {
  const count = spansOfRun(catalog, profile, profile.model).length
  return count > 1 && viewInfo(profile, VIEW)?.available ? count : 0
}

export interface Job {
  workers: number
  /** The rank's sentence in its job; null if there is none, or not yet. */
  verdict: Notice | null
  isRead: boolean
  /** Fraction that is read; null if nothing is being read. */
  fraction: number | null
  /** Unread traces that need consent; 0 = none. */
  held: number
  read: () => void
}

/** The rank in its job. Reads the missing traces; if there are many, only after the user agrees. */
export function useJob(props: PageProps): Job {
  const { base, profile, catalog } = props
  const workers = comparedWorkers(props)
  const unread = unreadSpans(spansOfRun(catalog, profile, profile.model)).length
  const wish = useReadRequest(base, VIEW)
  const reads = wish === 'wanted' || unread <= (wish === 'stopped' ? 0 : MOST_UNASKED)
  const query = useQuery(base, { worker: '', of: profile.worker })
  const resource = useView(VIEW, query, workers > 0 && reads)
  const cached = useCachedView(VIEW, query, String(useRunRead(base)), workers > 0 && !reads)
  const view = resource.data ?? cached
  return {
    workers,
    verdict: (view && payloadByName(view, 'verdict', 'notices')?.notices[0]) ?? null,
    isRead: view !== null,
    fraction: workers > 0 && reads && resource.busy ? (resource.fraction ?? 0) : null,
    held: workers > 0 && !reads && !view ? unread : 0,
    read: () => setReadRequest(base, VIEW, 'wanted'),
  }
}

export function JobSentence({ job, profile }: { job: Job; profile: PageProps['profile'] }) {
  const { verdict, workers, fraction, held } = job
  if (verdict)
    return (
      <HeadlineSentence severity={verdict.severity}>
        <Sentence notice={verdict} text={verdict.text} wayOf={workerLink(profile)} />{' '}
        <ToDistributed text="Compare all ranks" />
      </HeadlineSentence>
    )
  if (held > 0)
    return (
      <HeadlineSentence severity="info">
        Load the other ranks to see which rank is late. <SmallButton onClick={job.read}>Start reading</SmallButton>
      </HeadlineSentence>
    )
  if (fraction === null) return null
  return (
    <HeadlineSentence severity="info">
      <span role="status">
        Reading {counted(workers, 'rank')} to find the late rank
        {fraction > 0 && ` (${format(fraction, 'ratio')})`}.
      </span>
    </HeadlineSentence>
  )
}

const ToDistributed = ({ text }: { text: string }) => <LinkButton onClick={() => openView(VIEW, {})}>{text}</LinkButton>

/** Behind a finding that needs the other ranks. */
export const WaitingTimeLink = ({ notice }: { notice: Notice }) =>
  needsJob(notice) ? (
    <>
      {' '}
      <ToDistributed text="Compare all ranks" />
    </>
  ) : null
