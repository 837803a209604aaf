// Consent to and progress of reading all workers.
import { Button } from '@mantine/core'
import { type ReactNode, useRef } from 'react'
import type { Query } from '../../api/client'
import type { View } from '../../api/payloads'
import { counted, format } from '../../lib/format'
import { modelNoun } from '../../lib/modelNouns'
import { MOST_UNASKED, spansOfRun, unreadSpans } from '../../lib/profiles'
import type { PageProps } from '../../parts/page'
import { ViewFrame } from '../../parts/viewFrame'
import { type Resource, useAllWorkersView, useQuery } from '../../state/data'
import { setReadRequest, useReadRequest } from '../../state/readRuns'
import { Placeholder, SmallButton } from '../../widgets/basics'
import basicsCss from '../../widgets/basics.module.css'
import textCss from '../../widgets/text.module.css'
import css from './allWorkers.module.css'

export interface AllWorkers {
  /** The question of the answer that is here: of no worker. */
  query: Query
  resource: Resource<View>
  workers: number
  /** The noun: trace, snapshot. */
  noun: string
  /** Number and bytes of unread profiles; some may be cached. */
  unread: number
  bytes: number
  isHeld: boolean
  isWanted: boolean
  want: (isIt: boolean) => void
}

/** A view about all workers; many unread profiles need consent first. */
export function useAllWorkers(id: string, { base, profile, catalog }: PageProps): AllWorkers {
  // The answer is the same for every worker.
  const query = useQuery(base, { worker: '' })
  const spans = spansOfRun(catalog, profile, profile.model)
  const unread = unreadSpans(spans)
  const wish = useReadRequest(base, id)
  const asks = wish !== 'wanted' && unread.length > (wish === 'stopped' ? 0 : MOST_UNASKED)
  // Cached answers cost nothing.
  const resource = useAllWorkersView(id, query, !asks)
  // Tables repeat the current answer's request: other steps might start unwanted reads.
  const answered = useRef(query)
  if (!resource.busy) answered.current = query
  return {
    query: answered.current,
    resource,
    workers: spans.length,
    noun: modelNoun(profile.model),
    unread: unread.length,
    bytes: unread.reduce((sum, span) => sum + span.size_bytes, 0),
    isHeld: asks && !resource.busy && !resource.data && !resource.problem,
    isWanted: wish === 'wanted',
    want: (isIt) => setReadRequest(base, id, isIt ? 'wanted' : 'stopped'),
  }
}

export function AllWorkersFrame(props: {
  all: AllWorkers
  why: string
  steps?: string
  children: (view: View) => ReactNode
}) {
  const { all, why, steps, children } = props
  const { unread, bytes, noun } = all
  if (all.isHeld)
    return (
      <div className={basicsCss.panel} data-testid="reads-all">
        <h2>This view reads up to {counted(unread, noun)}</h2>
        <p>
          {why} Up to {format(bytes, 'bytes')} will be read and cached. Cached {noun}s load immediately. Reading the
          other {noun}s takes a while.
        </p>
        <Button size="xs" onClick={() => all.want(true)}>
          Start reading
        </Button>
      </div>
    )
  const onStop = all.isWanted ? () => all.want(false) : undefined
  return (
    <ViewFrame resource={all.resource} bones={<ReadingAll all={all} onStop={onStop} />} steps={steps}>
      {children}
    </ViewFrame>
  )
}

export function ReadingAll(props: { all: Pick<AllWorkers, 'resource' | 'workers' | 'noun'>; onStop?: () => void }) {
  const { all, onStop } = props
  const { fraction } = all.resource
  return (
    <>
      {fraction !== null && (
        <p className={css.reading} role="status">
          <span className={textCss.mute}>
            Reading the {all.noun}s of all workers: {format(fraction, 'ratio')}, about{' '}
            {Math.floor(fraction * all.workers).toLocaleString('en-US')} of {all.workers.toLocaleString('en-US')}
          </span>
          {onStop && <SmallButton onClick={onStop}>Stop</SmallButton>}
        </p>
      )}
      <Placeholder height={420} />
    </>
  )
}
