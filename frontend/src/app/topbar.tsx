// The bar on top: which profile and which steps, what is to know about the data, and ways out of the page.
import { Button, Menu, Tooltip } from '@mantine/core'
import { originalUrl, type Query, windowUrl } from '../api/client'
import type { Catalog, Profile, SpanInfo } from '../api/payloads'
import { format, formatClock, formatTime } from '../lib/format'
import { useCurrent } from '../state/current'
import type { Address } from '../state/data'
import { openProfile, shareUrl } from '../state/route'
import { useCopied } from '../widgets/basics'
import { DownloadIcon, HelpIcon, InfoIcon, LinkIcon } from '../widgets/icons'
import { type Choice, Picker } from '../widgets/picker'
import { StepsPicker } from './steps'

function stateNote(spans: readonly SpanInfo[]): Pick<Choice, 'note' | 'tone'> {
  if (spans.some((span) => span.state === 'failed'))
    return { note: spans.length > 1 ? 'some failed' : 'failed', tone: 'bad' }
  const loading = spans.find((span) => span.state === 'loading')
  if (loading) return { note: `loading ${Math.round(loading.fraction * 100)} %`, tone: 'busy' }
  // Ready with a problem: its file was deleted after it was read.
  if (spans.every((span) => span.state === 'ready' && span.problem)) return { note: 'file is gone', tone: 'bad' }
  if (spans.every((span) => span.state === 'ready')) return { note: 'ready' }
  return {}
}

export function spanLabel(span: SpanInfo, spans: readonly SpanInfo[]): string {
  if (span.time_unix_ms === null) return span.id
  const day = (time: number) => formatTime(time).slice(0, 10)
  const days = new Set(spans.flatMap((item) => (item.time_unix_ms === null ? [] : day(item.time_unix_ms))))
  return `${span.id} · ${days.size > 1 ? `${day(span.time_unix_ms)} ` : ''}${formatClock(span.time_unix_ms)}`
}

function spanNote(span: SpanInfo): Pick<Choice, 'note' | 'tone'> {
  const state = stateNote([span])
  return { note: [format(span.size_bytes, 'bytes'), state.note].filter(Boolean).join(' · '), tone: state.tone }
}

export function TopBar(props: {
  catalog: Catalog | null
  address: Address | null
  profile: Profile | null
  steps: string
  onQuality: () => void
  onHelp: () => void
}) {
  const { catalog, address, profile, steps, onQuality, onHelp } = props
  const run = catalog?.runs.find((item) => item.name === address?.run)
  const worker = run?.workers.find((item) => item.name === address?.worker)
  const notices = profile?.data_notices ?? 0
  return (
    <div className="tt-top" role="region" aria-label="Profile">
      <div className="tt-picks">
        <Picker
          label="Run"
          value={address?.run ?? ''}
          choices={(catalog?.runs ?? []).map((item) => ({
            value: item.name,
            label: item.name,
            ...stateNote(item.workers.flatMap((one) => one.spans)),
          }))}
          onChange={(next) => openProfile({ run: next, worker: '', span: '' })}
        />
        <Picker
          label="Worker"
          value={address?.worker ?? ''}
          choices={(run?.workers ?? []).map((item) => ({
            value: item.name,
            label: item.name,
            ...stateNote(item.spans),
          }))}
          onChange={(next) => openProfile({ run: address?.run ?? '', worker: next, span: '' })}
        />
        <Picker
          label="Span"
          value={address?.span ?? ''}
          choices={(worker?.spans ?? []).map((item) => ({
            value: item.id,
            label: spanLabel(item, worker?.spans ?? []),
            ...spanNote(item),
          }))}
          onChange={(next) => openProfile({ run: address?.run ?? '', worker: address?.worker ?? '', span: next })}
        />
        {profile?.state === 'ready' && <StepsPicker all={profile.steps} value={steps} />}
      </div>
      <div className="tt-actions">
        {profile?.state === 'ready' && (
          <Tooltip label="What was repaired, dropped or missing in the trace, and what that means for the numbers">
            <Button
              size="sm"
              variant="default"
              radius="xl"
              className={notices > 0 ? 'tt-quality tt-has' : 'tt-quality'}
              onClick={onQuality}
              leftSection={<InfoIcon />}
            >
              {notices}{' '}
              <span className="tt-wide">&nbsp;{notices === 1 ? 'note on this trace' : 'notes on this trace'}</span>
            </Button>
          </Tooltip>
        )}
        <CopyLink />
        {address && <ExportMenu base={{ ...address }} steps={steps} ready={profile?.state === 'ready'} />}
        <Tooltip label="Keyboard shortcuts (?)">
          <Button size="sm" variant="subtle" color="gray" px={6} aria-label="Keyboard shortcuts" onClick={onHelp}>
            <HelpIcon />
          </Button>
        </Tooltip>
      </div>
    </div>
  )
}

function CopyLink() {
  const [copied, copy] = useCopied()
  return (
    <Button size="sm" variant="default" leftSection={<LinkIcon />} onClick={() => copy(shareUrl())} aria-live="polite">
      {copied ? 'Copied' : 'Copy link'}
    </Button>
  )
}

function ExportMenu({ base, steps, ready }: { base: Query; steps: string; ready: boolean }) {
  const { csv, window: shown } = useCurrent()
  const chosen = shown ? { start_ns: shown.start, end_ns: shown.end } : { steps }
  const what = shown
    ? `Window in sight, ${format(shown.end - shown.start, 'ns')}`
    : steps
      ? `Steps ${steps}`
      : 'Whole trace'
  return (
    <Menu position="bottom-end" transitionProps={{ duration: 100 }} width={290}>
      <Menu.Target>
        <Button size="sm" variant="default" leftSection={<DownloadIcon />}>
          Export
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item component="a" href={originalUrl(base)} download>
          Original file
          <small className="tt-menu-note">as it lies in the log directory</small>
        </Menu.Item>
        <Menu.Item component="a" href={windowUrl({ ...base, ...chosen })} download disabled={!ready}>
          Chrome trace for Perfetto
          <small className="tt-menu-note">{what}</small>
        </Menu.Item>
        <Menu.Item component="a" href={csv?.url ?? '#'} download disabled={!csv}>
          Table as CSV
          <small className="tt-menu-note">
            {csv ? `${csv.title}, all matching rows` : 'open Operators or Kernels first'}
          </small>
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  )
}
