// The open profile and the baseline that a URL names.
import type { Catalog, Profile, RunInfo, SpanInfo } from '../api/payloads'
import { counted, formatTime } from './format'

export interface Address {
  run: string
  worker: string
  span: string
}

type Place = Pick<Address, 'run' | 'span'>

export type RouteValues = Readonly<Record<string, string | undefined>>

/** Time of a run's newest profile; 0 if unknown. */
export const newest = (run: RunInfo) =>
  Math.max(0, ...run.workers.flatMap((worker) => worker.spans.map((span) => span.time_unix_ms ?? 0)))

/** Runs, the newest first; those without a time behind them, in their order. Invented runs come last. */
export const byTime = (runs: readonly RunInfo[]) =>
  [...runs].sort(
    (one, other) =>
      Number(!!one.is_invented) - Number(!!other.is_invented) ||
      Number(!!other.is_first) - Number(!!one.is_first) ||
      newest(other) - newest(one),
  )

/** Whether a span may have content; failed and empty ones are not opened first. */
export const promises = (span: SpanInfo) => span.state !== 'failed' && !span.is_empty

/**
 * Workers of a name, else those whose files start with it (names before ranks were known). The server resolves merged
 * files.
 */
export function workersByName(run: RunInfo, name: string): RunInfo['workers'] {
  const named = run.workers.filter((worker) => worker.name === name)
  const begins = (file: string) => file.split('/').at(-1)?.startsWith(`${name}.`)
  return named.length || isMerged(run)
    ? named
    : run.workers.filter(({ spans }) => spans.some(({ files }) => files.some(begins)))
}

/** The profile of a URL. Without one: the catalog's first; missing parts default to the first readable profile. */
export function resolveAddress(catalog: Catalog | null, route: RouteValues): Address | null {
  const { first = null } = catalog ?? {}
  if (first && !route.run && !route.worker && !route.span) {
    const span = spanOf(catalog, first)
    if (span && promises(span)) return first
    return resolveAddress(catalog, { run: first.run })
  }
  const runs = catalog?.runs.filter((item) => !route.run || item.name === route.run) ?? []
  const places = byTime(runs).flatMap((run) =>
    (route.worker ? workersByName(run, route.worker) : run.workers).flatMap((worker) =>
      worker.spans
        .filter((item) => !route.span || item.id === route.span)
        .map((span) => ({ run: run.name, worker: worker.name, span })),
    ),
  )
  // Never jump to another run because this one's files are damaged.
  const near = places.filter((place) => place.run === places[0].run)
  const found = near.find(({ span }) => promises(span)) ?? near[0]
  return found ? { ...found, span: found.span.id } : null
}

/** The address as named; the run defaults to the only one. */
export const wantedAddress = (catalog: Catalog | null, { run, worker = '', span = '' }: RouteValues): Address => ({
  run: run || (catalog?.runs.length === 1 ? catalog.runs[0].name : ''),
  worker,
  span,
})

/** Whether some workers of a run are ranks of one merged file. */
const isMerged = ({ workers }: RunInfo) => {
  const files = workers.flatMap(({ spans }) => spans.flatMap((span) => span.files))
  return new Set(files).size < files.length
}

/** The address for requests. The server also accepts a merged file's worker before its ranks are known. */
export const requestAddress = (catalog: Catalog | null, address: Address | null, wanted: Address): Address | null =>
  address ?? (wanted.worker && catalog?.runs.some(isMerged) ? wanted : null)

/** The first of run, worker and span that is not there as it is named. */
export function missingPart(catalog: Catalog, wanted: Address): keyof Address {
  const run = catalog.runs.find(({ name }) => name === wanted.run)
  if (!run) return 'run'
  return run.workers.some(({ name }) => name === wanted.worker) ? 'span' : 'worker'
}

export const sameAddress = (one: Address | null, other: Address | null) =>
  one?.run === other?.run && one?.worker === other?.worker && one?.span === other?.span

export const addressText = ({ run, worker, span }: Address) => `${run} · ${worker} · span ${span}`

export function spanOf(catalog: Catalog | null, address: Address | null): SpanInfo | null {
  const run = catalog?.runs.find((item) => item.name === address?.run)
  const worker = run?.workers.find((item) => item.name === address?.worker)
  return worker?.spans.find((item) => item.id === address?.span) ?? null
}

export function ofModel(catalog: Catalog, model: string): Catalog {
  const runs = catalog.runs.map((run) => {
    const workers = run.workers.map((worker) => ({
      ...worker,
      spans: worker.spans.filter((span) => span.model === model),
    }))
    return { ...run, workers: workers.filter(({ spans }) => spans.length > 0) }
  })
  return { ...catalog, runs: runs.filter(({ workers }) => workers.length > 0) }
}

