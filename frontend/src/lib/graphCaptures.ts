// Choices for the capture of replayed graphs.
import type { Catalog, Profile } from '../api/payloads'

/** The URL value for no capture. */
const NONE = 'none'
/** The model of profiles that tell of graphs. */
const MODEL = 'trace'

interface CaptureChoice {
  value: string
  label: string
  note?: string
  hint?: string
  tone?: 'bad'
}

/** A name without the run that it shares with the trace, and without a span that is no number. */
const shortened = (name: string, run: string) =>
  (name.startsWith(`${run}/`) ? name.slice(run.length + 1) : name).replace(/\/default$/, '')

function captureLabel({ capture, run }: Profile): string {
  const names = capture?.names ?? []
  if (names.length > 1) return `${names.length} recordings`
  return names.length === 1 ? shortened(names[0], run) : 'none'
}

/** The default choice. */
function automaticChoice(profile: Profile, value: string): CaptureChoice {
  const { names = [], beside = [] } = profile.capture ?? {}
  if (value !== '') return { value: '', label: 'automatic', note: 'capture next to the trace' }
  if (names.length > 0)
    return { value: '', label: captureLabel(profile), note: 'found next to the trace', hint: names.join('\n') }
  const several =
    beside.length > 0 ? `${beside.length} captures next to the trace: choose one` : 'no capture next to the trace'
  const own = profile.capture?.own ?? false
  if (own) return { value: '', label: 'in this trace', note: 'the trace contains the capture' }
  return { value: '', label: 'none', note: several }
}

/** Choices: automatic, none, captures next to the trace, all other traces. */
export function captureChoices(catalog: Catalog, profile: Profile, value: string): CaptureChoice[] {
  const beside = profile.capture?.beside ?? []
  const own = [profile.run, profile.worker, profile.span].join('/')
  const all = catalog.runs.flatMap((run) =>
    run.workers.flatMap((worker) =>
      worker.spans
        .filter(({ model }) => model === MODEL)
        .map(({ id, problem }) => ({ name: `${run.name}/${worker.name}/${id}`, problem })),
    ),
  )
  const problems = new Map(all.map(({ name, problem }) => [name, problem]))
  const choice = (name: string, note?: string): CaptureChoice => {
    const problem = problems.get(name)
    const told = problem ? { note: 'cannot be used', hint: problem.what, tone: 'bad' as const } : { note }
    return { value: name, label: shortened(name, profile.run), ...told }
  }
  const others = all.flatMap(({ name }) => (name === own || beside.includes(name) ? [] : [choice(name)]))
  // Captures in the same folder are more likely.
  const near = ({ value: name }: CaptureChoice) => name.startsWith(`${profile.run.split('/')[0]}/`)
  const ordered = [...others.filter(near), ...others.filter((each) => !near(each))]
  const listed = [...beside.map((name) => choice(name, 'next to the trace')), ...ordered]
  const known = value === '' || value === NONE || listed.some((each) => each.value === value)
  return [
    automaticChoice(profile, value),
    { value: NONE, label: 'none', note: 'use the trace alone' },
    ...(known ? [] : [{ value, label: value }]),
    ...listed,
  ]
}

/** Changes when the state of a capture does. */
export function captureState(catalog: Catalog, names: readonly string[]): string {
  const wanted = new Set(names)
  const states = catalog.runs.flatMap((run) =>
    run.workers.flatMap((worker) =>
      worker.spans.flatMap(({ id, state, size_bytes }) => {
        const name = `${run.name}/${worker.name}/${id}`
        return wanted.has(name) ? [`${name} ${state} ${size_bytes}`] : []
      }),
    ),
  )
  return states.join('|') || 'none'
}
