// Several ranks on one timeline, linked by collectives. In one file: the parts share one engine and its scene.

import { Button, Checkbox, Radio } from '@mantine/core'
import { useCallback, useEffect, useMemo, useRef, useState } from 'react'
import type { Query } from '../../../api/client'
import type { Catalog, Profile } from '../../../api/payloads'
import type { RanksEngine } from '../../../canvas/ranks/engine'
import { defaultOpenCount, openSections, toggleSection } from '../../../canvas/ranks/layout'
import type { RankSection } from '../../../canvas/ranks/scene'
import { type Detail, isTrackId, type Placing, tracksOf } from '../../../canvas/ranks/tracks'
import { Budget } from '../../../canvas/tileCache'
import type { TimelineModel } from '../../../canvas/timeline/model'
import type { Range } from '../../../canvas/viewport'
import { joinIds, splitIds } from '../../../lib/laneOrder'
import { type Address, readsNote, readsText, sameAddress, unreadCount } from '../../../lib/profiles'
import { fromAxis, type Placement, SAME, toAxis, type Way } from '../../../lib/rankAxis'
import { rankOverview } from '../../../lib/rankOverview'
import { inOrder, orderOf, rankKey, rankName, ranksText, tracesOfRun } from '../../../lib/rankSelection'
import type { PeerCall } from '../../../parts/collectivePeers'
import { MenuButton } from '../../../parts/menuButton'
import { setRunRead, useRunRead } from '../../../state/readRuns'
import type { Values } from '../../../state/tensorboardHash'
import { readRoute, setRoute, useRoute } from '../../../state/urlState'
import { Placeholder } from '../../../widgets/basics'
import { Choice } from '../../../widgets/choice'
import { ProblemPanel } from '../../../widgets/problem'
import { RanksCanvas } from '../../../widgets/ranksCanvas'
import { ZoomHint } from '../canvasHint'
import { ColorsChoice, useColors, useHidden, WheelChoice } from '../displayMenu'
import { EventPanel } from '../eventPanel'
import { TimelineEventText } from '../eventText'
import { TimelineFrame, useTimelineState } from '../frame'
import { useHits, useSelectedEvent } from '../overlays'
import { useKernelClasses } from '../useKernelClasses'
import { firstView } from '../useTimeline'
import {
  type Compared,
  type RankName,
  renameRank,
  sectionNotes,
  sectionOf,
  usePlacements,
  visibleStretches,
} from './rankSections'
import { isSettled, type Rank, RankSource } from './rankSource'
import { RanksFooter } from './ranksFooter'
import { type Opened, RanksMenu } from './ranksMenu'
import { useClocks, useCollectives, useLateRanks } from './useCollectives'
import toolbarCss from '../../../parts/toolbar.module.css'
import textCss from '../../../widgets/text.module.css'
import ranksMenuCss from './ranksMenu.module.css'

/** Bytes of tiles of all ranks together, and requests for them under way at once. */
const BYTES = 192e6
const REQUESTS = 4
const READ = 4
/** Traces read for clocks without asking; more only if half of the ranks are shown. */
const FEW = 16
const NONE: ReadonlySet<string> = new Set()
const NOTHING: ReadonlyMap<string, Range> = new Map()

export function RanksTimeline(props: {
  catalog: Catalog
  opened: Profile
  open: Address
  ranks: readonly Address[]
  base: Query
  menu: Opened
}) {
  const { catalog, open, ranks, base } = props
  const baseline = useCompared(ranks)
  const engine = useRef<RanksEngine>(null)
  const [known, setKnown] = useState<ReadonlyMap<string, Rank>>(new Map())
  const [sight, setSight] = useState<readonly string[]>([])
  const [budget] = useState(() => new Budget(BYTES, REQUESTS))
  const named = useMemo(
    () => ranks.map((address) => ({ key: sameAddress(address, open) ? '' : rankKey(open, address), address })),
    [ranks, open],
  )
  const onRank = useCallback((id: string, rank: Rank | null) => {
    setKnown((old) => {
      const next = new Map(old)
      if (rank) next.set(id, rank)
      else next.delete(id)
      return next
    })
  }, [])
  const onTiles = useCallback(() => engine.current?.redraw(), [])
  // The open rank first, as it sets the axis; then visible ones, a few at a time.
  const waiting = named.filter(({ key }) => !isSettled(known.get(key)) && (key === '' || sight.includes(key)))
  const now = new Set(waiting.slice(0, READ).map(({ key }) => key))
  const sources = named.filter(({ key }) => now.has(key) || isSettled(known.get(key)))
  const model = known.get('')?.model
  const problem = known.get('')?.problem
  return (
    <>
      {sources.map(({ key, address }) => (
        <RankSource
          key={key}
          id={key}
          address={address}
          window={windowOf(address, open, base, baseline)}
          catalog={catalog}
          budget={budget}
          onTiles={onTiles}
          onRank={onRank}
        />
      ))}
      {model ? (
        <Page
          {...props}
          baseline={baseline}
          named={named}
          known={known}
          model={model}
          engine={engine}
          sight={sight}
          onSight={setSight}
        />
      ) : problem ? (
        <ProblemPanel problem={problem} />
      ) : (
        <Placeholder height="calc(100vh - 90px)" />
      )}
    </>
  )
}

