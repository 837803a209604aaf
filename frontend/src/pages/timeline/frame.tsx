// The frame of the timelines of one and of several ranks: toolbar, picture or text, panel.
import { ActionIcon, Button } from '@mantine/core'
import { type ReactNode, type RefObject, useMemo, useState } from 'react'
import type { Query } from '../../api/client'
import type { Profile } from '../../api/payloads'
import type { Spot } from '../../canvas/timeline/model'
import type { TimelineViewport } from '../../canvas/timeline/timelineViewport'
import type { Range } from '../../canvas/viewport'
import { isPlainSearch, matcher } from '../../lib/search'
import { rangeOf, useWindow } from '../../parts/useWindow'
import { readBookmarks } from '../../state/bookmarks'
import { PANEL, setPrefs, usePrefs } from '../../state/prefs'
import { hostWindow, setRoute, useRoute } from '../../state/urlState'
import { SmallButton } from '../../widgets/basics'
import { DownIcon, UpIcon } from '../../widgets/icons'
import { Split } from '../../widgets/split'
import { addBookmark, BookmarksMenu } from './bookmarksMenu'
import { count } from './footer'
import { HitsPanel } from './hitsPanel'
import type { TimelineOverlays } from './overlays'
import { QueryBox } from './queryBox'
import { panelsOf } from './rangePanel'
import toolbarCss from '../../parts/toolbar.module.css'
import frameCss from '../../parts/viewFrame.module.css'
import basicsCss from '../../widgets/basics.module.css'
import textCss from '../../widgets/text.module.css'
import hitStepsCss from './hitSteps.module.css'
import css from './timeline.module.css'
import zoomButtonsCss from './zoomButtons.module.css'

const NAME_WIDTH = 70
/** Handles TensorBoard's keys too: it has the focus until the first click. */
const KEYS_FROM = [...new Set([window, hostWindow])]

/** State of a timeline in the URL. `canvas`: the part that the canvas needs. */
export function useTimelineState(first: Range, whole: Range, opened: Profile) {
  const route = useRoute()
  const { gutter } = usePrefs()
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
    event: route.event === undefined ? null : Number(route.event),
    canvas: {
      view,
      lastSent,
      matches,
      range,
      gutter,
      keysFrom: KEYS_FROM,
      onView,
      onUndo: undo,
      onBookmark,
      onGutter: (next: number) => setPrefs({ gutter: next }),
      onRange: (next: Range | null) =>
        setRoute({ from_ns: next ? String(next.start) : '', to_ns: next ? String(next.end) : '' }),
    },
  }
}

export function TimelineFrame(props: {
  state: ReturnType<typeof useTimelineState>
  engine: RefObject<Pick<TimelineViewport, 'reveal' | 'zoom' | 'reset' | 'show'> | null>
  label: string
  busy?: boolean
  found: TimelineOverlays['searchHits']
  go: TimelineOverlays['go']
  rank?: string
  all: string
  isTight?: boolean
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
  children: ReactNode
}) {
  const { state, engine, label, busy, found, go, rank, all, isTight, menus, tools, problems, selected, base } = props
  const { view, search, range, bookmarks, note, setNote, isText, setText, canvas } = state
  const prefs = usePrefs()
  const route = useRoute()
  return (
    <div className={`${frameCss.page} ${css.page}`}>
      <div data-testid="toolbar" className={toolbarCss.toolbar}>
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
        <ZoomButtons
          all={all}
          isTight={isTight}
          zoom={(factor) => engine.current?.zoom(factor)}
          reset={() => engine.current?.reset()}
        />
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
          base,
          search,
          onShow: (next) => engine.current?.show(next),
        })}
      >
        <section className={`${basicsCss.card} ${css.card}`} aria-busy={busy} aria-label={label}>
          {props.children}
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

/** `all`: label of the full range. `isTight`: little room; a narrow page shows only this button. */
function ZoomButtons(props: { all: string; isTight?: boolean; zoom: (factor: number) => void; reset: () => void }) {
  const { all, isTight, zoom, reset } = props
  const closer = isTight ? zoomButtonsCss.closer : undefined
  return (
    <Button.Group>
      <Button size="sm" variant="default" className={closer} aria-label="Zoom in" onClick={() => zoom(0.5)}>
        +
      </Button>
      <Button size="sm" variant="default" className={closer} aria-label="Zoom out" onClick={() => zoom(2)}>
        −
      </Button>
      <Button size="sm" variant="default" className={isTight ? zoomButtonsCss.whole : undefined} onClick={reset}>
        {all}
      </Button>
    </Button.Group>
  )
}
