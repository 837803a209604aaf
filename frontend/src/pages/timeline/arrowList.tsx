// Recorded flow arrows from and to the selected event.
import { Button } from '@mantine/core'
import { useMemo } from 'react'
import type { Query } from '../../api/client'
import type { Flows } from '../../api/payloads'
import type { Range } from '../../canvas/viewport'
import { counted, format } from '../../lib/format'
import { shortenMiddle } from '../../lib/names'
import { useView } from '../../state/data'
import textCss from '../../widgets/text.module.css'
import css from './arrowList.module.css'

/** Maximum number of listed arrows, first in time. */
const MOST = 12
const LONGEST = 60

interface End {
  event: number
  name: string
  /** The arrow's name in the trace; may be empty. */
  label: string
  at: Range
  /** Start minus the selected event's start, in ns. */
  offset: number
}

/** Recorded arrows at the event, earlier ends and later ones, each in order of time. */
export function recordedAt(flows: Flows, event: number): { previous: End[]; next: End[] } {
  const here = flows.event.indexOf(event)
  const out = { previous: [] as End[], next: [] as End[] }
  if (here < 0) return out
  flows.arrow.forEach((kind, i) => {
    if (flows.kinds[kind] !== 'recorded') return
    const [from, to] = [flows.from[i], flows.to[i]]
    const add = (other: number, into: End[]) =>
      into.push({
        event: flows.event[other],
        name: flows.names[flows.name[other]],
        label: flows.label[i] < 0 ? '' : flows.names[flows.label[i]],
        at: { start: flows.start_ns[other], end: flows.start_ns[other] + flows.dur_ns[other] },
        offset: flows.start_ns[other] - flows.start_ns[here],
      })
    if (to === here && from !== here) add(from, out.previous)
    else if (from === here && to !== here) add(to, out.next)
  })
  for (const ends of [out.previous, out.next]) ends.sort((a, b) => a.at.start - b.at.start)
  return out
}

export function ArrowList(props: { event: number; base: Query; onGo: (event: number, at: Range) => void }) {
  const { event, base, onGo } = props
  const payload = useView('flows', { ...base, event }).data?.payloads.flows
  const ends = useMemo(() => (payload?.kind === 'flows' ? recordedAt(payload, event) : null), [payload, event])
  if (!ends || ends.previous.length + ends.next.length === 0) return null
  return (
    <div data-testid="event-arrows">
      <h3>
        Flow arrows <small>recorded</small>
      </h3>
      <Side title="Previous" ends={ends.previous} onGo={onGo} />
      <Side title="Next" ends={ends.next} onGo={onGo} />
    </div>
  )
}

const placeIn = (offset: number) => `${format(Math.abs(offset), 'ns')} ${offset < 0 ? 'earlier' : 'later'}`

function Side(props: { title: string; ends: readonly End[]; onGo: (event: number, at: Range) => void }) {
  const { title, ends, onGo } = props
  if (ends.length === 0) return null
  return (
    <section aria-label={`${title} events`}>
      <h4 className={css.side}>{title}</h4>
      <ul className={css.list}>
        {ends.slice(0, MOST).map((end) => (
          <li key={`${end.event} ${end.label}`}>
            <Button size="compact-xs" variant="subtle" title={end.name} onClick={() => onGo(end.event, end.at)}>
              {shortenMiddle(end.name, LONGEST)}
            </Button>
            <small className={textCss.mute}>
              {[end.label === end.name ? '' : end.label, placeIn(end.offset)].filter(Boolean).join(' · ')}
            </small>
          </li>
        ))}
      </ul>
      {ends.length > MOST && <small>and {counted(ends.length - MOST, 'more event')}</small>}
    </section>
  )
}
