// The frame of the timelines of one and of several ranks: toolbar, picture or text, panel.
import { ActionIcon, Button } from '@mantine/core'
import { type ReactNode, type RefObject, useMemo, useState } from 'react'
import type { Query } from '../../api/client'
import type { Profile } from '../../api/payloads'
import type { Spot } from '../../canvas/timeline/model'
import type { MenuSpot, TimelineViewport } from '../../canvas/timeline/timelineViewport'
import type { Range } from '../../canvas/viewport'
import { format, precise } from '../../lib/format'
import { isPlainSearch, matcher } from '../../lib/search'
import { rangeOf, useWindow } from '../../parts/useWindow'
import { readBookmarks } from '../../state/bookmarks'
import { PANEL, setPrefs, usePrefs } from '../../state/prefs'
import { hostWindow, setRoute, useRoute } from '../../state/urlState'
import { SmallButton } from '../../widgets/basics'
import { DownIcon, UpIcon } from '../../widgets/icons'
import { Split } from '../../widgets/split'
import { addBookmark, BookmarksMenu } from './bookmarksMenu'
import { CanvasHint } from './canvasHint'
import { CanvasMenu, type TrackMenuActions } from './canvasMenu'
import { count } from './footer'
import { HitsPanel } from './hitsPanel'
import type { TimelineOverlays } from './overlays'
import { QueryBox } from './queryBox'
import { panelsOf, type SummaryTrack } from './rangePanel'
import toolbarCss from '../../parts/toolbar.module.css'
import frameCss from '../../parts/viewFrame.module.css'
import basicsCss from '../../widgets/basics.module.css'
import textCss from '../../widgets/text.module.css'
import hitStepsCss from './hitSteps.module.css'
import css from './timeline.module.css'

const NAME_WIDTH = 70
/** Handles TensorBoard's keys too: it has the focus until the first click. */
const KEYS_FROM = [...new Set([window, hostWindow])]

/** Without a marked range there is no summary of a track either. */
const NO_RANGE = { from_ns: '', to_ns: '', track: '' }

/** State of a timeline in the URL. `canvas`: the part that the canvas needs. */
export function useTimelineState(first: Range, whole: Range, opened: Profile) {
  const route = useRoute()
  const { gutter, wheel, wheelHinted } = usePrefs()
  const { view, lastSent, onView, undo } = useWindow(first, whole)
  const search = route.search ?? ''
  const matches = useMemo(() => (isPlainSearch(search) ? matcher(search) : null), [search])
  const range = rangeOf(route.from_ns, route.to_ns)
  const bookmarks = useMemo(() => readBookmarks(route.bookmarks), [route.bookmarks])
  const steps = useMemo(
    () =>
      opened.steps.map(({ label, host_start_ns, host_end_ns }) => ({ label, start: host_start_ns, end: host_end_ns })),
    [opened],
  )
  const [note, setNote] = useState<number | null>(null)
  const [isText, setText] = useState(false)
  const [measuring, onMeasure] = useState<'first' | 'second' | null>(null)
  const [isScrolled, setScrolled] = useState(false)
  const [startedIn, setStartedIn] = useState<string | null>(null)
  const [menu, onMenu] = useState<MenuSpot | null>(null)
  const onBookmark = (time: number) => {
    addBookmark(bookmarks, time)
    setNote(time)
  }
  return {
    view,
    search,
    range,
    bookmarks,
    steps,
    note,
    setNote,
    isText,
    setText,
    measuring,
    isZoomHint: isScrolled && wheel === 'scroll' && !wheelHinted,
    startedIn,
    menu,
    event: route.event === undefined ? null : Number(route.event),
    canvas: {
      view,
      lastSent,
      matches,
      range,
      gutter,
      wheel,
      keysFrom: KEYS_FROM,
      onView,
      onUndo: undo,
      onBookmark,
      onGutter: (next: number) => setPrefs({ gutter: next }),
      onMeasure,
      onWheelScroll: () => setScrolled(true),
      onMenu,
      onRange: (next: Range | null, track: string | null = null) => {
        setStartedIn(track)
        setRoute(next ? { from_ns: String(next.start), to_ns: String(next.end) } : NO_RANGE)
      },
    },
  }
}

