// The device picker of memory pages.

import type { Figures } from '../../api/payloads'
import type { Values } from '../../state/tensorboardHash'
import { setRoute } from '../../state/urlState'
import { Choice, Switch } from '../../widgets/choice'
import css from './devicePicker.module.css'

export function DevicePicker(props: {
  devices: Figures
  chosen: string
  /** Default device if the URL names none. */
  usual?: string
  cleared: Values
}) {
  const { devices, chosen, usual, cleared } = props
  const names = devices.figures.map((figure) => figure.metric.title)
  const choose = (name: string) => setRoute({ ...cleared, device: name === usual ? '' : name }, true)
  if (names.length === 1) return <b className={css.device}>{chosen}</b>
  if (names.length > 4) {
    return <Choice className={css.device} label="Device" value={chosen} onChange={choose} options={names} size="sm" />
  }
  return <Switch className={css.device} label="Device" value={chosen} onChange={choose} options={names} size="sm" />
}
