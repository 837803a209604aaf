// Previous and next search hit.
import { ActionIcon } from '@mantine/core'
import { DownIcon, UpIcon } from '../../widgets/icons'
import { count } from './footer'
import type { TimelineOverlays } from './overlays'
import textCss from '../../widgets/text.module.css'
import css from './hitSteps.module.css'

/** Pixels that it takes in the search field. */
export const HIT_STEPS_WIDTH = 190

export function HitSteps(props: {
  found: NonNullable<TimelineOverlays['searchHits']>
  go: TimelineOverlays['go']
  /** The rank whose hits are stepped through. */
  of?: string
}) {
  const { found, go, of } = props
  const { total, position } = found
  const text = position === null ? `${count(total)} found` : `${count(position + 1)} of ${count(total)}`
  return (
    <span data-testid="hits" className={css.hits} role="status">
      <span className={textCss.num}>{found.problem ? '' : of ? `${of}: ${text}` : text}</span>
      <ActionIcon variant="subtle" size="sm" aria-label="Previous hit" disabled={!total} onClick={() => go(-1)}>
        <UpIcon />
      </ActionIcon>
      <ActionIcon variant="subtle" size="sm" aria-label="Next hit" disabled={!total} onClick={() => go(1)}>
        <DownIcon />
      </ActionIcon>
    </span>
  )
}
