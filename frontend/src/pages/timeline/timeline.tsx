// Timeline: every event, at the resolution of the screen.
import { Button } from '@mantine/core'
import { useCallback, useEffect, useMemo, useRef, useState } from 'react'
import type { Query } from '../../api/client'
import type { TimelineEngine } from '../../canvas/timeline/engine'
import { tracksOf } from '../../canvas/timeline/layout'
import type { LegendEntry } from '../../canvas/timeline/legend'
import type { Item, Spot, TimelineModel } from '../../canvas/timeline/model'
import type { Range } from '../../canvas/viewport'
import { arrangeLanes } from '../../lib/laneOrder'
import { shortenMiddle } from '../../lib/names'
import { unreadCount } from '../../lib/profiles'
import { selectedRanks } from '../../lib/rankSelection'
import type { PageProps } from '../../parts/page'
import { clearHits, showTable } from '../../state/links'
import { useRunRead } from '../../state/readRuns'
import { decodeHit, hitTitle } from '../../state/rowHighlight'
import { setRoute, useRoute } from '../../state/urlState'
import { CloseButton, Placeholder, useTheme } from '../../widgets/basics'
import { ProblemPanel } from '../../widgets/problem'
import { TimelineCanvas } from '../../widgets/timelineCanvas'
import { ZoomHint } from './canvasHint'
import { DisplayMenu, defaultColors, useColors, useHidden } from './displayMenu'
import { EventOrigin } from './eventOrigin'
import { EventPanel } from './eventPanel'
import { TimelineEventText } from './eventText'
import { recordedKinds, TimelineFooter } from './footer'
import { TimelineFrame, useTimelineState } from './frame'
import { OpenInPerfetto } from './openInPerfetto'
import { useOverlays } from './overlays'
import { PickedPanel, togglePicked } from './pickedPanel'
import { type Opened, RanksMenu } from './ranks/ranksMenu'
import { RanksTimeline } from './ranks/ranksTimeline'
import { TracksMenu, useTracks } from './tracksMenu'
import { useKernelClasses } from './useKernelClasses'
import { firstView, useTimeline } from './useTimeline'
import toolbarCss from '../../parts/toolbar.module.css'
import textCss from '../../widgets/text.module.css'

/** Names in the legend: as many as there are colours for kernels. */
const KEY = 12
const NO_RANKS: ReadonlyMap<string, string> = new Map()
const NO_LEGEND: readonly LegendEntry[] = []
const NO_ITEMS: readonly Item[] = []
export function TimelinePage(props: PageProps) {
  const { catalog, profile, base } = props
  const { run, worker, span } = profile
  const { ranks: text } = useRoute()
  const open = useMemo(() => ({ run, worker, span }), [run, worker, span])
  const ranks = useMemo(() => selectedRanks(catalog, open, text), [catalog, open, text])
  // Several ranks have another page; the open menu stays open.
  const [opened, onOpened] = useState(false)
  const menu = useMemo(() => ({ opened, onOpened }), [opened])
  if (ranks.length < 2) return <OneTimeline {...props} menu={menu} />
  return (
    <RanksTimeline
      key={JSON.stringify([open, base.window])}
      catalog={catalog}
      opened={profile}
      open={open}
      ranks={ranks}
      base={base}
      menu={menu}
    />
  )
}

function OneTimeline(props: PageProps & { menu: Opened }) {
  const { profile: opened, base } = props
  const { steps, ...rest } = base
  const key = JSON.stringify(rest)
  const profile = useMemo(() => JSON.parse(key) as Query, [key])
  const engine = useRef<TimelineEngine>(null)
  const timeline = useTimeline(profile, () => engine.current?.redraw())
  const { model, problem } = timeline
  const chosen = String(steps ?? '')
  const first = useMemo(() => model && firstView(opened, chosen, model), [model, opened, chosen])
  if (!model || !first)
    return problem ? <ProblemPanel problem={problem} /> : <Placeholder height="calc(100vh - 90px)" />
  return <Page {...props} {...timeline} model={model} first={first} query={profile} engine={engine} />
}

