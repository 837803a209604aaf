// Everything known about the block that is kept, and its whole stack.
import { ActionIcon, Button } from '@mantine/core'
import type { Query } from '../../api/client'
import type { Catalog, Profile } from '../../api/payloads'
import { useView } from '../../state/data'
import { setPrefs, usePrefs } from '../../state/prefs'
import { setRoute } from '../../state/route'
import { Bones, Card } from '../../widgets/basics'
import { FigureList } from '../../widgets/figures'
import { CloseIcon } from '../../widgets/icons'
import { ProblemPanel } from '../../widgets/problem'
import { EditorSetting, StackFrames } from '../../widgets/stack'
import { AllocatedIn } from './allocatedIn'
import { pick } from './pick'
import textCss from '../../widgets/text.module.css'
import css from './eventPanel.module.css'
import frameCss from './frame.module.css'

const STACK = 'allocation_stack'

export function BlockPanel(props: {
  catalog: Catalog
  profile: Profile
  base: Query
  block: number
  onClose: () => void
}) {
  const { catalog, profile, base, block, onClose } = props
  const prefs = usePrefs()
  const resource = useView('active_memory', { ...base, block })
  const payload = resource.data && pick(resource.data, 'block', 'figures')
  const stack = payload?.figures.find(({ metric }) => metric.key === STACK)?.value
  const known =
    payload?.figures.filter(({ metric, value }) => metric.key !== STACK && value !== null && value !== '') ?? []
  const inTable = () =>
    setRoute({ group: 'held_blocks', where: `block_row:${block}`, row: '', search: '', sort: '', desc: '' }, true)
  return (
    <Card
      label="Block"
      title={`Block ${block.toLocaleString('en-US')}`}
      subtitle={payload?.subtitle}
      actions={
        <span className={textCss.row}>
          <Button size="compact-xs" variant="default" onClick={inTable}>
            Show in Blocks table
          </Button>
          <EditorSetting value={prefs.editor} onChange={(editor) => setPrefs({ editor })} />
          <ActionIcon size="sm" variant="subtle" color="gray" aria-label="Close block" onClick={onClose}>
            <CloseIcon />
          </ActionIcon>
        </span>
      }
    >
      {resource.problem && <ProblemPanel problem={resource.problem} />}
      {!payload && !resource.problem && <Bones height={120} />}
      {payload && <AllocatedIn catalog={catalog} profile={profile} block={payload} />}
      {payload && (
        <div data-testid="block" className={resource.busy ? `${css.grid} ${frameCss.stale}` : css.grid}>
          <FigureList figures={known} whole />
          <div>
            {typeof stack === 'string' && stack !== '' ? (
              <StackFrames stack={stack} editor={prefs.editor} />
            ) : (
              <p className={textCss.none}>The snapshot holds no stack of it.</p>
            )}
          </div>
        </div>
      )}
    </Card>
  )
}