/** The baseline of the comparison that led here, if it has a section. */
function useCompared(ranks: readonly Address[]): Compared | null {
  const { base_run: run, base_worker: worker, base_span: span, base_window, base_steps } = useRoute()
  return useMemo(() => {
    const address = ranks.slice(1).find((one) => one.run === run && one.worker === worker && one.span === span)
    return address ? { address, window: base_window ?? '', steps: base_steps ?? '' } : null
  }, [ranks, run, worker, span, base_window, base_steps])
}

function windowOf(address: Address, open: Address, base: Query, baseline: Compared | null): string {
  if (baseline && sameAddress(address, baseline.address)) return baseline.window
  return address.run === open.run ? String(base.window ?? '') : ''
}

function Page(props: {
  catalog: Catalog
  baseline: Compared | null
  opened: Profile
  open: Address
  ranks: readonly Address[]
  base: Query
  menu: Opened
  named: readonly RankName[]
  known: ReadonlyMap<string, Rank>
  model: TimelineModel
  engine: React.RefObject<RanksEngine | null>
  sight: readonly string[]
  onSight: (keys: readonly string[]) => void
}) {
  const { catalog, baseline, opened, open, ranks, base, menu, known, model, engine, sight, onSight } = props
  const route = useRoute()
  const detail = useDetail()
  const linked = useLinks()
  const run = useMemo<Query>(() => ({ run: open.run, span: open.span, window: base.window }), [open, base.window])
  const workers = useMemo(() => tracesOfRun(catalog, open).length, [catalog, open])
  const own = props.named.filter(({ address }) => address.run === open.run && address.span === open.span).length
  const isRead = useRunRead(run)
  // Corrected clocks and links need data of every worker.
  const reads = useMemo(() => (isRead ? 0 : unreadCount(catalog, open)), [isRead, catalog, open])
  const isFree = own > 1 && (workers <= FEW || own * 2 >= workers || reads === 0 || route.align === 'clocks')
  const wish: Way = route.align === 'start' ? 'start' : route.align === 'wall' || !isFree ? 'wall' : 'clocks'
  const clocks = useClocks(run, isFree, wish === 'clocks')
  const isThere = clocks.nodes.size > 0
  useEffect(() => {
    if (isThere) setRunRead(run)
  }, [isThere, run])
  const order = orderOf(route.ranks_by)
  const late = useLateRanks(run, isFree && order === 'late')
  const named = useMemo(() => inOrder(props.named, order, clocks.nodes, late), [props.named, order, clocks.nodes, late])
  const placements = usePlacements(named, known, clocks.of, open, wish, String(base.steps ?? ''), baseline)
  const sections = useMemo(
    () => named.map((one) => sectionOf(one, open, known.get(one.key), placements.get(one.key), clocks.nodes, baseline)),
    [named, open, known, placements, clocks.nodes, baseline],
  )
  const placing = usePlacing(sections, props.named, detail, model)
  const first = useMemo(() => firstView(opened, String(base.steps ?? ''), model), [opened, base.steps, model])
  const state = useTimelineState(first, placing.whole, opened)
  const { view, search, steps, bookmarks, event, isText } = state
  const within = useMemo(
    () => (linked ? visibleStretches(named, sections, sight, open, view) : NOTHING),
    [linked, named, sections, sight, open, view],
  )
  const linkedCalls = useCollectives(run, within, isFree && linked)
  const collectives = useMemo(
    // The open rank has no key among the sections.
    () => linkedCalls.collectives.map((collective) => renameRank(collective, rankKey(open, open))),
    [linkedCalls.collectives, open],
  )
  const at = route.at ?? ''
  const chosen = named.find(({ key }) => key === at)
  const query = useMemo<Query>(
    () => ({ ...(chosen?.address ?? open), window: windowOf(chosen?.address ?? open, open, base, baseline) }),
    [chosen?.address, open, base, baseline],
  )
  // Until loaded, the worker is known but not its clock.
  const profile = useMemo(
    () => known.get(at)?.profile ?? (chosen ? { ...opened, ...chosen.address, clock: null } : opened),
    [known, at, opened, chosen],
  )
  const { spot, arrows } = useSelectedEvent(query, event)
  const onAxis = placements.get(at) ?? SAME
  const name = at === '' ? open.worker : rankName(at)
  const { found, go, highlight } = useRankHits(query, view, onAxis, event, engine)
  const selected = useMemo(
    () => (spot && event !== null ? { rank: at, event, spot, arrows } : null),
    [spot, arrows, at, event],
  )
  const hasDevices = model.head.busy_is_device
  const wished = useColors('kind')
  const colors = (wished === 'class' || wished === 'kernel') && !hasDevices ? 'kind' : wished
  const hiding = useHidden()
  const opens = useMemo<Query>(() => ({ ...open, window: base.window }), [open, base.window])
  const { classes } = useKernelClasses(opens, colors === 'class')
  const showEvent = (next: number, to: Range) => {
    engine.current?.reveal({ start: toAxis(onAxis, to.start), end: toAxis(onAxis, to.end) })
    setRoute({ event: String(next) })
  }
  const goTo = usePartner(open, at, ranks, catalog, query, placements, known, engine)
  return (
    <TimelineFrame
      state={state}
      engine={engine}
      label="Timeline of ranks"
      found={found}
      go={go}
      rank={name}
      all="Full range"
      menus={
        <>
          <RanksDisplayMenu hasModules={model.head.has_modules} hasDevices={hasDevices} />
          <RanksMenu
            catalog={catalog}
            open={open}
            ranks={ranks}
            clocks={isFree ? clocks : null}
            way={wish}
            reads={reads}
            said={sectionNotes(sections)}
            {...menu}
          />
        </>
      }
      tools={
        <>
          {isText && (
            <Choice
              size="sm"
              label="Rank as text"
              options={sections.map(({ key, title }) => ({ value: key, label: title }))}
              value={chosen ? at : ''}
              onChange={(at) => setRoute({ event: '', at })}
            />
          )}
          {own > 1 && !isFree && (
            <Button size="sm" variant="default" title={readsText(reads)} onClick={() => setRoute({ align: 'clocks' })}>
              Align and link{readsNote(reads)}
            </Button>
          )}
        </>
      }
      selected={null}
      base={opens}
      hitBase={query}
      onHit={showEvent}
      eventPanel={
        event !== null && (
          <EventPanel
            event={event}
            base={query}
            catalog={catalog}
            profile={profile}
            isElsewhere={at !== ''}
            onGo={showEvent}
            onClose={() => setRoute({ event: '', at: '' })}
            onPartner={goTo}
          />
        )
      }
    >
      <ul className={textCss.sr} aria-label="Ranks">
        {sections.map(({ key, title, subtitle, note: said, placement: { way, shift, scale } }) => (
          <li key={key} data-testid="section" data-way={way} data-shift={shift} data-scale={scale}>
            {[title, subtitle, said].filter(Boolean).join(', ')}
          </li>
        ))}
      </ul>
      {isText ? (
        <TimelineEventText
          profile={query}
          view={ownRange(onAxis, view)}
          search={search}
          onOpen={(next) => setRoute({ event: next, at })}
        />
      ) : (
        <RanksCanvas
          {...state.canvas}
          matches={state.canvas.matches ?? highlight.matches}
          placing={placing}
          collectives={collectives}
          colors={colors}
          classes={classes}
          hidden={hiding.hidden}
          selected={selected}
          steps={steps}
          bookmarks={bookmarks}
          onPick={(item) => setRoute({ event: item ? String(item.event) : '', at: item?.rank ?? '' })}
          onPickMore={(item) => setRoute({ event: String(item.event), at: item.rank ?? '' })}
          onFollow={(next) => setRoute({ event: String(next) })}
          onToggle={(id) => toggle(id, placing.open)}
          onSight={onSight}
          engine={engine}
        />
      )}
      <RanksFooter
        view={view}
        axis={open.worker}
        clocks={isFree ? clocks : null}
        wish={wish}
        sections={sections}
        linkedCalls={linked && isFree ? { ...linkedCalls, collectives } : null}
        detail={detail}
        hiding={hiding}
        colors={colors}
        classes={classes}
        hint={state.isZoomHint && <ZoomHint />}
      />
    </TimelineFrame>
  )
}

