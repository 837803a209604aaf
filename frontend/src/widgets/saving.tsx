// A finding's saving as text and bar.
import type { Notice, Saving } from '../api/payloads'
import { columnScale, exactText, format, formatRange, type Scale } from '../lib/format'
import css from './saving.module.css'

const share = (part: number, whole: number) => `${whole > 0 ? Math.min(100, (100 * part) / whole) : 0}%`

/** Smaller shared parts of a saving are not mentioned. */
const SHARED = 0.01

/** The scale of all savings that are read below each other. */
export const savingsScale = (notices: readonly Notice[]) =>
  columnScale(
    'ns',
    notices.flatMap(({ saving }) => (saving ? [saving.high_ns] : [])),
  )

/** The bar, its text, and the overlap with other findings. */
export function SavingBlock({ saving, scale }: { saving: Saving; scale: Scale }) {
  return (
    <div className={css.block}>
      <SavingBar saving={saving} />
      <SavingText saving={saving} scale={scale} />
      {saving.shared_ns >= SHARED * saving.high_ns && (
        <small>{format(saving.shared_ns, 'ns', scale)} of this overlaps with other findings</small>
      )}
    </div>
  )
}

/** The width is one step: lower bound solid, upper bound light. */
function SavingBar({ saving }: { saving: Saving }) {
  const { low_ns: low, high_ns: high, step_ns: step } = saving
  return (
    <span className={css.bar} aria-hidden="true" data-testid="saving-bar">
      <i className={css.low} style={{ width: share(low, step) }} />
      <i className={css.high} style={{ width: share(high - low, step) }} />
    </span>
  )
}

/** `scale`: of all savings that are read below each other. */
function SavingText({ saving, scale, short }: { saving: Saving; scale: Scale; short?: boolean }) {
  const { low_ns: low, high_ns: high, step_ns: step } = saving
  return (
    <span className={short ? `${css.text} ${css.short}` : css.text}>
      <span title={`${exactText(low, 'ns')} to ${exactText(high, 'ns')}`}>
        {!short && 'saves '}
        <b>{formatRange(low, high, 'ns', scale)}</b>
      </span>
      <span className={css.share}>{step > 0 && `${short ? '' : '≤ '}${format(high / step, 'ratio')}`}</span>
    </span>
  )
}
