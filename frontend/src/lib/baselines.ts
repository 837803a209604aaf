// Baselines for a comparison: candidates with a reason, and the automatic one.
import type { Catalog, SpanInfo } from '../api/payloads'
import { type Address, promises, type RouteValues, sameAddress, workersByName } from './profiles'

export interface Candidate extends Address {
  /** Why it is offered, in a few words. */
  reason: string
  /** Whether it may be chosen without asking. */
  isAutomatic: boolean
}

interface Place extends Address {
  info: SpanInfo
}

/** Most candidates that are offered. */
const MOST = 6
/** Files of comparable recordings differ at most by this factor. */
const MOST_SIZE_RATIO = 4
/** Most candidates with one reason: some of a kind stand for the others. */
const MOST_OF_A_KIND = 3
const SAME_WORKER = 'same worker in another run'
/** Least share of equal words in similar names. */
const SIMILAR_NAME = 0.5
/** Words of worker names that many jobs share. */
const COMMON_WORDS = /rank|worker|host|node|gpu|npu|device|process|local|trace|profile|default|pt/gi
const LEAST_LETTERS = 4

const placesOf = (catalog: Catalog): Place[] =>
  catalog.runs.flatMap((run) =>
    run.workers.flatMap((worker) =>
      worker.spans.map((info) => ({ run: run.name, worker: worker.name, span: info.id, info })),
    ),
  )

export const hasOtherProfile = (catalog: Catalog, one: Address) =>
  placesOf(catalog).some((item) => !sameAddress(item, one))

/** A name without numbers: `resnet_bs32` and `resnet_bs64` are one series. */
const series = (name: string) => name.replace(/[0-9]+/g, '#')

/** Whether a worker is named after its program: `rank0` is not, `bert_small` is. */
const isNamedAfterProgram = (worker: string) =>
  worker.replace(COMMON_WORDS, '').replace(/[^a-z]/gi, '').length >= LEAST_LETTERS

const words = (name: string) => new Set(name.toLowerCase().match(/[a-z]+/g) ?? [])

function nameSimilarity(one: string, other: string): number {
  const [ours, theirs] = [words(one), words(other)]
  const shared = [...ours].filter((word) => theirs.has(word)).length
  return shared / Math.max(1, ours.size + theirs.size - shared)
}

/** Whether two recordings can contain the same kind of data. The files are not read. */
function isComparable(one: SpanInfo, other: SpanInfo): boolean {
  const [low, high] = [one.size_bytes, other.size_bytes].sort((a, b) => a - b)
  const isKnown = one.device !== null && other.device !== null
  return (
    promises(other) &&
    one.format === other.format &&
    high <= low * MOST_SIZE_RATIO &&
    (!isKnown || (one.device === '') === (other.device === ''))
  )
}

const ownReason = (exp: Place, other: Place) =>
  Number(other.span) < Number(exp.span) ? 'previous span of this worker' : 'other span of this worker'

/** Similarity of recordings of different programs: a number for sorting, and a reason. */
function similarity(exp: Place, other: Place): [number, string] {
  const [one, two] = [exp.info, other.info]
  const facts: [boolean, number, string][] = [
    [Boolean(two.device) && one.device === two.device, 4, `same device (${two.device})`],
    [exp.run === other.run, 3, 'other worker of this run'],
    [exp.run !== other.run && nameSimilarity(exp.run, other.run) >= SIMILAR_NAME, 3, 'similar run name'],
    [
      isNamedAfterProgram(exp.worker) && nameSimilarity(exp.worker, other.worker) >= SIMILAR_NAME,
      2,
      'similar worker name',
    ],
    [(two.step_count ?? 0) > 1 && one.step_count === two.step_count, 1, `also ${two.step_count} steps`],
  ]
  const shared = facts.filter(([holds]) => holds)
  return [
    shared.reduce((sum, [, weight]) => sum + weight, 0),
    shared.map(([, , text]) => text).join(', ') || `other ${two.format || 'recording'}`,
  ]
}