/** The window in the time of a rank: the server takes whole nanoseconds. */
const ownRange = (placement: Placement, { start, end }: Range): Range => ({
  start: Math.round(fromAxis(placement, start)),
  end: Math.round(fromAxis(placement, end)),
})

/** The hits of the chosen rank, and the way from one to the next on the axis. */
function useRankHits(
  query: Query,
  view: Range,
  placed: Placement,
  event: number | null,
  engine: React.RefObject<RanksEngine | null>,
) {
  const own = useMemo(() => ownRange(placed, view), [placed, view])
  const within = useMemo<Query>(() => ({ ...query, start_ns: own.start, end_ns: own.end }), [query, own])
  const reveal = useCallback(
    ({ start, end }: Range) => engine.current?.reveal({ start: toAxis(placed, start), end: toAxis(placed, end) }),
    [placed, engine],
  )
  return useHits(query, within, own, event, reveal)
}

/** Opens the same collective on another rank, adding its section if needed. */
function usePartner(
  open: Address,
  at: string,
  ranks: readonly Address[],
  catalog: Catalog,
  chosen: Query,
  placements: ReadonlyMap<string, Placement>,
  known: ReadonlyMap<string, Rank>,
  engine: React.RefObject<RanksEngine | null>,
): (partner: PeerCall) => void {
  const [awaited, setAwaited] = useState<(Range & { key: string }) | null>(null)
  // Its place on the axis is known once its trace is loaded.
  const placed = awaited?.key === at && known.get(at)?.model ? placements.get(at) : undefined
  useEffect(() => {
    if (!awaited) return
    // Do not interrupt a user who moved elsewhere.
    if (awaited.key !== at) setAwaited(null)
    if (!placed) return
    engine.current?.reveal({ start: toAxis(placed, awaited.start), end: toAxis(placed, awaited.end) })
    setAwaited(null)
  }, [awaited, at, placed, engine])
  return ({ worker, event, start, end }) => {
    const address = { run: String(chosen.run), worker, span: String(chosen.span) }
    const key = sameAddress(address, open) ? '' : rankKey(open, address)
    const isShown = ranks.some((one) => sameAddress(one, address))
    const more: Values = isShown ? {} : { ranks: ranksText(catalog, open, [...ranks, address]) }
    setRoute({ ...more, event: event === null ? '' : String(event), at: key }, true)
    setAwaited({ key, start, end })
  }
}

