// The chip of a highlighted table row.
import { ActionIcon, Button } from '@mantine/core'
import { shortenMiddle } from '../../lib/names'
import { clearHits, showTable } from '../../state/links'
import { decodeHit, hitTitle } from '../../state/rowHighlight'
import { useRoute } from '../../state/urlState'
import { CloseIcon } from '../../widgets/icons'
import toolbarCss from '../../parts/toolbar.module.css'
import textCss from '../../widgets/text.module.css'

export function HitChip() {
  const { hit, from_view: from } = useRoute()
  const where = decodeHit(hit)
  if (where.length === 0) return null
  return (
    <>
      <span data-testid="chip" className={toolbarCss.chip} title={where.join('\n')}>
        <span className={textCss.mute}>Highlighted:</span>{' '}
        <span className={textCss.mono}>{shortenMiddle(hitTitle(where), 36)}</span>
        <ActionIcon size="xs" variant="subtle" color="gray" aria-label="Clear the highlight" onClick={clearHits}>
          <CloseIcon />
        </ActionIcon>
      </span>
      {from && (
        <Button size="sm" variant="default" onClick={showTable}>
          Show in table
        </Button>
      )}
    </>
  )
}
