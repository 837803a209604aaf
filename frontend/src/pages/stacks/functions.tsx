// Functions: self and total time, callers, callees.
import { type ReactNode, useMemo, useState } from 'react'
import type { Query } from '../../api/client'
import type { Payload, Tree } from '../../api/payloads'
import { canOpen, parseFrame } from '../../lib/frames'
import { hasTimelineEvents, type Row } from '../../lib/tableRows'
import { EditorSetting, StackFrames } from '../../parts/stack'
import { type Group, TableSection } from '../../parts/tableSection'
import { firstOpen } from '../../parts/treePage'
import { useView } from '../../state/data'
import { functionState, showHits } from '../../state/links'
import { setRoute } from '../../state/urlState'
import { CopyButton, Placeholder, SmallButton } from '../../widgets/basics'
import { TimelineIcon } from '../../widgets/icons'
import { ProblemPanel } from '../../widgets/problem'
import { TreeTable } from '../../widgets/tree'
import { ALL_FRAMES } from './stacksMenus'
import textCss from '../../widgets/text.module.css'
import css from './functions.module.css'

const GROUPS: Group[] = [{ table: 'functions', label: 'Functions', nameStyle: 'frame' }]

/** Functions of a view. `hasEvents`: a function has events on a timeline. */
export function Functions(props: { view: string; base: Query; lead: ReactNode; hasEvents: boolean }) {
  const { view, base, lead, hasEvents } = props
  return (
    <TableSection
      view={view}
      base={base}
      groups={GROUPS}
      lead={lead}
      placeholder="Search functions, text or /regex/"
      detail={(row) => <Sandwich key={String(row.name)} of={view} row={row} base={base} hasEvents={hasEvents} />}
    />
  )
}

/** About a place of the flame graph: its source, and the way to its function. */
export function FramePanel({ name }: { name: string }) {
  return (
    <div className={css.frame}>
      <SourceLink name={name} />
      <SmallButton onClick={() => openFunction(name)}>Callers and callees</SmallButton>
    </div>
  )
}

/** A function alone in the table, and open. */
const openFunction = (name: string) =>
  setRoute({ ...functionState(name), zoom: '', sort: '', desc: '', cols: '' }, true)

function SourceLink({ name }: { name: string }) {
  if (!canOpen(parseFrame(name))) return null
  return (
    <span className={css.source} data-testid="source">
      <StackFrames stack={name} />
      <EditorSetting />
    </span>
  )
}

function Sandwich({ of, row, base, hasEvents }: { of: string; row: Row; base: Query; hasEvents: boolean }) {
  const name = String(row.name)
  const query = useMemo(() => ({ ...base, function: name }), [base, name])
  const view = useView(of, query)
  return (
    <div className={css.sandwich} data-testid="sandwich">
      <div className={css.head}>
        <span className={css.names}>
          <span className={textCss.mono}>{name}</span>
          <SourceLink name={name} />
        </span>
        <span className={textCss.row}>
          {hasEvents && hasTimelineEvents(row) && (
            <SmallButton
              leftSection={<TimelineIcon />}
              onClick={() => showHits([`name:${name}`, `kind:${row.node_kind}`], name)}
            >
              Show in timeline
            </SmallButton>
          )}
          <SmallButton
            onClick={() =>
              setRoute({ form: '', fold: ALL_FRAMES, row: '', search: name, sort: '', desc: '', cols: '' }, true)
            }
          >
            Find in flame graph
          </SmallButton>
          <CopyButton label="Copy name" text={() => name} />
        </span>
      </div>
      {view.problem && <ProblemPanel problem={view.problem} />}
      {!view.data && !view.problem && <Placeholder height={300} />}
      <Side payload={view.data?.payloads.callers} title="Callers" says="callers, from inner to outer" />
      <Side payload={view.data?.payloads.callees} title="Callees" says="called functions" />
    </div>
  )
}

function Side({ payload, title, says }: { payload?: Payload; title: string; says: string }) {
  if (payload?.kind !== 'tree') return null
  return <SideTree tree={payload} title={title} says={says} />
}

function SideTree({ tree, title, says }: { tree: Tree; title: string; says: string }) {
  const first = useMemo(() => firstOpen(tree, 10), [tree])
  const [open, setOpen] = useState(first)
  const [selected, setSelected] = useState(-1)
  const name = selected > 0 ? String(tree.rows[selected][tree.label_column]) : ''
  const cut = tree.total_nodes - tree.rows.length
  return (
    <section className={css.side} aria-label={title}>
      <h3>
        {title}
        <small>
          {tree.rows.length <= 1 ? 'none' : says}
          {cut > 0 && `; ${cut.toLocaleString('en-US')} smaller ones omitted`}
        </small>
        {name && <SmallButton onClick={() => openFunction(name)}>Open this function</SmallButton>}
      </h3>
      <div className={css.tree}>
        <TreeTable tree={tree} open={open} onOpen={setOpen} selected={selected} onSelect={setSelected} match={null} />
      </div>
    </section>
  )
}
