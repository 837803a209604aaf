// Details of the selected block, with its stack.
import { ActionIcon, Button } from '@mantine/core'
import type { ReactNode } from 'react'
import type { Query } from '../../../api/client'
import type { Figures } from '../../../api/payloads'
import { payloadByName } from '../../../parts/payloadByName'
import { useView } from '../../../state/data'
import { setPrefs, usePrefs } from '../../../state/prefs'
import { Placeholder } from '../../../widgets/basics'
import { FigureList } from '../../../widgets/figures'
import { CloseIcon } from '../../../widgets/icons'
import { ProblemPanel } from '../../../widgets/problem'
import { EditorSetting, StackFrames } from '../../../widgets/stack'
import frameCss from '../../../parts/viewFrame.module.css'
import textCss from '../../../widgets/text.module.css'
import css from './blockPanel.module.css'

const STACK = 'allocation_stack'
/** Figures above the stack. */
const FIRST = ['block_size_bytes', 'memory_category', 'allocation_line', 'life_ns']

export function BlockPanel(props: {
  base: Query
  kind: 'block' | 'segment'
  row: number
  onBlocks: (where: string) => void
  onClose: () => void
  /** Additional facts about a block. */
  blockNote: (block: Figures) => ReactNode
}) {
  const { base, kind, row, onBlocks, onClose, blockNote } = props
  const title = kind === 'block' ? 'Block' : 'Segment'
  const prefs = usePrefs()
  const resource = useView('active_memory', { ...base, [kind]: row })
  const payload = resource.data && payloadByName(resource.data, kind, 'figures')
  const stack = payload?.figures.find(({ metric }) => metric.key === STACK)?.value
  const known =
    payload?.figures.filter(({ metric, value }) => metric.key !== STACK && value !== null && value !== '') ?? []
  return (
    <section aria-label={title}>
      <div className={css.head}>
        <b>
          {title} {row.toLocaleString('en-US')}
        </b>
        <span className={textCss.row}>
          {kind === 'block' && (
            <Button size="compact-xs" variant="default" onClick={() => onBlocks(`block_row:${row}`)}>
              Show in table
            </Button>
          )}
          <EditorSetting value={prefs.editor} onChange={(editor) => setPrefs({ editor })} />
          <ActionIcon size="sm" variant="subtle" color="gray" aria-label={`Close ${kind}`} onClick={onClose}>
            <CloseIcon />
          </ActionIcon>
        </span>
      </div>
      {resource.problem && <ProblemPanel problem={resource.problem} />}
      {!payload && !resource.problem && <Placeholder height={120} />}
      {payload && (
        <div data-testid="block" className={resource.busy ? frameCss.stale : undefined}>
          <FigureList figures={known.filter(({ metric }) => FIRST.includes(metric.key))} exact />
          {typeof stack === 'string' && stack !== '' ? (
            <div className={css.stack}>
              <StackFrames stack={stack} editor={prefs.editor} />
            </div>
          ) : (
            <p className={textCss.none}>The snapshot has no stack for this block.</p>
          )}
          {kind === 'block' && blockNote(payload)}
          <FigureList figures={known.filter(({ metric }) => !FIRST.includes(metric.key))} exact />
        </div>
      )}
    </section>
  )
}
