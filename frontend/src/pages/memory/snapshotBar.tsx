// Device and event pickers of snapshot views.

import { TextInput } from '@mantine/core'
import { useEffect, useState } from 'react'
import type { Figures } from '../../api/payloads'
import { parseEventNumber } from '../../lib/eventNumber'
import { setRoute } from '../../state/urlState'
import { Choice } from '../../widgets/choice'
import textCss from '../../widgets/text.module.css'
import css from './snapshotBar.module.css'

/** Empty with fewer than two devices. */
export function DeviceChoice({ devices, chosen }: { devices: Figures | null; chosen: string }) {
  const names = devices?.figures.map((figure) => figure.metric.title) ?? []
  if (names.length < 2) return null
  return (
    <Choice
      size="sm"
      label="Device"
      value={chosen}
      onChange={(next) => setRoute({ device: next, at: '', against: '', stack: '', row: '', zoom: '' }, true)}
      options={names}
    />
  )
}

/** An event number, applied with Enter or on blur; empty means the default. */
export function EventField(props: { label: string; name: string; value: string; usual: string }) {
  const { label, name, value, usual } = props
  const [text, setText] = useState(value)
  useEffect(() => setText(value), [value])
  const apply = () => {
    const next = parseEventNumber(text)
    if (next === null) setText(value)
    else if (next !== value) setRoute({ [name]: next, row: '', zoom: '' }, true)
  }
  return (
    <TextInput
      className={css.event}
      size="sm"
      inputMode="numeric"
      aria-label={`${label} event`}
      title="Allocator event number. Memory is shown after this event; -1 means before the first event."
      leftSection={<small className={textCss.mute}>{label}</small>}
      leftSectionWidth={Math.max(38, 9 + 7 * label.length)}
      placeholder={usual}
      value={text}
      onChange={(event) => setText(event.currentTarget.value)}
      onBlur={apply}
      onKeyDown={(event) => {
        if (event.key === 'Enter') apply()
        if (event.key === 'Escape') setText(value)
      }}
    />
  )
}
