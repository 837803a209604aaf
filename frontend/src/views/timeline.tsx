// Timeline: every event of the trace. The server sends what the pixels can show; moving asks for more.
import { ActionIcon, Button } from '@mantine/core'
import { type ReactNode, useCallback, useEffect, useMemo, useRef, useState } from 'react'
import type { Query } from '../api/client'
import type { Problem, Profile } from '../api/payloads'
import { NARROWEST } from '../canvas/timelineEngine'
import { tracksOf } from '../canvas/timelineLayout'
import type { Item, Range, Spot, TimelineModel } from '../canvas/timelineModel'
import { arrange } from '../lib/arrange'
import { categoryColor } from '../lib/color'
import { format } from '../lib/format'
import { matcher } from '../lib/search'
import { setCurrent } from '../state/current'
import { setRoute, useRoute } from '../state/route'
import { Bones, Swatch } from '../widgets/basics'
import { DownIcon, UpIcon } from '../widgets/icons'
import { ProblemPanel } from '../widgets/problem'
import { TimelineCanvas, type TimelineHandle } from '../widgets/timeline'
import { EventPanel } from './parts/eventPanel'
import { HitChip } from './parts/hitChip'
import { OpenInPerfetto } from './parts/perfetto'
import { RangePanel } from './parts/rangePanel'
import { ShowMenu, useColors } from './parts/showMenu'
import { SearchBox } from './parts/tableSection'
import { type TimelineExtras, useExtras } from './parts/timelineExtras'
import { TimelineText } from './parts/timelineText'
import { TracksMenu, useTracks } from './parts/tracksMenu'
import { firstView, useTimeline } from './parts/useTimeline'
import type { ViewProps } from './view'
import basicsCss from '../widgets/basics.module.css'
import textCss from '../widgets/text.module.css'
import frameCss from './parts/frame.module.css'
import toolbarCss from './parts/toolbar.module.css'
import css from './timeline.module.css'

const DEBOUNCE_MS = 160

export function TimelineView({ catalog, profile: opened, base }: ViewProps) {
  const { steps, ...rest } = base
  const key = JSON.stringify(rest)
  const profile = useMemo(() => JSON.parse(key) as Query, [key])
  const handle = useRef<TimelineHandle>(null)
  const { model, problem, busy, drawn } = useTimeline(profile, () => handle.current?.redraw())
  const chosen = String(steps ?? '')
  const first = useMemo(() => model && firstView(opened, chosen, model), [model, opened, chosen])
  if (!model || !first) return problem ? <ProblemPanel problem={problem} /> : <Bones height="calc(100vh - 90px)" />
  return (
    <Page
      all={opened.window ? 'Whole window' : 'Whole trace'}
      model={model}
      first={first}
      opened={opened}
      profile={profile}
      busy={busy}
      drawn={drawn}
      problem={problem}
      handle={handle}
      perfetto={(shown) => (
        <OpenInPerfetto
          address={catalog.perfetto_url}
          base={profile}
          shown={shown}
          all={{ start: model.start, end: model.end }}
          profile={opened}
        />
      )}
    />
  )
}

/** Whole nanoseconds: the server takes nothing else. */
function rangeOf(start: string | undefined, end: string | undefined): Range | null {
  const range = { start: Math.round(Number(start)), end: Math.round(Number(end)) }
  const exact = Number.isSafeInteger(range.start) && Number.isSafeInteger(range.end)
  return start !== undefined && end !== undefined && exact && range.end > range.start ? range : null
}

/** The window of the URL, else the first one. While it moves the URL follows a little later. */
function useWindow(first: Range): { view: Range; told: React.RefObject<Range | null>; onView: (view: Range) => void } {
  const { start_ns, end_ns } = useRoute()
  const timer = useRef(0)
  const told = useRef<Range | null>(null)
  const view = useMemo(() => rangeOf(start_ns, end_ns) ?? first, [start_ns, end_ns, first])
  const onView = useCallback((next: Range) => {
    window.clearTimeout(timer.current)
    timer.current = window.setTimeout(() => {
      told.current = next
      setRoute({ start_ns: String(next.start), end_ns: String(next.end) })
    }, DEBOUNCE_MS)
  }, [])
  useEffect(() => () => window.clearTimeout(timer.current), [])
  useEffect(() => {
    setCurrent({ window: view })
    return () => setCurrent({ window: null })
  }, [view])
  return { view, told, onView }
}

