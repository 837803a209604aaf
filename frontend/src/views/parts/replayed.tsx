// How much device time graphs replayed, and what tells which operators or modules stand behind it.
import type { View } from '../../api/payloads'
import { Value } from '../../widgets/basics'
import { pick } from './pick'
import textCss from '../../widgets/text.module.css'

/** One line; nothing where no replay is known to stand for anything. */
export function Replayed({ view, noun }: { view: View; noun: string }) {
  const bar = pick(view, 'replayed', 'breakdown')
  if (!bar) return null
  return (
    <p className={textCss.none} data-testid="replayed">
      <Value value={bar.total} unit={bar.unit} /> of device time was replayed from captured graphs. {noun} behind it:{' '}
      {bar.parts.map((part, i) => (
        <span key={part.metric.key} title={part.metric.definition}>
          {i > 0 && ', '}
          {part.metric.title.toLowerCase()} <Value value={part.value} unit={bar.unit} />
        </span>
      ))}
      .
    </p>
  )
}
