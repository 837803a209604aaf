// The selected phase in the top bar.
import { ActionIcon } from '@mantine/core'
import { shortenMiddle } from '../lib/names'
import { CloseIcon } from './icons'
import css from './phaseChip.module.css'
import pickerCss from './picker.module.css'
import textCss from './text.module.css'

export function PhaseChip({ phase, onClear }: { phase: string; onClear: () => void }) {
  return (
    <div
      className={`${pickerCss.pick} ${pickerCss.label} ${pickerCss.set} ${css.chip}`}
      data-testid="phase"
      title={`Limited to calls of phase ${phase} and the work launched there`}
    >
      <div>
        <small>Phase</small>
        <span className={textCss.mono}>{shortenMiddle(phase, 30)}</span>
      </div>
      <ActionIcon size="sm" variant="subtle" color="gray" aria-label={`Clear the phase ${phase}`} onClick={onClear}>
        <CloseIcon />
      </ActionIcon>
    </div>
  )
}
