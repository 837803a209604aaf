// The slider that selects an allocator event.

import { ActionIcon, Slider, Tooltip } from '@mantine/core'
import { useEffect, useState } from 'react'
import type { Figures } from '../../../api/payloads'
import { format } from '../../../lib/format'
import { Choice } from '../../../widgets/choice'
import textCss from '../../../widgets/text.module.css'
import css from './momentBar.module.css'

const KINDS = [
  { value: '', label: 'any event' },
  { value: 'alloc', label: 'alloc' },
  { value: 'free', label: 'free' },
  { value: 'segment', label: 'segment event' },
  { value: 'oom', label: 'out of memory' },
]

const value = (place: Figures, key: string, title?: string) =>
  place.figures.find(({ metric }) => metric.key === key && (title === undefined || metric.title === title))?.value ??
  null

/** The event that a step leads to; null = there is none. */
export function stepOf(place: Figures, kind: string, by: -1 | 1): number | null {
  const at = Number(value(place, 'event_number'))
  const count = Number(value(place, 'history_events'))
  if (kind === '') return at + by >= -1 && at + by < count ? at + by : null
  const next = value(place, by > 0 ? 'next_event' : 'previous_event', kind)
  return typeof next === 'number' ? next : null
}

export function MomentBar(props: {
  place: Figures
  kind: string
  onKind: (kind: string) => void
  /** `step`: one of many, no entry in the history of the browser. */
  onChoose: (event: number, step: boolean) => void
}) {
  const { place, kind, onKind, onChoose } = props
  const at = Number(value(place, 'event_number'))
  const count = Number(value(place, 'history_events'))
  const [moving, setMoving] = useState(at)
  useEffect(() => setMoving(at), [at])
  const steps = [
    { by: -1, label: 'Previous', sign: '‹', key: ',' },
    { by: 1, label: 'Next', sign: '›', key: '.' },
  ] as const
  return (
    <div className={css.bar}>
      <span className={textCss.row}>
        {steps.map(({ by, label, sign, key }) => {
          const to = stepOf(place, kind, by)
          return (
            <Tooltip key={label} label={`${label}: ${KINDS.find((one) => one.value === kind)?.label} (${key})`}>
              <ActionIcon
                variant="default"
                aria-label={label}
                disabled={to === null}
                onClick={() => to !== null && onChoose(to, true)}
              >
                {sign}
              </ActionIcon>
            </Tooltip>
          )
        })}
        <Choice label="Step to" value={kind} onChange={onKind} options={KINDS} />
      </span>
      <Slider
        className={css.slider}
        thumbLabel="Event"
        min={-1}
        max={Math.max(0, count - 1)}
        value={moving}
        label={(event) => event.toLocaleString('en-US')}
        disabled={count === 0}
        onChange={setMoving}
        onChangeEnd={(event) => event !== at && onChoose(event, false)}
      />
      <Words place={place} at={at} count={count} />
    </div>
  )
}

function Words({ place, at, count }: { place: Figures; at: number; count: number }) {
  const action = value(place, 'event_action')
  const size = value(place, 'event_bytes') ?? value(place, 'asked_bytes')
  const line = String(value(place, 'allocation_line') ?? '')
  const time = value(place, 'event_ns')
  const where = at < 0 ? 'before the first event' : `event ${at.toLocaleString('en-US')}`
  return (
    <span className={css.words} data-testid="moment" title={line}>
      <b>{where}</b> of {count.toLocaleString('en-US')}
      {action !== null && ` · ${String(action).replaceAll('_', ' ')} ${format(size, 'bytes')}`}
      {time !== null && ` · ${format(time, 'ns')}`}
      {line && <span className={textCss.mute}> · {line.slice(line.lastIndexOf('/') + 1)}</span>}
    </span>
  )
}
