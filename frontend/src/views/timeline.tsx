// Timeline: every event of a window. The server sends what the pixels can show; zooming asks for more.
import { Button, Checkbox, Popover } from '@mantine/core'
import { type ReactNode, useCallback, useEffect, useMemo, useRef, useState } from 'react'
import type { Query } from '../api/client'
import type { Timeline, View } from '../api/payloads'
import type { Range } from '../canvas/timelineDraw'
import { format } from '../lib/format'
import { matcher } from '../lib/search'
import { setCurrent } from '../state/current'
import { useView } from '../state/data'
import { setRoute, useRoute } from '../state/route'
import { Bones } from '../widgets/basics'
import { ProblemPanel } from '../widgets/problem'
import { TimelineCanvas, type TimelineHandle, TimelineText } from '../widgets/timeline'
import { EventPanel } from './parts/eventPanel'
import { HitChip } from './parts/hitChip'
import { OpenInPerfetto } from './parts/perfetto'
import { RangePanel } from './parts/rangePanel'
import { SearchBox } from './parts/tableSection'
import type { ViewProps } from './view'

const DEBOUNCE_MS = 160
const STRIP_WIDTH = 900

const timelineOf = (view: View | null): Timeline | null => {
  const payload = view?.payloads.timeline
  return payload?.kind === 'timeline' ? payload : null
}

/** What to load for a window: half of it more on both sides, so that small moves need nothing new. */
function askFor(view: Range, whole: Range, pixels: number): Query {
  const span = view.end - view.start
  const start = Math.max(whole.start, Math.floor(view.start - span / 2))
  const end = Math.min(whole.end, Math.ceil(view.end + span / 2))
  return { start_ns: start, end_ns: end, width: Math.round((pixels * (end - start)) / span) }
}

export function TimelineView({ catalog, profile: opened, base }: ViewProps) {
  const route = useRoute()
  const { steps, ...profile } = base
  const [pixels] = useState(() => Math.max(600, window.innerWidth - 400))
  const [view, setView] = useState<Range | null>(() => rangeOf(route.start_ns, route.end_ns))
  const [ask, setAsk] = useState<Query>(() =>
    view ? { start_ns: view.start, end_ns: view.end, width: pixels } : { width: pixels },
  )
  const resource = useView('timeline', { ...base, ...ask })
  const data = timelineOf(resource.data)
  const first = useView(
    'timeline',
    { ...profile, start_ns: data?.window_start_ns ?? 0, end_ns: data?.window_end_ns ?? 0, width: STRIP_WIDTH },
    data !== null,
  )
  const whole = timelineOf(first.data)
  const timer = useRef(0)
  const handle = useRef<TimelineHandle>(null)
  const latest = useRef(data)
  latest.current = data

  const load = useCallback((next: Range) => {
    const shown = latest.current
    if (!shown) return
    const width = handle.current?.plotWidth() ?? 1200
    const span = next.end - next.start
    const covered =
      shown.start_ns <= Math.max(shown.window_start_ns, next.start) &&
      shown.end_ns >= Math.min(shown.window_end_ns, next.end)
    // Fine enough and all there: nothing to ask.
    if (covered && shown.resolution_ns <= (span / width) * 1.3 + 1) return
    setAsk(askFor(next, { start: shown.window_start_ns, end: shown.window_end_ns }, width))
  }, [])

  const onView = useCallback(
    (next: Range) => {
      window.clearTimeout(timer.current)
      timer.current = window.setTimeout(() => {
        setView(next)
        setRoute({ start_ns: String(next.start), end_ns: String(next.end) })
        load(next)
      }, DEBOUNCE_MS)
    },
    [load],
  )
  // Back, a link or a pasted URL: the window follows.
  useEffect(() => {
    const wanted = rangeOf(route.start_ns, route.end_ns)
    if (!wanted) return
    setView((old) => (old && old.start === wanted.start && old.end === wanted.end ? old : wanted))
    load(wanted)
  }, [route.start_ns, route.end_ns, load])
  const shownWindow = view ?? (data ? { start: data.start_ns, end: data.end_ns } : null)
  const windowKey = shownWindow ? `${shownWindow.start} ${shownWindow.end}` : ''
  useEffect(() => {
    const [start, end] = windowKey.split(' ').map(Number)
    if (windowKey) setCurrent({ window: { start, end } })
    return () => setCurrent({ window: null })
  }, [windowKey])

  if (!data)
    return resource.problem ? <ProblemPanel problem={resource.problem} /> : <Bones height="calc(100vh - 90px)" />
  return (
    <Page
      all={opened.window ? 'Whole window' : 'Whole trace'}
      data={data}
      whole={whole}
      view={view}
      base={base}
      busy={resource.busy}
      problem={resource.problem}
      shown={shownWindow ?? { start: 0, end: 1 }}
      onView={onView}
      handle={handle}
      perfetto={
        <OpenInPerfetto
          address={catalog.perfetto_url}
          base={profile}
          shown={shownWindow ?? { start: data.start_ns, end: data.end_ns }}
          all={{ start: data.window_start_ns, end: data.window_end_ns }}
          profile={opened}
        />
      }
    />
  )
}

function rangeOf(start: string | undefined, end: string | undefined): Range | null {
  const range = { start: Number(start), end: Number(end) }
  return start !== undefined && end !== undefined && range.end > range.start ? range : null
}