function Page(
  props: PageProps &
    ReturnType<typeof useTimeline> & {
      model: TimelineModel
      first: Range
      /** The profile, without its chosen steps. */
      query: Query
      engine: React.RefObject<TimelineEngine | null>
      menu: Opened
    },
) {
  const { catalog, menu, model, first, profile: opened, query: profile, busy, drawn, failures, problem, engine } = props
  const route = useRoute()
  const { run, worker, span } = opened
  const place = useMemo(() => ({ run, worker, span }), [run, worker, span])
  const isRead = useRunRead(profile)
  const reads = useMemo(() => (isRead ? 0 : unreadCount(catalog, place)), [isRead, catalog, place])
  const state = useTimelineState(first, model, opened)
  const { view, search, steps, event, isText } = state
  const tracks = useTracks()
  const usual = defaultColors(model.head.is_range_trace, model.head.busy_is_device)
  const wish = useColors(usual)
  // CPU events have no class.
  const colors = (wish === 'class' || wish === 'kernel') && !model.head.busy_is_device ? 'kind' : wish
  const hiding = useHidden()
  const origin = useCallback((event: number) => <EventOrigin event={event} base={profile} />, [profile])
  const { classes, problem: unclassed } = useKernelClasses(profile, colors === 'class')
  const reveal = useCallback((spot: Spot) => engine.current?.reveal(spot), [engine])
  // Without visible lanes there are no events to wait for.
  const ready = drawn || arrangeLanes(model.lanes, tracks.arrangement).order.length === 0
  const hasDevices = model.head.busy_is_device
  const { extras, selected, isPlaced, searchHits, matches, notes, go, goPath } = useOverlays(
    profile,
    view,
    event,
    reveal,
    ready,
    hasDevices,
    steps,
    failures,
  )
  const named = useMemo(() => tracksOf(model.lanes, extras.counters?.series ?? []), [model, extras.counters])
  const actions = useMemo(
    () => ({
      isPinned: (id: string) => tracks.arrangement.pinned.includes(id),
      toggle: tracks.toggle,
      pin: tracks.pin,
      hide: tracks.hide,
      place: (id: string, before: string | null) => tracks.place(named, id, before),
      summarise: (id: string) => setRoute({ track: id }, true),
    }),
    [tracks, named],
  )
  const summary = named.find((track) => track.kind === 'lane' && track.id === route.track) ?? null
  const trackMenu = (id: string) => {
    const track = named.find((one) => one.id === id)
    if (!track) return null
    return {
      title: track.title,
      isPinned: actions.isPinned(id),
      isClosed: tracks.collapsed.has(id),
      summarise: track.kind === 'lane' ? () => actions.summarise(id) : null,
      pin: () => actions.pin(id),
      hide: () => actions.hide(id),
      toggle: () => actions.toggle(id),
    }
  }
  const { picked, pick, pickMore } = usePicked(event)
  const pickedSpots = useMemo(() => picked.map(spotOf), [picked])
  const theme = useTheme()
  const holds = useMemo(() => recordedKinds(model.head), [model])
  const [legend, setLegend] = useState(NO_LEGEND)
  const hasLegend = colors === 'class' ? classes !== null : colors !== 'kind'
  // A link may name an event, a window or both; the event's row must be visible.
  const anywhere = route.start_ns === undefined
  const arrived = useRef(false)
  useEffect(() => {
    if (!selected) return
    const isShown = selected.end >= view.start && selected.start <= view.end
    if (anywhere || (!arrived.current && isShown)) engine.current?.reveal(selected, 'pan')
    arrived.current = true
  }, [selected, anywhere, view, engine])
  // biome-ignore lint/correctness/useExhaustiveDependencies: asked again when the picture is another one
  useEffect(() => {
    if (isPlaced || !hasLegend) setLegend((hasLegend && engine.current?.legend(KEY)) || NO_LEGEND)
  }, [view, colors, classes, busy, isPlaced, tracks, isText, theme])
  const goTo = (next: number, at: Range & Partial<Spot>) => {
    engine.current?.reveal(at)
    setRoute({ event: String(next) })
  }
  return (
    <TimelineFrame
      state={state}
      engine={engine}
      label="Timeline"
      busy={busy}
      found={searchHits}
      go={go}
      all={opened.window ? 'Full window' : 'Full trace'}
      menus={
        <>
          <DisplayMenu usual={usual} hasModules={model.head.has_modules} hasDevices={hasDevices} />
          <TracksMenu all={named} tracks={tracks} />
          <RanksMenu
            catalog={catalog}
            open={place}
            ranks={[place]}
            clocks={null}
            way="wall"
            reads={reads}
            said={NO_RANKS}
            {...menu}
          />
        </>
      }
      tools={
        <>
          <HitChip />
          <OpenInPerfetto
            address={catalog.perfetto_url}
            base={profile}
            shown={view}
            all={{ start: model.start, end: model.end }}
            profile={opened}
          />
        </>
      }
      problems={
        <>
          {problem && <ProblemPanel problem={problem} />}
          {unclassed && <ProblemPanel problem={unclassed} />}
        </>
      }
      selected={selected?.start ?? null}
      base={profile}
      onHit={goTo}
      track={summary}
      startedIn={named.find((track) => track.kind === 'lane' && track.id === state.startedIn) ?? null}
      trackMenu={trackMenu}
      hidden={{ count: tracks.arrangement.hidden.length, show: () => setRoute({ hide: '' }) }}
      eventPanel={
        picked.length > 1 ? (
          <PickedPanel
            items={picked}
            onGo={(item) => engine.current?.reveal(spotOf(item))}
            onMark={(range) => engine.current?.mark(range)}
            onClear={() => pick(null)}
          />
        ) : event !== null ? (
          <EventPanel
            event={event}
            base={profile}
            catalog={catalog}
            profile={opened}
            onGo={goTo}
            onClose={() => setRoute({ event: '' })}
          />
        ) : null
      }
    >
      {isText ? (
        <TimelineEventText profile={profile} view={view} search={search} onOpen={(next) => setRoute({ event: next })} />
      ) : (
        <TimelineCanvas
          {...state.canvas}
          matches={state.canvas.matches ?? matches}
          model={model}
          colors={colors}
          classes={classes}
          hidden={hiding.hidden}
          origin={origin}
          selected={selected}
          picked={pickedSpots}
          arrangement={tracks.arrangement}
          collapsed={tracks.collapsed}
          extras={extras}
          onPick={pick}
          onPickMore={pickMore}
          actions={actions}
          onFollow={goTo}
          onPath={goPath}
          onToggle={tracks.toggle}
          onOpen={tracks.open}
          engine={engine}
        />
      )}
      <TimelineFooter
        view={view}
        busy={busy}
        notes={notes}
        found={searchHits}
        colors={colors}
        legend={legend}
        hasPath={route.path === '1'}
        holds={holds}
        hiding={hiding}
        hint={state.isZoomHint && <ZoomHint />}
        search={search}
      />
    </TimelineFrame>
  )
}