/** Profiles to compare with, best first, each with its reason. */
export function baselineCandidates(catalog: Catalog, address: Address): Candidate[] {
  const all = placesOf(catalog)
  const at = all.findIndex((item) => sameAddress(item, address))
  if (at < 0) return []
  const exp = all[at]
  // The closest one before the experiment first, then those after it.
  const nearest = [...all.slice(0, at).reverse(), ...all.slice(at + 1)]
    .filter(({ info }) => promises(info))
    .sort((one, other) => Number(isComparable(exp.info, other.info)) - Number(isComparable(exp.info, one.info)))
  // Two runs are usually a comparison.
  const isPair = new Set(all.map(({ run }) => run)).size === 2
  const isRelated = ({ run }: Place) => run !== exp.run && series(run) === series(exp.run)
  const isSameWorker = ({ run, worker }: Place) => run !== exp.run && worker === exp.worker
  const ways: { holds: (item: Place) => boolean; reason: (item: Place) => string; isAutomatic: boolean }[] = [
    {
      holds: ({ run, worker }) => run === exp.run && worker === exp.worker,
      reason: (item) => ownReason(exp, item),
      isAutomatic: true,
    },
    {
      holds: (item) => isRelated(item) && isSameWorker(item) && item.span === exp.span,
      reason: () => SAME_WORKER,
      isAutomatic: true,
    },
    {
      holds: (item) => isSameWorker(item),
      reason: () => SAME_WORKER,
      isAutomatic: isNamedAfterProgram(exp.worker) || isPair,
    },
    {
      holds: ({ run, worker }) => run === exp.run && series(worker) === series(exp.worker),
      reason: () => 'other rank of this run',
      isAutomatic: true,
    },
    { holds: isRelated, reason: () => 'run of the same series', isAutomatic: true },
    { holds: ({ run }) => isPair && run !== exp.run, reason: () => 'the only other run', isAutomatic: true },
  ]
  const found = ways.flatMap(({ holds, reason, isAutomatic }) =>
    nearest.filter(holds).map((item) => ({
      item,
      reason: reason(item),
      isAutomatic: isAutomatic && isComparable(exp.info, item.info),
    })),
  )
  const rest = nearest
    .filter((item) => !ways.some(({ holds }) => holds(item)))
    .map((item) => ({ item, score: similarity(exp, item) }))
    .sort((one, other) => other.score[0] - one.score[0])
    .map(({ item, score }) => ({ item, reason: score[1], isAutomatic: false }))
  const seen = new Set<Place>()
  const perReason = new Map<string, number>()
  const offered = [...found.filter(({ isAutomatic }) => isAutomatic), ...found, ...rest].filter(({ item, reason }) => {
    const count = perReason.get(reason) ?? 0
    if (seen.has(item) || count >= MOST_OF_A_KIND) return false
    seen.add(item)
    perReason.set(reason, count + 1)
    return true
  })
  return offered.slice(0, MOST).map(({ item: { run, worker, span, info }, reason, isAutomatic }) => {
    const lacks = info.device === '' && exp.info.device ? ', no device work' : ''
    return { run, worker, span, reason: reason + lacks, isAutomatic }
  })
}

/** The baseline that is chosen without asking; null if no profile is comparable. */
export function defaultBaseline(catalog: Catalog, exp: Address): Address | null {
  const found = baselineCandidates(catalog, exp).find(({ isAutomatic }) => isAutomatic)
  return found ? { run: found.run, worker: found.worker, span: found.span } : null
}

/** The URL's baseline; missing parts default to the experiment's if available, else to the first. */
export function resolveBaseline(catalog: Catalog, route: RouteValues, exp: Address): Address | null {
  if (!route.base_run && !route.base_worker && !route.base_span) return defaultBaseline(catalog, exp)
  const run = catalog.runs.find((item) => item.name === (route.base_run || exp.run))
  const [named] = run ? workersByName(run, route.base_worker || exp.worker) : []
  const worker = named ?? (route.base_worker ? undefined : run?.workers[0])
  const spans = worker?.spans ?? []
  const span =
    spans.find((item) => item.id === (route.base_span || exp.span)) ?? (route.base_span ? undefined : spans[0])
  return run && worker && span ? { run: run.name, worker: worker.name, span: span.id } : null
}
