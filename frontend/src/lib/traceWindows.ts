// Windows of a trace that is too large to load at once.
import type { WindowInfo } from '../api/payloads'
import { format } from './format'

interface WindowStart {
  value: string
  label: string
}

/** More than anybody would scroll through. */
const MOST_TIMES = 200

/** Start steps; times if the trace has no steps or none fits. */
export function windowStarts(window: WindowInfo, steps: readonly string[]): WindowStart[] {
  if (window.steps > 0) return steps.map((label) => ({ value: label, label: `Step ${label}` }))
  const length = Math.max(window.end_ns - window.start_ns, Math.ceil(window.trace_ns / MOST_TIMES), 1)
  const times = new Set([window.start_ns])
  for (let at = 0; at < window.trace_ns; at += length) times.add(at)
  return [...times].sort((one, other) => one - other).map((at) => ({ value: `${at}ns`, label: format(at, 'ns') }))
}

export const windowStart = (window: WindowInfo) => window.first_step ?? `${window.start_ns}ns`

/** The window of the same length before this one; null at the beginning of the trace. */
export function previousWindow(window: WindowInfo, steps: readonly string[]): string | null {
  if (window.first_step !== null) {
    const at = steps.indexOf(window.first_step)
    return at > 0 ? `${steps[Math.max(0, at - window.steps)]}-${steps[at - 1]}` : null
  }
  const from = Math.max(0, 2 * window.start_ns - window.end_ns)
  return window.start_ns > 0 ? `${from}ns-${window.start_ns}ns` : null
}

export function nextWindow(window: WindowInfo, steps: readonly string[]): string | null {
  if (window.last_step !== null) return steps[steps.indexOf(window.last_step) + 1] ?? null
  return window.end_ns < window.trace_ns ? `${window.end_ns}ns` : null
}
