// The panel beside the history: colour key and moment.

import { useEffect, useState } from 'react'
import type { View } from '../../../api/payloads'
import type { ColorKeyEntry } from '../../../canvas/blocks/colors'
import { envelopeColor } from '../../../canvas/blocks/colors'
import type { BlocksEngine } from '../../../canvas/blocks/engine'
import type { HistoryMarks } from '../../../canvas/blocks/scene'
import { shortFrame } from '../../../lib/frames'
import { payloadByName } from '../../../parts/payloadByName'
import { setRoute, useRoute } from '../../../state/urlState'
import { SmallButton, Swatch, useTheme } from '../../../widgets/basics'
import { Choice } from '../../../widgets/choice'
import { FigureList } from '../../../widgets/figures'
import breakdownCss from '../../../widgets/breakdown.module.css'
import textCss from '../../../widgets/text.module.css'
import css from './historyCard.module.css'

const KEY = 12
const DETAILS = [
  { value: '', label: 'Fewest blocks' },
  { value: '13', label: 'More blocks' },
  { value: '15', label: 'Many more blocks' },
  { value: 'all', label: 'All blocks' },
]

export function MomentFigures({ view }: { view: View }) {
  const moment = payloadByName(view, 'moment', 'figures')
  return (
    moment && (
      <section aria-label={moment.title}>
        <h3>
          {moment.title}
          <SmallButton onClick={() => setRoute({ at: '', row: '' }, true)}>Back to the peak</SmallButton>
        </h3>
        <FigureList figures={moment.figures.filter(({ value }) => value !== null)} />
      </section>
    )
  )
}

/** A place is shortened; a category loses its underscores. */
const wordsOf = (label: string) => (/^[a-z_]+$/.test(label) ? label.replaceAll('_', ' ') : shortFrame(label, 44))

export function BlocksKey(props: {
  engine: React.RefObject<BlocksEngine | null>
  /** Changes with the visible part; null while loading. */
  asked: string | null
  marks: HistoryMarks
  onPick?: (label: string) => void
  hasEnvelopes: boolean
}) {
  const { engine, asked, marks, onPick, hasEnvelopes } = props
  const { detail = '' } = useRoute()
  const theme = useTheme()
  const [legend, setLegend] = useState<readonly ColorKeyEntry[]>([])
  // biome-ignore lint/correctness/useExhaustiveDependencies: asked again when the picture is another one
  useEffect(() => {
    if (asked !== null) setLegend(engine.current?.legend(KEY) ?? [])
  }, [asked, theme])
  return (
    <>
      <Choice
        className={css.detail}
        label="Number of blocks drawn"
        value={DETAILS.some(({ value }) => value === detail) ? detail : ''}
        onChange={(next) => setRoute({ detail: next })}
        options={DETAILS}
      />
      <ul className={`${breakdownCss.key} ${breakdownCss.stacked}`} data-testid="bands-key">
        {legend.map(({ label, color, isNothing }) => (
          <li key={label} title={label}>
            <Swatch color={color} />
            {onPick && !isNothing ? (
              <button type="button" className={css.pick} onClick={() => onPick(label)}>
                {wordsOf(label)}
              </button>
            ) : (
              <span className={css.name}>{wordsOf(label)}</span>
            )}
          </li>
        ))}
        <li>
          <Swatch color={theme.idle} />
          smaller blocks, summed
        </li>
        {hasEnvelopes && (
          <li>
            <Swatch color={envelopeColor(theme)} />
            peak of private pools
          </li>
        )}
        {marks.ooms.length > 0 && (
          <li>
            <Swatch color={theme.highEdge} />
            out of memory
          </li>
        )}
        <li className={textCss.mute}>
          Wheel: zoom · drag: move · click: select a block · Shift-click: memory at that time
        </li>
      </ul>
    </>
  )
}
