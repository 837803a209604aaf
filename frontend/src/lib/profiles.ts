// Which profile a URL means: the one that is open, and the one it is compared with.
import type { Catalog, Profile, SpanInfo } from '../api/payloads'

export interface Address {
  run: string
  worker: string
  span: string
}

type Named = Readonly<Record<string, string | undefined>>

/** The profile the URL means: what it leaves out is the first there is. */
export function resolveAddress(catalog: Catalog | null, route: Named): Address | null {
  const run = catalog?.runs.find((item) => item.name === route.run) ?? (route.run ? undefined : catalog?.runs[0])
  const worker = run?.workers.find((item) => item.name === route.worker) ?? (route.worker ? undefined : run?.workers[0])
  const span = worker?.spans.find((item) => item.id === route.span) ?? (route.span ? undefined : worker?.spans[0])
  return run && worker && span ? { run: run.name, worker: worker.name, span: span.id } : null
}

export const sameAddress = (one: Address | null, other: Address | null) =>
  one?.run === other?.run && one?.worker === other?.worker && one?.span === other?.span

export const addressText = ({ run, worker, span }: Address) => `${run} · ${worker} · span ${span}`

export function spanOf(catalog: Catalog | null, address: Address | null): SpanInfo | null {
  const run = catalog?.runs.find((item) => item.name === address?.run)
  const worker = run?.workers.find((item) => item.name === address?.worker)
  return worker?.spans.find((item) => item.id === address?.span) ?? null
}

function allProfiles(catalog: Catalog): Address[] {
  return catalog.runs.flatMap((run) =>
    run.workers.flatMap((worker) =>
      worker.spans.map((span) => ({ run: run.name, worker: worker.name, span: span.id })),
    ),
  )
}

/**
 * What to compare with when nobody said: another run's profile of the same worker and span, else another span of the
 * worker, else another worker, else any other. Of several the closest before it in the list, else the closest after.
 */
export function defaultBaseline(catalog: Catalog, exp: Address): Address | null {
  const all = allProfiles(catalog)
  const at = all.findIndex((item) => sameAddress(item, exp))
  const nearest = [...all.slice(0, Math.max(at, 0)).reverse(), ...all.slice(at + 1)]
  const wishes: ((item: Address) => boolean)[] = [
    (item) => item.run !== exp.run && item.worker === exp.worker && item.span === exp.span,
    (item) => item.run === exp.run && item.worker === exp.worker,
    (item) => item.run === exp.run,
    () => true,
  ]
  for (const wish of wishes) {
    const found = nearest.find(wish)
    if (found) return found
  }
  return null
}

/** The baseline the URL names; what it leaves out is the experiment's where that is there, else the first. */
export function resolveBaseline(catalog: Catalog, route: Named, exp: Address): Address | null {
  if (!route.base_run && !route.base_worker && !route.base_span) return defaultBaseline(catalog, exp)
  const run = catalog.runs.find((item) => item.name === (route.base_run || exp.run))
  const workers = run?.workers ?? []
  const worker =
    workers.find((item) => item.name === (route.base_worker || exp.worker)) ??
    (route.base_worker ? undefined : workers[0])
  const spans = worker?.spans ?? []
  const span =
    spans.find((item) => item.id === (route.base_span || exp.span)) ?? (route.base_span ? undefined : spans[0])
  return run && worker && span ? { run: run.name, worker: worker.name, span: span.id } : null
}

/** The view that is shown: what the URL names where the profile has it, else the one that it opens with. */
export function openedView(profile: Profile | null, wanted: string | undefined): string {
  if (!profile) return wanted ?? ''
  return wanted && profile.views.some((view) => view.id === wanted) ? wanted : profile.default_view
}
