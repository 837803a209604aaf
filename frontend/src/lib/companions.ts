// Profiles of the same process, and translation of their times.
import type { Catalog, ClockInfo } from '../api/payloads'
import type { Address } from './profiles'

const PARTNER: Record<string, string> = { snapshot: 'trace', trace: 'snapshot' }
/** The model of execution traces, which have no clock. */
export const EXECUTION = 'execution_trace'

/** A worker's rank: the number after "rank", else the first in the name. */
export function rankOf(worker: string): number | null {
  const found = /rank[-_]?(\d+)/i.exec(worker) ?? /(?:^|[-_.])(\d{1,5})(?:[-_.]|$)/.exec(worker)
  return found ? Number(found[1]) : null
}

interface Candidate extends Address {
  state: string
}

/**
 * Profiles of the other kind that may be of the same process: in the same run, of the worker of that name, else of that rank,
 * else of the only worker there is. Nothing in the files names their process: their clocks have to overlap as well.
 */
export function companionCandidates(catalog: Catalog, address: Address, model: string, partner = ''): Candidate[] {
  const run = catalog.runs.find(({ name }) => name === address.run)
  const wanted = partner || (Object.hasOwn(PARTNER, model) ? PARTNER[model] : null)
  const workers = (run?.workers ?? []).flatMap((worker) => {
    const spans = worker.spans.filter((span) => span.model === wanted)
    return spans.length > 0 ? [{ name: worker.name, spans }] : []
  })
  const rank = rankOf(address.worker)
  const same = workers.filter(({ name }) => name === address.worker)
  const ranked = rank === null ? [] : workers.filter(({ name }) => rankOf(name) === rank)
  const chosen = same.length > 0 ? same : ranked.length === 1 ? ranked : workers.length === 1 ? workers : []
  return chosen.flatMap(({ name, spans }) =>
    spans.map(({ id, state }) => ({ run: address.run, worker: name, span: id, state })),
  )
}

export const ofWorker = (
  catalog: Catalog,
  { run, worker }: { run: string; worker: string },
  wanted: string,
): Address[] =>
  (catalog.runs.find(({ name }) => name === run)?.workers.find(({ name }) => name === worker)?.spans ?? [])
    .filter(({ model }) => model === wanted)
    .map(({ id }) => ({ run, worker, span: id }))

/** How long both were recorded at once, in ns; 0 when they were not. */
export function overlapOf(one: ClockInfo, other: ClockInfo): number {
  const [a, b] = [BigInt(one.start_unix_ns), BigInt(other.start_unix_ns)]
  const start = a > b ? a : b
  const [endA, endB] = [a + BigInt(one.length_ns), b + BigInt(other.length_ns)]
  const end = endA < endB ? endA : endB
  return end > start ? Number(end - start) : 0
}

/** A time of one profile as a time of the other, in ns. */
export const translateTime = (at: number, from: ClockInfo, to: ClockInfo): number =>
  at + Number(BigInt(from.start_unix_ns) - BigInt(to.start_unix_ns))

const MICROSECOND_NS = 1000

/** The snapshot times, in its ns, of allocations during `start` to `end` of the trace. */
export function allocationRange(start: number, end: number, trace: ClockInfo, snapshot: ClockInfo): [number, number] {
  // Snapshots have whole microseconds: allocations are dated to their start.
  const [first, last] = [start, end].map(
    (time) => Math.floor(translateTime(time, trace, snapshot) / MICROSECOND_NS) * MICROSECOND_NS,
  )
  return [Math.max(0, first), last]
}
