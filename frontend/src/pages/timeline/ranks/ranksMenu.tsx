// Selection, order and alignment of ranks; stored in the URL.

import { Button, Checkbox, NativeSelect, Popover, Radio, TextInput } from '@mantine/core'
import { type ReactNode, useEffect, useMemo, useState } from 'react'
import type { Query } from '../../../api/client'
import type { Catalog } from '../../../api/payloads'
import { isTrackId } from '../../../canvas/ranks/tracks'
import { rankOf } from '../../../lib/companions'
import { joinIds, splitIds } from '../../../lib/laneOrder'
import { type Address, readsNote, readsText, sameAddress } from '../../../lib/profiles'
import type { Way } from '../../../lib/rankAxis'
import {
  isTrace,
  ORDERS,
  type Order,
  orderOf,
  rankFilter,
  rankKey,
  rankName,
  ranksText,
  tracesOfRun,
} from '../../../lib/rankSelection'
import { setRunRead } from '../../../state/readRuns'
import { readRoute, setRoute, useRoute } from '../../../state/urlState'
import { SmallButton } from '../../../widgets/basics'
import { Choice } from '../../../widgets/choice'
import { type Clocks, useClocks, useLateRanks } from './useCollectives'
import toolbarCss from '../../../parts/toolbar.module.css'
import textCss from '../../../widgets/text.module.css'
import css from '../tracksMenu.module.css'
import ranksCss from './ranksMenu.module.css'

/** Rows of the list of ranks that are seen at once, and how high one is. */
const ROWS = 10
const ROW = 26
/** The costliest so many are one choice. */
const WORST = 7

/** Whether the menu is open: it stays so while the page goes from one rank to several. */
export interface Opened {
  opened: boolean
  onOpened: (opened: boolean) => void
}

interface MenuProps {
  catalog: Catalog
  open: Address
  ranks: readonly Address[]
  /** Clocks of the job; null = not requested yet. */
  clocks: Clocks | null
  way: Way
  /** Traces that corrected clocks read at most. */
  reads: number
  said: ReadonlyMap<string, string>
}

export function RanksMenu({ opened, onOpened, ...props }: MenuProps & Opened) {
  const { catalog, open, ranks } = props
  const beside = useMemo(() => tracesOfRun(catalog, open), [catalog, open])
  if (beside.length < 2 && ranks.length < 2) return null
  return (
    <Popover position="bottom-end" withinPortal trapFocus opened={opened} onChange={onOpened}>
      <Popover.Target>
        <Button size="sm" variant="default" onClick={() => onOpened(!opened)}>
          Ranks{ranks.length > 1 ? ` (${ranks.length})` : ''}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>{opened && <RankChoice {...props} beside={beside} />}</Popover.Dropdown>
    </Popover>
  )
}

function RankChoice(props: MenuProps & { beside: readonly Address[] }) {
  const { catalog, open, ranks, clocks, way, reads, said, beside } = props
  const [filter, setFilter] = useState('')
  const [run, setRun] = useState(open.run)
  const others = useMemo(() => tracesOf(catalog, run), [catalog, run])
  const listed = useMemo(() => {
    const wanted = rankFilter(filter)
    return (run === open.run ? beside : others).filter(({ worker }) => wanted(worker))
  }, [filter, run, open.run, beside, others])
  const shown = useMemo(() => new Set(ranks.map((one) => rankKey(open, one))), [open, ranks])
  const choose = (next: readonly Address[]) => setRoute({ ranks: ranksText(catalog, open, next) }, true)
  const runs = useMemo(
    () => catalog.runs.filter(({ name }) => tracesOf(catalog, name).length > 0).map(({ name }) => name),
    [catalog],
  )
  return (
    <div className={`${toolbarCss.menu} ${css.tracks} ${ranksCss.menu}`}>
      <TextInput
        size="xs"
        aria-label="Filter ranks"
        placeholder="Filter by name, or ranks: 8-15, 32"
        value={filter}
        onChange={(event) => setFilter(event.currentTarget.value)}
      />
      <Button.Group>
        <SmallButton onClick={() => choose([...ranks, ...listed])}>
          Show {filter ? 'these' : 'all'} {listed.length.toLocaleString('en-US')}
        </SmallButton>
        <SmallButton disabled={ranks.length < 2} onClick={() => choose([open])}>
          {open.worker} alone
        </SmallButton>
      </Button.Group>
      {ranks.length > 1 && (
        <Button.Group>
          <SmallButton onClick={() => turnAll('open')}>Open all</SmallButton>
          <SmallButton onClick={() => turnAll('closed')}>Close all</SmallButton>
        </Button.Group>
      )}
      <Sets open={open} beside={beside} clocks={clocks} reads={reads} onChoose={(next) => choose([open, ...next])} />
      {ranks.length > 1 && <AlignMenu way={way} reads={reads} />}
      {runs.length > 1 && <Choice label="Run" options={runs} value={run} onChange={setRun} />}
      <Rows count={listed.length}>
        {(at) => {
          const one = listed[at]
          const key = rankKey(open, one)
          const isOpen = sameAddress(one, open)
          const isShown = isOpen || shown.has(key)
          return (
            <div data-testid="rank" key={key} className={ranksCss.row}>
              <Checkbox
                size="xs"
                checked={isShown}
                disabled={isOpen}
                onChange={() => choose(isShown ? ranks.filter((other) => !sameAddress(one, other)) : [...ranks, one])}
                label={
                  <>
                    {rankName(key)} <span className={textCss.mute}>{said.get(isOpen ? '' : key) ?? ''}</span>
                  </>
                }
              />
            </div>
          )
        }}
      </Rows>
    </div>
  )
}

