// Figures and stack of the selected block.
import { Button } from '@mantine/core'
import { useMemo } from 'react'
import type { Query } from '../../../api/client'
import type { Table, View } from '../../../api/payloads'
import { format } from '../../../lib/format'
import type { Row } from '../../../lib/tableRows'
import { payloadByName } from '../../../parts/payloadByName'
import { setPrefs, usePrefs } from '../../../state/prefs'
import { usePages } from '../../../state/tablePages'
import { setRoute, useRoute } from '../../../state/urlState'
import { Placeholder } from '../../../widgets/basics'
import { FigureList } from '../../../widgets/figures'
import { EditorSetting, StackFrames } from '../../../widgets/stack'
import textCss from '../../../widgets/text.module.css'
import css from './selectedBlock.module.css'

/** The block that was clicked, with its stack; it stays while one steps, as long as it lives. */
export function SelectedBlock({ block, base, view }: { block: string; base: Query; view: View }) {
  const { device = '', at = '' } = useRoute()
  const prefs = usePrefs()
  const asked = useMemo<Query>(() => ({ ...base, device, at }), [base, device, at])
  const one = useMemo(() => ({ sort: '', desc: true, search: '', where: [`block_row:${block}`] }), [block])
  const pages = usePages('segments', 'blocks_at', asked, one)
  const row = pages.table?.row_key ? pages.row(0) : undefined
  if (!pages.table) return <Placeholder height={120} />
  return (
    <div className={css.block} data-testid="chosen-block">
      <header>
        <b>Selected block</b>
        <span className={textCss.row}>
          <EditorSetting value={prefs.editor} onChange={(editor) => setPrefs({ editor })} />
          <Button size="compact-xs" variant="default" onClick={() => setRoute({ block: '' })}>
            Deselect
          </Button>
        </span>
      </header>
      {row ? <BlockDetail row={row} table={pages.table} /> : <p className={textCss.none}>{goneText(view)}</p>}
    </div>
  )
}

const goneText = (view: View) =>
  `Not allocated after event ${format(payloadByName(view, 'map', 'memory_map')?.event ?? null, 'count')}, or not among the 50,000 largest blocks.`

export function BlockDetail({ row, table }: { row: Row; table: Table }) {
  const prefs = usePrefs()
  const told = table.columns.filter(({ metric }) => !/^allocation_|^block_row$/.test(metric.key))
  return (
    <div className={css.detail}>
      <FigureList
        figures={told.flatMap(({ metric }) =>
          row[metric.key] === null ? [] : [{ metric, value: row[metric.key] ?? null, note: '' }],
        )}
        exact
      />
      {row.allocation_stack ? (
        <StackFrames stack={String(row.allocation_stack)} editor={prefs.editor} />
      ) : (
        <p className={textCss.none}>No stack recorded.</p>
      )}
    </div>
  )
}
