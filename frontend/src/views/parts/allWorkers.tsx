// A view about all workers while their traces are read: what that takes before it begins, how far it is, and its end.
import { Button } from '@mantine/core'
import { type ReactNode, useMemo } from 'react'
import type { Query } from '../../api/client'
import type { View } from '../../api/payloads'
import { counted, format } from '../../lib/format'
import { isSummary, spansBeside } from '../../lib/profiles'
import { type Resource, useKnown, useView } from '../../state/data'
import { setWholeWanted, useWholeWanted } from '../../state/wholeRuns'
import { Bones } from '../../widgets/basics'
import type { ViewProps } from '../view'
import { ViewFrame } from './frame'
import basicsCss from '../../widgets/basics.module.css'
import textCss from '../../widgets/text.module.css'
import css from './allWorkers.module.css'

/** So many traces are read without a word. */
const MOST_UNASKED = 64

/** What somebody stopped is not begun again by itself, however little is left. */
const stopped = (id: string) => `${id}, stopped`

export interface AllWorkers {
  /** The question: of no worker. */
  query: Query
  resource: Resource<View>
  /** Workers that the answer is about. */
  workers: number
  /** Traces that nobody has read yet, and their bytes. */
  unread: number
  bytes: number
  /** Nothing is asked until somebody wants it. */
  isHeld: boolean
  /** Somebody said so. */
  isWanted: boolean
  /** Takes in that somebody wants it, or does not any more. */
  want: (isIt: boolean) => void
}

/** The answer of a view about all workers; where that reads many traces, somebody has to want it first. */
export function useAllWorkers(id: string, { base, profile, catalog }: ViewProps): AllWorkers {
  // Which worker is open does not matter to the answer.
  const query = useMemo<Query>(() => ({ ...base, worker: '' }), [base])
  const spans = spansBeside(catalog, profile, profile.model)
  const unread = spans.filter((span) => span.state !== 'ready' && span.state !== 'failed' && !isSummary(span))
  const isWanted = useWholeWanted(base, id)
  const isStopped = useWholeWanted(base, stopped(id))
  const asks = !isWanted && (unread.length > MOST_UNASKED || (isStopped && unread.length > 0))
  // What is known already costs nothing.
  const known = useKnown(id, query, '', asks)
  const isHeld = asks && !known
  const resource = useView(id, query, !isHeld)
  return {
    query,
    resource,
    workers: spans.length,
    unread: unread.length,
    bytes: unread.reduce((sum, span) => sum + span.size_bytes, 0),
    isHeld: isHeld && !resource.data,
    isWanted,
    want: (isIt) => {
      setWholeWanted(base, stopped(id), !isIt)
      setWholeWanted(base, id, isIt)
    },
  }
}

/** The frame of such a view. `why`: what the traces are read for. */
export function AllWorkersFrame(props: {
  all: AllWorkers
  why: string
  steps?: string
  children: (view: View) => ReactNode
}) {
  const { all, why, steps, children } = props
  const { unread, bytes } = all
  if (all.isHeld)
    return (
      <div className={basicsCss.panel} data-testid="reads-all">
        <h2>Reads {counted(unread, 'trace')}</h2>
        <p>
          {why} {format(bytes, 'bytes')} of this run are not read yet, which takes a while. What is read stays in the
          cache.
        </p>
        <Button size="xs" onClick={() => all.want(true)}>
          Read all {unread.toLocaleString('en-US')}
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

/** How far reading the traces of all workers is. */
export function ReadingAll(props: { all: Pick<AllWorkers, 'resource' | 'workers'>; onStop?: () => void }) {
  const { all, onStop } = props
  const { fraction } = all.resource
  return (
    <>
      {fraction !== null && (
        <p className={css.reading} role="status">
          <span className={textCss.mute}>
            Reading the traces of all workers: {format(fraction, 'ratio')}, about{' '}
            {Math.floor(fraction * all.workers).toLocaleString('en-US')} of {all.workers.toLocaleString('en-US')}
          </span>
          {onStop && (
            <Button size="compact-xs" variant="default" onClick={onStop}>
              Stop
            </Button>
          )}
        </p>
      )}
      <Bones height={420} />
    </>
  )
}
