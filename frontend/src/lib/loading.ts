// Progress of a loading profile.
import type { Loading, Profile } from '../api/payloads'

export const STAGES: Record<Loading['stage'], string> = {
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
export function eventsPerSecond(profile: Profile): number | null {
  const { loading, events_read } = profile
  if (loading?.stage !== 'reading' || loading.seconds < SOON_SECONDS || events_read === 0) return null
  return Number((events_read / loading.seconds).toPrecision(3))
}

/** Seconds until the stage ends; null if unknown. */
export function secondsLeft({ fraction, seconds }: Loading): number | null {
  if (fraction === null || fraction < SOON_FRACTION || seconds < SOON_SECONDS) return null
  return (seconds / fraction) * (1 - fraction)
}

/** Kinds in words with their counts, most first. */
export function countsByKind({ counts }: Loading): [string, number][] {
  const named = Object.entries(counts).map(([kind, count]): [string, number] => [
    KINDS[kind] ?? kind.replaceAll('_', ' '),
    count,
  ])
  return named.sort((one, other) => other[1] - one[1])
}