/** How the sections of all ranks are; their tracks stay as they are. */
function turnAll(sections: 'open' | 'closed'): void {
  const tracks = splitIds(readRoute().turned).filter(isTrackId)
  setRoute({ sections, turned: joinIds(tracks) })
}

/** Ranks that belong together, and those that the others wait for most. */
function Sets(props: {
  open: Address
  beside: readonly Address[]
  clocks: Clocks | null
  reads: number
  onChoose: (ranks: readonly Address[]) => void
}) {
  const { open, beside, clocks, reads, onChoose } = props
  const [asked, ask] = useState(false)
  const { window } = useRoute()
  const query = useMemo<Query>(() => ({ run: open.run, span: open.span, window: window ?? '' }), [open, window])
  const isAsked = clocks !== null || asked || reads === 0
  const own = useClocks(query, isAsked && clocks === null, false)
  const late = useLateRanks(query, isAsked)
  const found = clocks ?? own
  const isThere = own.nodes.size > 0
  useEffect(() => {
    if (isThere) setRunRead(query)
  }, [isThere, query])
  const sets = useMemo(() => setsOf(found, late, beside), [found, late, beside])
  if (beside.length < 2) return null
  if (!isAsked)
    return (
      <SmallButton title={readsText(reads)} onClick={() => ask(true)}>
        By node, group or cost{readsNote(reads)}
      </SmallButton>
    )
  if (sets.length === 0)
    return (
      <p className={textCss.mute}>
        {found.busy
          ? 'Reading the job…'
          : 'There is no straggler, and no node or group that contains only some of the ranks.'}
      </p>
    )
  return (
    <Choice
      label="Ranks of a node or group"
      options={[
        { value: '', label: 'Stragglers, node or group…' },
        ...sets.map(({ name }) => ({ value: name, label: name })),
      ]}
      value=""
      onChange={(next) => {
        const set = sets.find(({ name }) => name === next)
        if (set) onChoose(set.ranks)
      }}
    />
  )
}

/** A virtual list: a thousand ranks open as fast as ten. */
function Rows({ count, children }: { count: number; children: (at: number) => ReactNode }) {
  const [top, setTop] = useState(0)
  const first = Math.max(0, Math.floor(Math.min(top, (count - ROWS) * ROW) / ROW))
  const last = Math.min(count, first + ROWS + 1)
  return (
    <div
      className={ranksCss.rows}
      style={{ height: Math.min(count, ROWS) * ROW }}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
    >
      <div style={{ height: count * ROW - first * ROW, marginTop: first * ROW }}>
        {Array.from({ length: last - first }, (_, i) => children(first + i))}
      </div>
    </div>
  )
}

function AlignMenu({ way, reads }: { way: Way; reads: number }) {
  const { ranks_by } = useRoute()
  const order = orderOf(ranks_by)
  return (
    <>
      <NativeSelect
        size="xs"
        label="Order of the ranks"
        data={Object.entries(ORDERS).map(([value, label]) => ({ value, label }))}
        value={order}
        onChange={(event) => setRoute({ ranks_by: event.currentTarget.value as Order })}
      />
      <Radio.Group size="xs" label="Rank alignment" value={way} onChange={(next) => setRoute({ align: next })}>
        <div className={toolbarCss.menu}>
          <Radio size="xs" value="clocks" label={`By corrected clocks${readsNote(reads)}`} title={readsText(reads)} />
          <Radio size="xs" value="wall" label="By wall clocks, as recorded" />
          <Radio size="xs" value="start" label="By step: the selected or first common one" />
        </div>
      </Radio.Group>
    </>
  )
}

const tracesOf = (catalog: Catalog, run: string): Address[] =>
  (catalog.runs.find(({ name }) => name === run)?.workers ?? []).flatMap((worker) =>
    worker.spans
      .filter(isTrace)
      .slice(0, 1)
      .map(({ id }) => ({ run, worker: worker.name, span: id })),
  )

/** The costliest, and nodes and process groups that leave a choice: not all ranks, and not one. */
function setsOf(
  { nodes, groups }: Clocks,
  late: readonly string[],
  beside: readonly Address[],
): { name: string; ranks: Address[] }[] {
  const members = (node: string) => beside.filter(({ worker }) => nodes.get(worker) === node)
  const names = [...new Set(nodes.values())].filter((node) => node !== '')
  const found = [
    ...names.map((node) => ({ name: `node ${node}`, ranks: members(node) })),
    ...[...groups].map(([name, ranks]) => ({
      name: `group ${name}`,
      ranks: beside.filter(({ worker }) => ranks.has(rankOf(worker) ?? -1)),
    })),
  ].filter(({ ranks }) => ranks.length > 1 && ranks.length < beside.length)
  const worst = late.slice(0, WORST).flatMap((worker) => beside.filter((one) => one.worker === worker))
  const name = worst.length === 1 ? 'the slowest rank' : `the ${worst.length} slowest ranks`
  return worst.length > 0 ? [{ name, ranks: worst }, ...found] : found
}