function Page(props: {
  data: Timeline
  whole: Timeline | null
  view: Range | null
  shown: Range
  base: Query
  busy: boolean
  problem: { what: string; where: string; do: string } | null
  onView: (view: Range) => void
  handle: React.RefObject<TimelineHandle | null>
  /** What there is to see at most. */
  all: string
  perfetto: ReactNode
}) {
  const { all, perfetto, data, whole, view, shown, base, busy, problem, onView, handle } = props
  const route = useRoute()
  const search = route.search ?? ''
  const matches = useMemo(() => matcher(search), [search])
  const found = useMemo(() => (matches ? countMatches(data, matches) : 0), [data, matches])
  const [collapsed, setCollapsed] = useState<ReadonlySet<number>>(new Set())
  const [text, setText] = useState(false)
  const range = rangeOf(route.from_ns, route.to_ns)
  const event = route.event === undefined ? null : Number(route.event)
  const { steps: _, ...profile } = base
  const pick = (next: number | null, bucket: Range | null) => {
    if (bucket)
      handle.current?.show({
        start: bucket.start - (bucket.end - bucket.start) * 0.1,
        end: bucket.end + (bucket.end - bucket.start) * 0.1,
      })
    else setRoute({ event: next === null ? '' : String(next) })
  }
  return (
    <div className="tt-page-timeline">
      <div className="tt-toolbar">
        <SearchBox
          value={search}
          onChange={(next) => setRoute({ search: next })}
          placeholder="Search names, text or /regex/"
        />
        {matches && <span className="tt-count tt-mute">{found.toLocaleString('en-US')} in sight</span>}
        <TracksMenu data={data} collapsed={collapsed} onCollapse={setCollapsed} />
        <Button.Group>
          <Button size="sm" variant="default" aria-label="Zoom in" onClick={() => handle.current?.zoom(0.5)}>
            +
          </Button>
          <Button size="sm" variant="default" aria-label="Zoom out" onClick={() => handle.current?.zoom(2)}>
            −
          </Button>
          <Button size="sm" variant="default" onClick={() => handle.current?.reset()}>
            {all}
          </Button>
        </Button.Group>
        <Button size="sm" variant="default" aria-pressed={text} onClick={() => setText(!text)}>
          {text ? 'As picture' : 'As text'}
        </Button>
        <HitChip />
        {perfetto}
      </div>
      {problem && <ProblemPanel problem={problem} />}
      <section className="tt-card tt-timeline-card" aria-busy={busy} aria-label="Timeline">
        {text ? (
          <div className="tt-scroll tt-fill" tabIndex={0}>
            <TimelineText data={data} />
          </div>
        ) : (
          <TimelineCanvas
            data={data}
            whole={whole}
            view={view}
            matches={matches}
            selected={event}
            range={range}
            collapsed={collapsed}
            onView={onView}
            onPick={pick}
            onRange={(next) =>
              setRoute({ from_ns: next ? String(next.start) : '', to_ns: next ? String(next.end) : '' })
            }
            onCollapse={setCollapsed}
            handle={handle}
          />
        )}
        <footer className="tt-timeline-foot">
          <span>
            {format(shown.end - shown.start, 'ns')} in sight
            {busy && ' · loading…'}
          </span>
          <span className="tt-hint">
            wheel or W S zoom · drag or A D move · shift + drag marks a range · F fits · arrows walk from event to event
          </span>
        </footer>
      </section>
      {range && (
        <RangePanel
          range={range}
          base={profile}
          search={search}
          onShow={(next) => handle.current?.show(next)}
          onClose={() => setRoute({ from_ns: '', to_ns: '' })}
        />
      )}
      {event !== null && (
        <EventPanel
          event={event}
          base={profile}
          onGo={(next, at) => {
            setRoute({ event: String(next) })
            handle.current?.reveal(at)
          }}
          onClose={() => setRoute({ event: '' })}
        />
      )}
    </div>
  )
}

function countMatches(data: Timeline, matches: (name: string) => boolean): number {
  const hit = data.names.map(matches)
  let sum = 0
  for (let i = 0; i < data.name.length; i++) if (hit[data.name[i]]) sum += data.count[i]
  return sum
}

function TracksMenu({
  data,
  collapsed,
  onCollapse,
}: {
  data: Timeline
  collapsed: ReadonlySet<number>
  onCollapse: (next: ReadonlySet<number>) => void
}) {
  const toggle = (track: number) => {
    const next = new Set(collapsed)
    if (!next.delete(track)) next.add(track)
    onCollapse(next)
  }
  return (
    <Popover position="bottom-end" withinPortal trapFocus>
      <Popover.Target>
        <Button size="sm" variant="default">
          Tracks
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <div className="tt-columns">
          <Button.Group>
            <Button size="compact-xs" variant="default" onClick={() => onCollapse(new Set())}>
              Open all
            </Button>
            <Button size="compact-xs" variant="default" onClick={() => onCollapse(new Set(data.tracks.keys()))}>
              Close all
            </Button>
          </Button.Group>
          {data.tracks.map((track, i) => (
            <Checkbox
              // biome-ignore lint/suspicious/noArrayIndexKey: tracks have no name of their own and never move
              key={`${track.title} ${track.subtitle} ${i}`}
              size="xs"
              checked={!collapsed.has(i)}
              onChange={() => toggle(i)}
              label={track.subtitle ? `${track.title} · ${track.subtitle}` : track.title}
            />
          ))}
        </div>
      </Popover.Dropdown>
    </Popover>
  )
}
