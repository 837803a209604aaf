// What the page shows while there is nothing to show: scanning, empty, loading, failed.
import { Button, Progress } from '@mantine/core'
import type { Catalog, Profile, SpanInfo } from '../api/payloads'
import { format, formatTime } from '../lib/format'
import { countsByKind, eventsPerSecond, STAGES, secondsLeft } from '../lib/loading'
import { Bones, CopyIconButton } from '../widgets/basics'
import { ProblemPanel } from '../widgets/problem'

const HINT = `from torch.profiler import profile, schedule, tensorboard_trace_handler

with profile(
    schedule=schedule(wait=1, warmup=1, active=3),
    on_trace_ready=tensorboard_trace_handler("LOGDIR"),
    record_shapes=True,
    with_stack=True,
) as profiler:
    for batch in loader:
        train_step(batch)
        profiler.step()`

export function EmptyPanel({ catalog }: { catalog: Catalog }) {
  const hint = HINT.replace('LOGDIR', catalog.logdir.replaceAll('"', ''))
  return (
    <div className="tt-empty">
      <h2>{catalog.scanning ? 'Looking for traces…' : 'No trace found'}</h2>
      <p>
        Looked in <code>{catalog.logdir}</code>: {catalog.scanned_files.toLocaleString('en-US')}{' '}
        {catalog.scanned_files === 1 ? 'file' : 'files'}
        {catalog.last_scan_unix_ms !== null && <>, last at {formatTime(catalog.last_scan_unix_ms)}</>}. The page looks
        again by itself.
      </p>
      {catalog.skipped.length > 0 && (
        <>
          <h3 className="tt-h3">Passed over</h3>
          <table className="tt-table">
            <thead>
              <tr>
                <th scope="col">File</th>
                <th scope="col" className="tt-left">
                  Why
                </th>
              </tr>
            </thead>
            <tbody>
              {catalog.skipped.slice(0, 50).map((item) => (
                <tr key={item.path}>
                  <th scope="row" className="tt-mono">
                    {item.path}
                  </th>
                  <td className="tt-left">{item.reason}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </>
      )}
      <h3 className="tt-h3">Record one</h3>
      <div className="tt-code">
        <pre>{hint}</pre>
        <CopyIconButton text={hint} label="Copy code" />
      </div>
    </div>
  )
}

export function LoadingPanel({ profile, span }: { profile: Profile | null; span: SpanInfo | null }) {
  const loading = profile?.loading ?? null
  const fraction = loading ? loading.fraction : (profile?.fraction ?? span?.fraction ?? 0)
  const speed = profile && eventsPerSecond(profile)
  const left = loading && secondsLeft(loading)
  const title = STAGES[loading?.stage ?? 'reading']
  return (
    <div>
      <div className="tt-loading" role="status">
        <div className="tt-loading-line">
          <b>{title}</b>
          {fraction !== null && <span className="tt-num">{Math.floor(fraction * 100)} %</span>}
          {profile && profile.events_read > 0 && <span>{format(profile.events_read, 'count')} events</span>}
          {speed !== null && <span>{format(speed, 'count')} events/s</span>}
          {left !== null && <span>about {timeLeft(left)} left</span>}
          {span && <span className="tt-mute">{format(span.size_bytes, 'bytes')}</span>}
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
          <ul className="tt-loading-kinds">
            {countsByKind(loading).map(([kind, count]) => (
              <li key={kind}>
                {kind} <span className="tt-num">{format(count, 'count')}</span>
              </li>
            ))}
          </ul>
        )}
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

function timeLeft(exact: number): string {
  const seconds = Math.max(1, Math.round(exact))
  return seconds < 90 ? `${seconds} s` : `${Math.round(seconds / 60)} min`
}

export function FailedPanel({ profile, onRetry }: { profile: Profile; onRetry: () => void }) {
  const problem = profile.problem ?? {
    what: 'The trace could not be read.',
    where: `${profile.run} / ${profile.worker} / ${profile.span}`,
    do: 'Look into the log of TensorBoard.',
  }
  return (
    <ProblemPanel
      problem={problem}
      title={`${profile.run} · ${profile.worker} · span ${profile.span}`}
      action={
        <Button size="xs" onClick={onRetry}>
          Try again
        </Button>
      }
    />
  )
}