function Page(props: {
  model: TimelineModel
  first: Range
  opened: Profile
  profile: Query
  busy: boolean
  drawn: boolean
  problem: Problem | null
  handle: React.RefObject<TimelineHandle | null>
  /** What there is to see at most. */
  all: string
  perfetto: (shown: Range) => ReactNode
}) {
  const { all, perfetto, model, first, opened, profile, busy, drawn, problem, handle } = props
  const route = useRoute()
  const { view, told, onView } = useWindow(first)
  const steps = useMemo(
    () =>
      opened.steps.map(({ label, host_start_ns, host_end_ns }) => ({ label, start: host_start_ns, end: host_end_ns })),
    [opened],
  )
  const tracks = useTracks()
  const search = route.search ?? ''
  const matches = useMemo(() => matcher(search), [search])
  const [text, setText] = useState(false)
  const range = rangeOf(route.from_ns, route.to_ns)
  const event = route.event === undefined ? null : Number(route.event)
  const colors = useColors()
  const reveal = useCallback((spot: Spot) => handle.current?.reveal(spot), [handle])
  // Where no lane is shown there are no events to wait for.
  const ready = drawn || arrange(model.lanes, tracks.arrangement).order.length === 0
  const { extras, selected, found, notes, go } = useExtras(profile, view, event, reveal, ready, steps)
  const named = useMemo(() => tracksOf(model.lanes, extras.counters?.series ?? []), [model, extras.counters])
  const pick = (item: Item | null) => {
    // What no zoom takes apart is opened as the longest of them.
    if (item && item.count > 1 && Math.max(item.dur * 1.2, NARROWEST) < view.end - view.start) {
      handle.current?.show({ start: item.start - item.dur * 0.1, end: item.start + item.dur * 1.1 })
      return
    }
    setRoute({ event: item ? String(item.event) : '' })
  }
  return (
    <div className={`${frameCss.page} ${css.page}`}>
      <div data-testid="toolbar" className={toolbarCss.toolbar}>
        <SearchBox
          value={search}
          onChange={(next) => setRoute({ search: next })}
          placeholder="Search names, text or /regex/"
        />
        {found && <Hits found={found} go={go} />}
        <ShowMenu hasModules={model.head.has_modules} hasDevices={model.head.busy_is_device} />
        <TracksMenu all={named} tracks={tracks} />
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
        {perfetto(view)}
      </div>
      {problem && <ProblemPanel problem={problem} />}
      <section className={`${basicsCss.card} ${css.card}`} aria-busy={busy} aria-label="Timeline">
        {text ? (
          <TimelineText profile={profile} view={view} search={search} onOpen={(next) => setRoute({ event: next })} />
        ) : (
          <TimelineCanvas
            model={model}
            view={view}
            told={told}
            matches={matches}
            colors={colors}
            selected={selected}
            range={range}
            arrangement={tracks.arrangement}
            collapsed={tracks.collapsed}
            extras={extras}
            onView={onView}
            onPick={pick}
            onFollow={(next, at) => {
              setRoute({ event: String(next) })
              handle.current?.reveal(at)
            }}
            onRange={(next) =>
              setRoute({ from_ns: next ? String(next.start) : '', to_ns: next ? String(next.end) : '' })
            }
            onToggle={tracks.toggle}
            handle={handle}
          />
        )}
        <footer data-testid="timeline-foot" className={css.foot}>
          <span>
            {format(view.end - view.start, 'ns')} in sight
            {busy && ' · loading…'}
            {notes.map((note) => ` · ${note}`)}
          </span>
          {colors === 'kind' && <Legend />}
          <span className={css.hint}>
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

const KINDS: [string, string][] = [
  ['kernel', 'kernel'],
  ['communication', 'communication'],
  ['memcpy', 'copy'],
  ['operator', 'operator'],
  ['runtime', 'runtime'],
  ['python', 'Python'],
  ['module', 'module'],
  ['annotation', 'annotation'],
]

function Legend() {
  return (
    <span className={css.kinds}>
      {KINDS.map(([kind, label]) => (
        <span key={kind}>
          <Swatch color={categoryColor(kind)} /> {label}
        </span>
      ))}
      <span title="The corner of kernels that use matrix units (Tensor Cores, Matrix Cores, XMX), by their name">
        ◥ matrix units
      </span>
    </span>
  )
}

/** How much was found, and the way from hit to hit. */
function Hits({ found, go }: { found: NonNullable<TimelineExtras['found']>; go: TimelineExtras['go'] }) {
  const { total, inSight, totalNs, position, problem } = found
  const count = (value: number | null) => (value === null ? '…' : value.toLocaleString('en-US'))
  const mean = total ? ` · mean ${format(totalNs / total, 'ns')}` : ''
  const place = position === null ? `${count(total)} found` : `${count(position + 1)} of ${count(total)}`
  const text = `${place} · ${count(inSight)} in sight · ${format(totalNs, 'ns')}${mean}`
  return (
    <span data-testid="hits" className={textCss.row} role="status">
      <ActionIcon variant="default" size="md" aria-label="Previous hit" disabled={!total} onClick={() => go(-1)}>
        <UpIcon />
      </ActionIcon>
      <ActionIcon variant="default" size="md" aria-label="Next hit" disabled={!total} onClick={() => go(1)}>
        <DownIcon />
      </ActionIcon>
      <span className={`${toolbarCss.count} ${textCss.mute}`}>{problem ?? text}</span>
    </span>
  )
}
