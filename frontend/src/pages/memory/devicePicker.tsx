// The device picker of memory pages.
import { NativeSelect, SegmentedControl } from '@mantine/core'
import type { Figures } from '../../api/payloads'
import type { Values } from '../../state/tensorboardHash'
import { setRoute } from '../../state/urlState'
import css from './devicePicker.module.css'

export function DevicePicker(props: {
  devices: Figures
  chosen: string
  /** Which one is shown without a word in the URL. */
  usual?: string
  /** State that another device invalidates. */
  cleared: Values
}) {
  const { devices, chosen, usual, cleared } = props
  const names = devices.figures.map((figure) => figure.metric.title)
  const choose = (name: string) => setRoute({ ...cleared, device: name === usual ? '' : name }, true)
  if (names.length === 1) return <b className={css.device}>{chosen}</b>
  if (names.length > 4) {
    return (
      <NativeSelect
        className={css.device}
        aria-label="Device"
        value={chosen}
        onChange={(event) => choose(event.currentTarget.value)}
        data={names}
      />
    )
  }
  return <SegmentedControl className={css.device} aria-label="Device" value={chosen} onChange={choose} data={names} />
}
