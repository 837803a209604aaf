// A loading or failed profile.
import { Button, Progress } from '@mantine/core'
import type { ReactNode } from 'react'
import type { Loading, Profile, SpanInfo } from '../api/payloads'
import { counted, format } from '../lib/format'
import { addressText } from '../lib/profiles'
import { PagePlaceholder } from './basics'
import { ProblemPanel } from './problem'
import basicsCss from './basics.module.css'
import layoutCss from './layout.module.css'
import css from './profileState.module.css'
import textCss from './text.module.css'

/** `side` names one of two profiles. */
export function LoadingPanel(props: { profile: Profile | null; span: SpanInfo | null; side?: string }) {
  const { profile, span, side } = props
  const loading = profile?.loading ?? null
  const fraction = loading ? loading.fraction : (profile?.fraction ?? span?.fraction ?? 0)
  const speed = profile && eventsPerSecond(profile)
  const left = loading && secondsLeft(loading)
  const title = [side, STAGES[loading?.stage ?? 'reading']].filter(Boolean).join(': ')
  return (
    <div>
      <div className={`${basicsCss.panel} ${css.loading}`} role="status">
        <div className={css.line}>
          <b>{title}</b>
          {fraction !== null && <span className={textCss.num}>{Math.floor(fraction * 100)} %</span>}
          {profile && profile.events_read > 0 && <span>{counted(profile.events_read, 'event')}</span>}
          {speed !== null && <span>{format(speed, 'count')} events/s</span>}
          {left !== null && <span>about {timeLeft(left)} left</span>}
          {span && <span className={textCss.mute}>{format(span.size_bytes, 'bytes')}</span>}
        </div>
        <Progress
          value={(fraction ?? 1) * 100}
          striped={fraction === null}
          animated={fraction === null}
          size="sm"
          transitionDuration={100}
          aria-label={title}
        />
        {loading && (
          <ul className={css.kinds}>
            {countsByKind(loading).map(([kind, count]) => (
              <li key={kind}>
                {kind} <span className={textCss.num}>{format(count, 'count')}</span>
              </li>
            ))}
          </ul>
        )}
        {loading && loading.about.length > 0 && (
          <dl className={css.facts} aria-label="Trace facts">
            {loading.about.map(({ metric, value }) => (
              <div key={metric.key}>
                <dt title={metric.definition}>{metric.title}</dt>
                <dd>{format(value, metric.unit)}</dd>
              </div>
            ))}
          </dl>
        )}
      </div>
      <div className={layoutCss.grid} aria-hidden="true">
        <PagePlaceholder />
      </div>
    </div>
  )
}

function timeLeft(exact: number): string {
  const seconds = Math.max(1, Math.round(exact))
  return seconds < 90 ? `${seconds} s` : `${Math.round(seconds / 60)} min`
}

export function FailedPanel(props: { profile: Profile; onRetry: () => void; side?: string; action?: ReactNode }) {
  const { profile, onRetry, side, action } = props
  const problem = profile.problem ?? {
    what: 'The trace could not be read.',
    where: addressText(profile),
    do: 'Check the TensorBoard log.',
  }
  return (
    <ProblemPanel
      problem={problem}
      title={[side, addressText(profile)].filter(Boolean).join(': ')}
      action={
        <>
          {action}
          <Button size="xs" variant={action ? 'default' : 'filled'} onClick={onRetry}>
            Try again
          </Button>
        </>
      }
    />
  )
}

const STAGES: Record<Loading['stage'], string> = {
  waiting: 'Waiting in the queue',
  copying: 'Downloading the file',
  surveying: 'Scanning the trace: it is too large to load at once',
  reading: 'Reading the trace',
  assembling: 'Linking operators, launches and steps',
  writing: 'Writing the cache',
  summarising: 'Preparing the first view',
}

const KINDS: Record<string, string> = {
  unknown: 'unknown kind',
  operator: 'operators',
  annotation: 'annotations',
  python: 'Python calls',
  module: 'module calls',
  runtime: 'runtime calls',
  kernel: 'kernels',
  memcpy: 'memory copies',
  memset: 'memsets',
  device_annotation: 'device annotations',
  sync: 'device waits',
  overhead: 'profiler overhead',
  window: 'record windows',
  instant: 'instants',
  async: 'asynchronous operations',
  memory: 'allocator events',
  counter: 'counter events',
  other: 'names, flow arrows and marks',
  outside: 'outside the window',
}

/** Before that, one late report would make a senseless rate. */
const SOON_SECONDS = 1
/** Too early to tell below 3 %: a wrong time is worse than none. */
const SOON_FRACTION = 0.03

/** Events read a second, to three digits; null while nothing is read or it is too early to tell. */
function eventsPerSecond(profile: Profile): number | null {
  const { loading, events_read } = profile
  if (loading?.stage !== 'reading' || loading.seconds < SOON_SECONDS || events_read === 0) return null
  return Number((events_read / loading.seconds).toPrecision(3))
}

/** Seconds until the stage ends; null if unknown. */
function secondsLeft({ fraction, seconds }: Loading): number | null {
  if (fraction === null || fraction < SOON_FRACTION || seconds < SOON_SECONDS) return null
  return (seconds / fraction) * (1 - fraction)
}

/** Kinds in words with their counts, most first. */
function countsByKind({ counts }: Loading): [string, number][] {
  const named = Object.entries(counts).map(([kind, count]): [string, number] => [
    KINDS[kind] ?? kind.replaceAll('_', ' '),
    count,
  ])
  return named.sort((one, other) => other[1] - one[1])
}