export function TimelineFrame(props: {
  state: ReturnType<typeof useTimelineState>
  engine: RefObject<Pick<
    TimelineViewport,
    'reveal' | 'zoom' | 'reset' | 'show' | 'focus' | 'mark' | 'measureFrom' | 'scene'
  > | null>
  label: string
  busy?: boolean
  found: TimelineOverlays['searchHits']
  go: TimelineOverlays['go']
  rank?: string
  all: string
  menus: ReactNode
  tools: ReactNode
  problems?: ReactNode
  /** Start of the selected event, for a bookmark. */
  selected: number | null
  base: Query
  /** The profile of the hits, if another one. */
  hitBase?: Query
  onHit: (event: number, at: Spot) => void
  eventPanel: ReactNode
  /** The track whose summary is open. */
  track?: SummaryTrack | null
  /** The track in which the pointer began to mark the range. */
  startedIn?: SummaryTrack | null
  /** Actions of the context menu on a track. */
  trackMenu?: (id: string) => TrackMenuActions | null
  hidden?: { count: number; show: () => void }
  children: ReactNode
}) {
  const { state, engine, label, busy, found, go, rank, all, menus, tools, problems, selected, base } = props
  const { view, search, range, bookmarks, note, setNote, isText, setText, measuring, menu, canvas } = state
  const { trackMenu, hidden } = props
  const prefs = usePrefs()
  const route = useRoute()
  return (
    <div className={`${frameCss.page} ${css.page}`}>
      <div data-testid="toolbar" className={`${toolbarCss.toolbar} ${css.tight}`}>
        <QueryBox
          value={search}
          onStep={go}
          error={found?.problem}
          searchNote={{
            width: found ? HIT_STEPS_WIDTH + (rank === undefined ? 0 : NAME_WIDTH) : 0,
            content: found && <HitSteps found={found} go={go} of={rank} />,
          }}
        />
        {menus}
        <BookmarksMenu
          bookmarks={bookmarks}
          open={note}
          onOpen={setNote}
          onGo={(time) => engine.current?.reveal({ start: time, end: time })}
          isSelected={selected !== null}
          onAdd={() => canvas.onBookmark(selected ?? Math.round((view.start + view.end) / 2))}
        />
        <ZoomButtons all={all} zoom={(factor) => engine.current?.zoom(factor)} reset={() => engine.current?.reset()} />
        <Button size="sm" variant="default" aria-pressed={isText} onClick={() => setText(!isText)}>
          {isText ? 'As chart' : 'As text'}
        </Button>
        {tools}
      </div>
      {problems}
      <Split
        label="Height of the panel"
        share={prefs.panel}
        limits={PANEL}
        onShare={(panel) => setPrefs({ panel })}
        below={panelsOf({
          event: props.eventPanel,
          hits: route.list === '1' && found && !found.problem && (
            <HitsPanel found={found} base={props.hitBase ?? base} onGo={props.onHit} />
          ),
          range,
          view,
          track: props.track ?? null,
          startedIn: props.startedIn ?? null,
          base,
          search,
          onShow: (next) => engine.current?.show(next),
        })}
      >
        <section className={`${basicsCss.card} ${css.card}`} aria-busy={busy} aria-label={label}>
          {props.children}
          <p className={textCss.sr} role="status">
            {range &&
              `${format(range.end - range.start, 'ns')} from ${precise(range.start, 'ns')} to ${precise(range.end, 'ns')}`}
          </p>
          <CanvasHint measuring={measuring} />
          <CanvasMenu
            spot={menu}
            onClose={() => canvas.onMenu(null)}
            engine={engine}
            all={all}
            onBookmark={canvas.onBookmark}
            track={menu?.track ? trackMenu?.(menu.track) : null}
            hidden={hidden}
          />
        </section>
      </Split>
    </div>
  )
}

const HIT_STEPS_WIDTH = 232

function HitSteps(props: {
  found: NonNullable<TimelineOverlays['searchHits']>
  go: TimelineOverlays['go']
  of?: string
}) {
  const { found, go, of } = props
  const { total, position } = found
  const isListed = useRoute().list === '1'
  const text = position === null ? `${count(total)} found` : `${count(position + 1)} of ${count(total)}`
  return (
    <span data-testid="hits" className={hitStepsCss.hits} role="status">
      <span className={textCss.num}>{found.problem ? '' : of ? `${of}: ${text}` : text}</span>
      <ActionIcon variant="subtle" size="sm" aria-label="Previous hit" disabled={!total} onClick={() => go(-1)}>
        <UpIcon />
      </ActionIcon>
      <ActionIcon variant="subtle" size="sm" aria-label="Next hit" disabled={!total} onClick={() => go(1)}>
        <DownIcon />
      </ActionIcon>
      <SmallButton aria-pressed={isListed} disabled={!total} onClick={() => setRoute({ list: isListed ? '' : '1' })}>
        List
      </SmallButton>
    </span>
  )
}

/** `all`: label of the full range. */
function ZoomButtons(props: { all: string; zoom: (factor: number) => void; reset: () => void }) {
  const { all, zoom, reset } = props
  return (
    <Button.Group>
      <Button size="sm" variant="default" px={12} aria-label="Zoom in" onClick={() => zoom(0.5)}>
        +
      </Button>
      <Button size="sm" variant="default" px={12} aria-label="Zoom out" onClick={() => zoom(2)}>
        −
      </Button>
      <Button size="sm" variant="default" onClick={reset}>
        {all}
      </Button>
    </Button.Group>
  )
}
