// Replayed device time, and how it is attributed.

import type { View } from '../api/payloads'
import { deviceWord, inSentence } from '../lib/deviceWords'
import { openView } from '../state/urlState'
import { LinkButton, Value } from '../widgets/basics'
import { payloadByName } from './payloadByName'
import textCss from '../widgets/text.module.css'

function UnattributedReplays({ view }: { view: View }) {
  const without = payloadByName(view, 'no_operator', 'breakdown')
  const replays = without?.parts.find(({ metric }) => metric.key === 'graph')
  if (!without || !replays || 2 * replays.value < without.total) return null
  return (
    <p className={textCss.none} data-testid="replayed">
      <Value value={replays.value} unit={without.unit} /> of {deviceWord()} time is listed as (no operator): it was
      replayed from graphs without a known capture.{' '}
      <LinkButton onClick={() => openView('graphs')}>Show graphs</LinkButton>
    </p>
  )
}

/** One line; nothing without replays. */
export function GraphReplays({ view, noun }: { view: View; noun: string }) {
  const bar = payloadByName(view, 'replayed', 'breakdown')
  if (!bar) return <UnattributedReplays view={view} />
  return (
    <p className={textCss.none} data-testid="replayed">
      <Value value={bar.total} unit={bar.unit} /> of {deviceWord()} time was replayed from captured graphs. Source of
      its {noun.toLowerCase()}:{' '}
      {bar.parts.map((part, i) => (
        <span key={part.metric.key} title={part.metric.definition}>
          {i > 0 && ', '}
          {inSentence(part.metric.title)} <Value value={part.value} unit={bar.unit} />
        </span>
      ))}
      .
    </p>
  )
}
