// The way from a row to the simulation of its work at twice the speed.

import { type Kind, scaleOf } from '../lib/scales'
import { joinList } from '../state/tensorboardHash'
import { openView } from '../state/urlState'
import { SmallButton } from '../widgets/basics'
import textCss from '../widgets/text.module.css'

export function SimulateButton({ kind, name }: { kind: Kind; name: unknown }) {
  if (typeof name !== 'string' || name.startsWith('(')) return null
  return (
    <span className={textCss.row}>
      <SmallButton
        title="Simulate the steps with this work twice as fast"
        onClick={() => openView('whatif', { scale: joinList([scaleOf(kind, name, '0.5')]) })}
      >
        Simulate
      </SmallButton>
    </span>
  )
}