const spotOf = ({ lane, row, start, dur }: Item): Spot => ({ lane, row, start, end: start + dur })

/** Several selected events. A single selected event is in the URL instead. */
function usePicked(event: number | null) {
  const [picked, setPicked] = useState(NO_ITEMS)
  const last = useRef<Item | null>(null)
  const pick = (item: Item | null) => {
    last.current = item
    setPicked(NO_ITEMS)
    setRoute({ event: item ? String(item.event) : '' })
  }
  const pickMore = (item: Item) => {
    const first = last.current && last.current.event === event ? [last.current] : []
    const next = togglePicked(picked.length > 1 ? picked : first, item)
    if (next.length < 2) pick(next[0] ?? null)
    else setPicked(next)
  }
  return { picked, pick, pickMore }
}

function HitChip() {
  const { hit, from_view: from } = useRoute()
  const where = decodeHit(hit)
  if (where.length === 0) return null
  return (
    <>
      <span data-testid="chip" className={toolbarCss.chip} title={where.join('\n')}>
        <span className={textCss.mute}>Highlighted:</span>{' '}
        <span className={textCss.mono}>{shortenMiddle(hitTitle(where), 36)}</span>
        <CloseButton size="xs" label="Clear the highlight" onClick={clearHits} />
      </span>
      {from && (
        <Button size="sm" variant="default" onClick={showTable}>
          Show in table
        </Button>
      )}
    </>
  )
}