/** Turns a track over, or opens or closes a section: `turnAll` in the menu does it to all sections. */
function toggle(id: string, open: ReadonlySet<string>): void {
  const turned = new Set(splitIds(readRoute().turned))
  if (isTrackId(id)) {
    if (!turned.delete(id)) turned.add(id)
    setRoute({ turned: joinIds(turned) })
  } else setRoute({ turned: joinIds(toggleSection(turned, id, !open.has(id))) })
}

/** `named`: in order of selection. */
function usePlacing(
  sections: readonly RankSection[],
  named: readonly RankName[],
  detail: Placing['detail'],
  model: TimelineModel,
): Placing {
  const { turned: text, sections: opened } = useRoute()
  return useMemo(() => {
    const turned = new Set(splitIds(text))
    // Use the open rank's height, whose tracks are known.
    const { content } = tracksOf('', model, { detail: 'streams', turned: NONE })
    const first =
      opened === 'open' ? sections.length : opened === 'closed' ? 0 : defaultOpenCount(sections.length, content)
    const keys = named.map(({ key }) => key)
    const there = sections.flatMap(({ model: own, placement: placed }) =>
      own ? [{ placement: placed, start: own.start, end: own.end, busy: own.head.busy }] : [],
    )
    const { busy, ...whole } = rankOverview(there)
    return {
      sections,
      open: openSections(keys, first, turned),
      detail,
      turned,
      whole,
      busy: { busy, busy_is_device: model.head.busy_is_device },
    }
  }, [sections, named, detail, model, text, opened])
}

function useDetail(): Detail {
  const { detail } = useRoute()
  return detail === 'all' || detail === 'thin' ? detail : 'streams'
}
const useLinks = (): boolean => useRoute().links !== 'none'

function RanksDisplayMenu({ hasModules, hasDevices }: { hasModules: boolean; hasDevices: boolean }) {
  const detail = useDetail()
  const links = useLinks()
  return (
    <MenuButton label="Display">
      <Checkbox
        size="xs"
        checked={links}
        onChange={() => setRoute({ links: links ? 'none' : '' })}
        label="Link collectives across ranks"
      />
      <Radio.Group
        size="xs"
        label="Tracks of an open rank"
        value={detail}
        onChange={(next) => setRoute({ detail: next === 'streams' ? '' : next })}
      >
        <div className={toolbarCss.menu}>
          <Radio size="xs" value="streams" label="Device streams" />
          <Radio size="xs" value="thin" label="All, one row each" />
          <Radio size="xs" value="all" label="All" />
        </div>
      </Radio.Group>
      <ColorsChoice hasModules={hasModules} hasDevices={hasDevices} usual="kind" />
      <WheelChoice />
      <p className={`${textCss.mute} ${ranksMenuCss.alone}`}>
        Arrows, gaps, charts, pinned tracks and the critical path need a single rank.
      </p>
    </MenuButton>
  )
}
