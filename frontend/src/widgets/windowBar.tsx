// The loaded window of a large trace, and its neighbours.

import { Button } from '@mantine/core'
import type { Profile, WindowInfo } from '../api/payloads'
import { format } from '../lib/format'
import { nextWindow, previousWindow, windowStart, windowStarts } from '../lib/traceWindows'
import { Choice } from './choice'
import css from './windowBar.module.css'

/** Empty for a fully loaded profile. `side` names one of two profiles. */
export function WindowBar(props: { profile: Profile; side?: string; onWindow: (window: string) => void }) {
  const { profile, side, onWindow } = props
  const { window, trace_steps: steps } = profile
  if (!window) return null
  const [before, after] = [previousWindow(window, steps), nextWindow(window, steps)]
  const name = [side, 'Window of the trace'].filter(Boolean).join(': ')
  return (
    <section className={css.window} aria-label={name}>
      <p role="status">
        {side && <b>{side}: </b>}
        <b>{windowText(window)}</b> {reasonText(window)}
      </p>
      <Button size="xs" variant="default" disabled={before === null} onClick={() => onWindow(before ?? '')}>
        Earlier
      </Button>
      <Choice
        label={`${name}: starts at`}
        value={windowStart(window)}
        onChange={onWindow}
        options={windowStarts(window, steps)}
      />
      <Button size="xs" variant="default" disabled={after === null} onClick={() => onWindow(after ?? '')}>
        Later
      </Button>
    </section>
  )
}

function windowText(window: WindowInfo): string {
  const [first, last] = [window.first_step, window.last_step]
  const steps = first === last ? `Step ${first}` : `Steps ${first} to ${last}`
  const times = `${format(window.start_ns, 'ns')} to ${format(window.end_ns, 'ns')} of ${format(window.trace_ns, 'ns')}`
  return window.steps > 0 ? `${steps} open, ${window.steps} of ${window.trace_steps} (${times}).` : `${times} open.`
}

function reasonText({ events, trace_events, peak_memory_bytes, budget_bytes }: WindowInfo): string {
  const counts = `${format(events, 'count')} of ${format(trace_events, 'count')} events are loaded. All numbers use only these events.`
  if (peak_memory_bytes <= budget_bytes) return counts
  return (
    `${counts} The full trace needs about ${format(peak_memory_bytes, 'bytes')} of memory; the limit is ${format(budget_bytes, 'bytes')}. ` +
    'Raise TORCH_TRACE_MEMORY_MB to load the full trace.'
  )
}
