// A profile that is being read, or that could not be.
import { Button, Progress } from '@mantine/core'
import type { Profile, SpanInfo } from '../api/payloads'
import { format } from '../lib/format'
import { addressText } from '../lib/profiles'
import { Bones } from './basics'
import { ProblemPanel } from './problem'

export function LoadingPanel({
  profile,
  span,
  since,
  title = 'Reading the trace',
}: {
  profile: Profile | null
  span: SpanInfo | null
  since: number
  title?: string
}) {
  const fraction = profile?.fraction ?? span?.fraction ?? 0
  const elapsed = Date.now() - since
  // Too early to tell below 3 %: a wrong time is worse than none.
  const left = fraction > 0.03 && elapsed > 1500 ? (elapsed / fraction) * (1 - fraction) : null
  return (
    <div>
      <div className="tt-loading" role="status">
        <div className="tt-loading-line">
          <b>{title}</b>
          <span className="tt-num">{Math.floor(fraction * 100)} %</span>
          {profile && profile.events_read > 0 && <span>{profile.events_read.toLocaleString('en-US')} events</span>}
          {left !== null && <span>about {timeLeft(left)} left</span>}
          {span && <span className="tt-mute">{format(span.size_bytes, 'bytes')}</span>}
        </div>
        <Progress
          value={fraction * 100}
          size="sm"
          transitionDuration={100}
          aria-label="Share of the file that is read"
        />
      </div>
      <div className="tt-overview" aria-hidden="true">
        <div className="tt-span12">
          <Bones height={78} />
        </div>
        <div className="tt-span8">
          <Bones height={330} />
        </div>
        <div className="tt-span4">
          <Bones height={330} />
        </div>
      </div>
    </div>
  )
}

function timeLeft(ms: number): string {
  const seconds = Math.max(1, Math.round(ms / 1000))
  return seconds < 90 ? `${seconds} s` : `${Math.round(seconds / 60)} min`
}

export function FailedPanel({ profile, onRetry, side }: { profile: Profile; onRetry: () => void; side?: string }) {
  const problem = profile.problem ?? {
    what: 'The trace could not be read.',
    where: addressText(profile),
    do: 'Look into the log of TensorBoard.',
  }
  return (
    <ProblemPanel
      problem={problem}
      title={[side, addressText(profile)].filter(Boolean).join(': ')}
      action={
        <Button size="xs" onClick={onRetry}>
          Try again
        </Button>
      }
    />
  )
}
