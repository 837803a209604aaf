import type { Notice } from '../../api/payloads'
import { counted } from '../../lib/format'
import { spansOfRun, viewInfo } from '../../lib/profiles'
import { HeadlineSentence } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { payloadByName } from '../../parts/payloadByName'
import { useCachedView, useQuery } from '../../state/data'
import { useRunRead } from '../../state/readRuns'
import { openView, workerLink } from '../../state/urlState'
import { LinkButton } from '../../widgets/basics'
import { Sentence } from '../../widgets/notices'

const VIEW = 'distributed'

const isOpen = ({ evidence }: Notice) => evidence?.view === VIEW

/** Number of workers in the Distributed view; 0 if unavailable. */
export function comparedWorkers({ catalog, profile }: Pick<PageProps, 'catalog' | 'profile'>): number {
  const count = spansOfRun(catalog, profile, profile.model).length
  return count > 1 && viewInfo(profile, VIEW)?.available ? count : 0
}

/** The rank's verdict in its job; null if unknown. */
export function useRankVerdict(props: PageProps): Notice | null {
  const { base, profile } = props
  const { worker } = profile
  const query = useQuery(base, { worker: '', of: worker })
  const view = useCachedView(VIEW, query, String(useRunRead(base)), comparedWorkers(props) > 0)
  return (view && payloadByName(view, 'verdict', 'notices')?.notices[0]) ?? null
}

/** `findings`: of this rank. Without open questions there is no link. */
export function JobSentence(
  props: PageProps & { verdict: Notice | null; findings: readonly Notice[]; leads: boolean },
) {
  const { profile, verdict, findings, leads } = props
  const workers = comparedWorkers(props)
  if (verdict)
    return (
      <HeadlineSentence severity={verdict.severity}>
        <Sentence notice={verdict} text={verdict.text} wayOf={workerLink(profile)} />{' '}
        <ToDistributed text="Distributed" />
      </HeadlineSentence>
    )
  if (!leads || workers === 0 || !findings.some(isOpen)) return null
  return (
    <HeadlineSentence severity="info">
      Open <ToDistributed text="Distributed" /> to see how much of this communication is waiting for other ranks (
      {counted(workers, 'worker')} in this run).
    </HeadlineSentence>
  )
}

const ToDistributed = ({ text }: { text: string }) => <LinkButton onClick={() => openView(VIEW, {})}>{text}</LinkButton>

/** Behind a finding of which this rank's trace alone does not tell how much is waiting. */
export const WaitingTimeLink = ({ notice }: { notice: Notice }) =>
  isOpen(notice) ? (
    <>
      {' '}
      <ToDistributed text="See in Distributed how much of the communication is waiting" />
    </>
  ) : null