/** Views that set the workers of a run side by side and say nothing of one alone, and the model that they are about. */
const OF_SEVERAL: Readonly<Record<string, string>> = { ranks_memory: 'snapshot', ranks_kernels: 'trace' }

/** Changes when a profile is loaded or its file changes. */
export const spanVersion = (span: SpanInfo | null) => (span ? `${span.state === 'ready'} ${span.size_bytes}` : '')

/** Spans by time of day, with the date if needed; by file name if times are equal. */
export function spanLabels(spans: readonly SpanInfo[]): string[] {
  const times = spans.map((span) => (span.time_unix_ms === null ? '' : formatTime(span.time_unix_ms)))
  const days = new Set(times.flatMap((time) => (time ? [time.slice(0, 10)] : [])))
  const last = new Map(times.map((time, i) => [time, i]))
  const shared = new Set(times.filter((time, i) => last.get(time) !== i))
  return spans.map(({ id, files }, i) => {
    const file = shared.has(times[i]) ? files[0]?.split('/').at(-1) : ''
    return [id, days.size > 1 ? times[i] : times[i].slice(11), file].filter(Boolean).join(' · ')
  })
}

/** Views about all workers of a run: which one is open does not matter to them. */
const ABOUT_ALL = new Set([...Object.keys(OF_SEVERAL), 'distributed', 'ranks_collectives'])

/** Whether a view has an answer although the profile that is open failed: it is about others as well, which may be read. */
export const isAnsweredByOthers = (view: string, catalog: Catalog, profile: Profile) =>
  ABOUT_ALL.has(view) && spansOfRun(catalog, profile, profile.model).some(({ state }) => state !== 'failed')

export function spansOfRun(catalog: Catalog | null, address: Place | null, model: string): SpanInfo[] {
  const run = catalog?.runs.find((item) => item.name === address?.run)
  return (run?.workers ?? []).flatMap(({ spans }) =>
    spans.filter(({ id, model: is }) => id === address?.span && is === model),
  )
}

/** The profile without views that need more workers of its span than its run has. */
export function offeredViews(
  profile: Profile | null,
  catalog: Catalog | null,
  address: Address | null,
): Profile | null {
  const alone = (view: string) =>
    Object.hasOwn(OF_SEVERAL, view) && spansOfRun(catalog, address, OF_SEVERAL[view]).length < 2
  return profile?.views.some(({ id }) => alone(id))
    ? { ...profile, views: profile.views.filter(({ id }) => !alone(id)) }
    : profile
}

/** A view's info, including views hidden in the navigation. */
export const viewInfo = (profile: Profile | null, id: string) =>
  profile?.views.find((view) => view.id === id) ?? profile?.absent.find((view) => view.id === id)

/** The URL's view if the profile has it, else the default. */
export function openedView(profile: Profile | null, wanted: string | undefined): string {
  if (!profile) return wanted ?? ''
  return wanted && viewInfo(profile, wanted) ? wanted : profile.default_view
}

const SUMMARY = '.ttsummary'

/** Whether only a rank's summary is available. */
export const isSummary = ({ files }: Pick<SpanInfo, 'files'>) =>
  files.length > 0 && files.every((file) => file.endsWith(SUMMARY))

/** Why a worker's view cannot be opened, with the fix. */
export const missingTraceText = (worker: string) =>
  `Only the summary of ${worker} is available. Open the log directory that contains its trace.`

export const unreadSpans = (spans: readonly SpanInfo[]): SpanInfo[] =>
  spans.filter((span) => !isSummary(span) && (span.state === 'found' || span.state === 'loading'))

/** More unread profiles are read only with consent. */
export const MOST_UNASKED = 64

export const unreadCount = (catalog: Catalog, place: Place): number =>
  unreadSpans(spansOfRun(catalog, place, 'trace')).length

export const readsText = (unread: number) =>
  unread === 0
    ? 'Reads no traces: all results are cached'
    : `Uses rank summaries where available and reads up to ${unread.toLocaleString('en-US')} traces`

/** The cost as a short note; '' if nothing is read. */
export const readsNote = (unread: number) => (unread === 0 ? '' : ` (reads up to ${counted(unread, 'trace')})`)

/** Workers of a run and span of which nothing but the summary is here: no view of their own has anything to show. */
export function withoutTraces(catalog: Catalog, { run, span }: Place): ReadonlySet<string> {
  const workers = catalog.runs.find(({ name }) => name === run)?.workers ?? []
  const absent = workers.filter(({ spans }) => spans.some((one) => one.id === span && isSummary(one)))
  return new Set(absent.map(({ name }) => name))
}
