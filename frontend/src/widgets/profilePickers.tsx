// Pickers of run, worker and span.
import { useMemo } from 'react'
import type { Catalog, RunInfo, SpanInfo } from '../api/payloads'
import { format, formatTime } from '../lib/format'
import { type Address, byTime, isSummary, newest, spanLabels } from '../lib/profiles'
import { type Choice, Picker } from './picker'

const MOST_FILES = 12

function stateNote(spans: readonly SpanInfo[]): Pick<Choice, 'note' | 'tone'> {
  if (spans.some((span) => span.state === 'failed'))
    return { note: spans.length > 1 ? 'some failed' : 'failed', tone: 'bad' }
  const loading = spans.find((span) => span.state === 'loading')
  if (loading) return { note: `loading ${Math.round(loading.fraction * 100)} %`, tone: 'busy' }
  // Ready with a problem: the file was deleted after it was read.
  if (spans.every((span) => span.state === 'ready' && span.problem)) return { note: 'file was deleted', tone: 'bad' }
  if (spans.every((span) => span.is_empty)) return { note: 'empty', tone: 'bad' }
  // Its figures imply that it is ready.
  const isReady = (span: SpanInfo) => span.state === 'ready' && span.key_figures.length === 0
  if (spans.every(isReady) && !spans.every(isSummary)) return { note: 'ready' }
  return {}
}

const figuresOf = (span: SpanInfo | undefined) =>
  (span?.key_figures ?? []).map(({ metric, value }) => `${metric.title} ${format(value, metric.unit)}`)

const formatsOf = (spans: readonly SpanInfo[]) =>
  [...new Set(spans.map((span) => (isSummary(span) ? 'summary' : span.format)).filter(Boolean))].join(', ')

const filesOf = (spans: readonly SpanInfo[]) =>
  spans
    .flatMap(({ files }) => files)
    .slice(0, MOST_FILES)
    .join('\n')

function spanNote(span: SpanInfo): Pick<Choice, 'note' | 'tone'> {
  const state = stateNote([span])
  const parts = [formatsOf([span]), format(span.size_bytes, 'bytes'), ...figuresOf(span), state.note]
  return { note: parts.filter(Boolean).join(' · '), tone: state.tone }
}

function workerNote(spans: readonly SpanInfo[]): Pick<Choice, 'note' | 'tone'> {
  const state = stateNote(spans)
  return { note: [formatsOf(spans), state.note].filter(Boolean).join(' · '), tone: state.tone }
}

/** Time, formats, size, key figures and state of a run. */
function runNote(run: RunInfo): Pick<Choice, 'note' | 'tone'> {
  const spans = run.workers.flatMap((one) => one.spans)
  const state = stateNote(spans)
  const time = newest(run)
  const bytes = spans.reduce((sum, span) => sum + span.size_bytes, 0)
  const figures = figuresOf(spans.find((span) => span.key_figures.length > 0))
  const parts = [
    run.title && run.name,
    time ? formatTime(time).slice(0, 16) : '',
    formatsOf(spans),
    format(bytes, 'bytes'),
    ...figures,
    state.note,
  ]
  return { note: parts.filter(Boolean).join(' · '), tone: state.tone }
}

/** `onChange` gets '' for parts that the choice leaves open. */
export function ProfilePickers(props: {
  catalog: Catalog | null
  address: Address | null
  onChange: (address: Record<keyof Address, string>) => void
}) {
  const { catalog, address, onChange } = props
  const run = catalog?.runs.find((item) => item.name === address?.run)
  const worker = run?.workers.find((item) => item.name === address?.worker)
  const spans = worker?.spans ?? []
  const labels = useMemo(() => spanLabels(spans), [spans])
  return (
    <>
      <Picker
        label="Run"
        value={address?.run ?? ''}
        choices={byTime(catalog?.runs ?? []).map((item) => ({
          value: item.name,
          label: item.title || item.name,
          words: item.name,
          badge: item.is_invented ? 'invented' : undefined,
          hint: [item.title && item.name, item.grouped_by].filter(Boolean).join('\n') || undefined,
          ...runNote(item),
        }))}
        onChange={(next) => onChange({ run: next, worker: '', span: '' })}
      />
      <Picker
        label="Worker"
        value={address?.worker ?? ''}
        choices={(run?.workers ?? []).map((item) => ({
          value: item.name,
          label: item.name,
          hint: filesOf(item.spans),
          ...workerNote(item.spans),
        }))}
        onChange={(next) => onChange({ run: address?.run ?? '', worker: next, span: '' })}
      />
      <Picker
        label="Span"
        value={address?.span ?? ''}
        choices={spans.map((item, i) => ({
          value: item.id,
          label: labels[i],
          hint: filesOf([item]),
          ...spanNote(item),
        }))}
        onChange={(next) => onChange({ run: address?.run ?? '', worker: address?.worker ?? '', span: next })}
      />
    </>
  )
}
