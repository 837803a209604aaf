// The ranks of a timeline, to and from the URL.
import type { Catalog, SpanInfo } from '../api/payloads'
import { rankOf } from './companions'
import { joinIds, splitIds } from './laneOrder'
import { type Address, isSummary, sameAddress } from './profiles'

/** All workers of the run with a trace in the span. */
const EVERY = '*'

/** A rank's key in the URL: its worker, or all three parts for another run or span. */
export function rankKey(open: Address, one: Address): string {
  const parts = one.run === open.run && one.span === open.span ? [one.worker] : [one.run, one.worker, one.span]
  return parts.map(encodeURIComponent).join('/')
}

/** Whether a rank is of another run or span than the open one. */
export const isOfOtherRun = (key: string) => key.includes('/')

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** A rank as a person reads it: its worker, of another run also the run. */
export const rankName = (key: string) => {
  const parts = key.split('/').map(decoded)
  return parts.length === 3 ? `${parts[1]} of ${parts[0]}` : key === '' ? '' : decoded(key)
}

function addressOf(open: Address, key: string): Address | null {
  const parts = key.split('/').map(decoded)
  if (parts.length === 1) return { ...open, worker: parts[0] }
  return parts.length === 3 ? { run: parts[0], worker: parts[1], span: parts[2] } : null
}

/** Whether there are events to be shown: a summary has none. */
export const isTrace = (span: SpanInfo) => span.model === 'trace' && !isSummary(span)

/** The traces of a run that were recorded with the open one, in the order of the catalog. */
export function tracesOfRun(catalog: Catalog, open: Address): Address[] {
  const workers = catalog.runs.find(({ name }) => name === open.run)?.workers ?? []
  return workers
    .filter(({ spans }) => spans.some((one) => one.id === open.span && isTrace(one)))
    .map(({ name }) => ({ ...open, worker: name }))
}

/** The open profile, then the URL's ranks without duplicates. Unknown ones stay and report an error. */
export function selectedRanks(catalog: Catalog, open: Address, text: string | undefined): Address[] {
  const keys = splitIds(text)
  const named = keys.flatMap((key) => (key === EVERY ? tracesOfRun(catalog, open) : (addressOf(open, key) ?? [])))
  const found: Address[] = [open]
  const seen = new Set([JSON.stringify([open.run, open.worker, open.span])])
  for (const one of named) {
    const key = JSON.stringify([one.run, one.worker, one.span])
    if (seen.has(key)) continue
    seen.add(key)
    found.push(one)
  }
  return found
}

/** Ranks as URL text: '*' for the whole run, without the open rank. */
export function ranksText(catalog: Catalog, open: Address, ranks: readonly Address[]): string {
  const others = ranks.filter((one) => !sameAddress(one, open))
  const beside = tracesOfRun(catalog, open).filter((one) => !sameAddress(one, open))
  const all = beside.length > 1 && beside.every((one) => others.some((other) => sameAddress(one, other)))
  const rest = all ? others.filter((one) => !beside.some((other) => sameAddress(one, other))) : others
  return joinIds([...new Set([...(all ? [EVERY] : []), ...rest.map((one) => rankKey(open, one))])])
}

/** Ways to put sections below each other; the open rank stays the first of them. */
export const ORDERS = {
  '': 'As selected',
  rank: 'By rank',
  node: 'By node, then by rank',
  late: 'By wait time of other ranks, largest first',
}
export type Order = keyof typeof ORDERS

export const orderOf = (text: string | undefined): Order =>
  text !== undefined && Object.hasOwn(ORDERS, text) ? (text as Order) : ''

/** Unknown values last; the sort is stable. */
export function inOrder<One extends { address: Address }>(
  [first, ...others]: readonly One[],
  order: Order,
  nodes: ReadonlyMap<string, string>,
  late: readonly string[],
): One[] {
  const rank = ({ address }: One) => rankOf(address.worker) ?? Number.MAX_SAFE_INTEGER
  const places = (names: readonly string[]) => new Map(names.map((name, i) => [name, i]))
  const [nodePlaces, latePlaces] = [places([...new Set(nodes.values())].sort()), places(late)]
  const keys = {
    '': () => 0,
    rank,
    node: ({ address }: One) => nodePlaces.get(nodes.get(address.worker) ?? '') ?? Number.MAX_SAFE_INTEGER,
    late: ({ address }: One) => latePlaces.get(address.worker) ?? Number.MAX_SAFE_INTEGER,
  }
  const key = keys[order]
  const sorted = order === '' ? others : others.sort((a, b) => key(a) - key(b) || rank(a) - rank(b))
  return first === undefined ? [] : [first, ...sorted]
}

/** A filter by numbers and ranges of ranks, else by text. */
export function rankFilter(text: string): (worker: string) => boolean {
  const wanted = text.trim().toLowerCase()
  const parts = wanted.split(/[\s,]+/).filter((part) => part !== '')
  const stretches = parts.map((part) => /^(\d+)(?:-(\d+))?$/.exec(part))
  if (parts.length === 0 || stretches.some((found) => found === null))
    return (worker) => worker.toLowerCase().includes(wanted)
  const ends = stretches.map((found) => [Number(found?.[1]), Number(found?.[2] ?? found?.[1])])
  return (worker) => {
    const rank = rankOf(worker)
    return rank === null ? worker.includes(wanted) : ends.some(([low, high]) => rank >= low && rank <= high)
  }
}
