// Which ranks stand on the timeline, and how their clocks are laid beside each other. It stands in the URL.
import { Button, Checkbox, NativeSelect, Popover, Radio, TextInput } from '@mantine/core'
import { useMemo, useState } from 'react'
import type { Catalog } from '../../api/payloads'
import { rankOf } from '../../lib/beside'
import { type Address, sameAddress } from '../../lib/profiles'
import { besideOf, rankKey, rankName, ranksText } from '../../lib/rankChoice'
import { setRoute, useRoute } from '../../state/route'
import type { Clocks } from './useMeetings'
import textCss from '../../widgets/text.module.css'
import toolbarCss from './toolbar.module.css'
import css from './tracksMenu.module.css'

/** More ranks than these are not listed: the filter finds them. */
const LISTED = 200

export function RanksMenu(props: {
  catalog: Catalog
  open: Address
  ranks: readonly Address[]
  clocks: Clocks | null
  /** What a person reads of a rank that is shown. */
  said: ReadonlyMap<string, string>
}) {
  const { catalog, open, ranks, clocks, said } = props
  const [filter, setFilter] = useState('')
  const [run, setRun] = useState(open.run)
  const beside = useMemo(() => besideOf(catalog, open), [catalog, open])
  const others = useMemo(() => tracesOf(catalog, run), [catalog, run])
  if (beside.length < 2 && ranks.length < 2) return null
  const choose = (next: readonly Address[]) => setRoute({ ranks: ranksText(catalog, open, next) }, true)
  const listed = (run === open.run ? beside : others).filter(({ worker }) =>
    worker.toLowerCase().includes(filter.toLowerCase()),
  )
  const isShown = (one: Address) => ranks.some((other) => sameAddress(one, other))
  const sets = clocks ? setsOf(clocks, beside) : []
  const runs = catalog.runs.filter(({ name }) => tracesOf(catalog, name).length > 0).map(({ name }) => name)
  return (
    <Popover position="bottom-end" withinPortal trapFocus>
      <Popover.Target>
        <Button size="sm" variant="default">
          Ranks{ranks.length > 1 ? ` (${ranks.length})` : ''}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <div className={`${toolbarCss.menu} ${css.tracks}`}>
          <TextInput
            size="xs"
            aria-label="Filter ranks"
            placeholder="Filter ranks by name"
            value={filter}
            onChange={(event) => setFilter(event.currentTarget.value)}
          />
          <Button.Group>
            <Button
              size="compact-xs"
              variant="default"
              onClick={() => choose([...ranks, ...listed.filter((one) => !isShown(one))])}
            >
              Show {filter ? 'these' : 'all'} {listed.length}
            </Button>
            <Button size="compact-xs" variant="default" disabled={ranks.length < 2} onClick={() => choose([open])}>
              Only {open.worker}
            </Button>
          </Button.Group>
          {sets.length > 0 && (
            <NativeSelect
              size="xs"
              aria-label="Ranks of a node or group"
              data={[
                { value: '', label: 'Of a node or group…' },
                ...sets.map(({ name }) => ({ value: name, label: name })),
              ]}
              value=""
              onChange={(event) => {
                const set = sets.find(({ name }) => name === event.currentTarget.value)
                if (set) choose([open, ...set.ranks])
              }}
            />
          )}
          {ranks.length > 1 && <AlignMenu />}
          {runs.length > 1 && (
            <NativeSelect
              size="xs"
              aria-label="Run of the ranks"
              data={runs}
              value={run}
              onChange={(event) => setRun(event.currentTarget.value)}
            />
          )}
          {listed.slice(0, LISTED).map((one) => {
            const key = rankKey(open, one)
            const isOpen = sameAddress(one, open)
            const more = said.get(isOpen ? '' : key) ?? ''
            return (
              <div data-testid="rank" key={key} className={css.row}>
                <Checkbox
                  size="xs"
                  checked={isShown(one)}
                  disabled={isOpen}
                  onChange={() =>
                    choose(isShown(one) ? ranks.filter((other) => !sameAddress(one, other)) : [...ranks, one])
                  }
                  label={
                    <>
                      {rankName(key)} <span className={textCss.mute}>{more}</span>
                    </>
                  }
                />
              </div>
            )
          })}
          {listed.length > LISTED && (
            <p className={textCss.mute}>{listed.length - LISTED} more: narrow the list with the filter.</p>
          )}
        </div>
      </Popover.Dropdown>
    </Popover>
  )
}

function AlignMenu() {
  const { align = '' } = useRoute()
  return (
    <Radio.Group
      size="xs"
      label="Times of ranks"
      value={align === '' ? 'clocks' : align}
      onChange={(next) => setRoute({ align: next })}
    >
      <div className={toolbarCss.menu}>
        <Radio size="xs" value="clocks" label="By corrected clocks" />
        <Radio size="xs" value="wall" label="By wall clocks, as recorded" />
        <Radio size="xs" value="start" label="From the first step of each" />
      </div>
    </Radio.Group>
  )
}

const tracesOf = (catalog: Catalog, run: string): Address[] =>
  (catalog.runs.find(({ name }) => name === run)?.workers ?? []).flatMap((worker) =>
    worker.spans
      .filter(({ model }) => model === 'trace')
      .slice(0, 1)
      .map(({ id }) => ({ run, worker: worker.name, span: id })),
  )

/** Nodes and process groups that leave a choice: not all ranks, and not one. */
function setsOf({ nodes, groups }: Clocks, beside: readonly Address[]): { name: string; ranks: Address[] }[] {
  const names = [...new Set(nodes.values())].filter((node) => node !== '')
  const found = [
    ...names.map((node) => ({
      name: `node ${node}`,
      ranks: beside.filter(({ worker }) => nodes.get(worker) === node),
    })),
    ...[...groups].map(([name, members]) => ({
      name: `group ${name}`,
      ranks: beside.filter(({ worker }) => members.has(rankOf(worker) ?? -1)),
    })),
  ]
  return found.filter(({ ranks }) => ranks.length > 1 && ranks.length < beside.length)
}
