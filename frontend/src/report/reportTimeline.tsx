// The timeline of a report: one window, drawn from the file.
import { useCallback, useEffect, useMemo, useRef, useState } from 'react'
import type { ReportTimeline as Recorded, Report } from '../api/payloads'
import { NO_OVERLAYS, type TimelineEngine } from '../canvas/timeline/engine'
import { type Item, TimelineModel } from '../canvas/timeline/model'
import type { Range } from '../canvas/viewport'
import { counted, format } from '../lib/format'
import type { Arrangement } from '../lib/laneOrder'
import { recordedKinds, TimelineFooter } from '../pages/timeline/footer'
import { Card, SmallButton } from '../widgets/basics'
import { TimelineCanvas } from '../widgets/timelineCanvas'
import { columnsOf, openCommand, spotOf } from './data'
import textCss from '../widgets/text.module.css'
import css from './report.module.css'

const ALL_LANES: Arrangement = { pinned: [], moved: [], filter: '', hidden: [] }
const ignore = () => {}
const noOrigin = () => null

export function ReportTimeline(props: {
  report: Report
  timeline: Recorded
  /** The selected event. */
  event: number | null
  onEvent: (event: number | null) => void
}) {
  const { report, timeline, event, onEvent } = props
  const { head } = timeline
  const engine = useRef<TimelineEngine>(null)
  const columns = useMemo(() => columnsOf(timeline.events), [timeline])
  const model = useMemo(
    () =>
      new TimelineModel(head, (_, tiles) => Promise.resolve(tiles.map(() => columns)), {
        onChange: () => engine.current?.redraw(),
        onProblem: ignore,
      }),
    [head, columns],
  )
  useEffect(() => () => model.store.destroy(), [model])
  const first = useMemo(() => ({ start: model.start, end: model.end }), [model])
  const { view, lastSent, onView, undo } = useLocalWindow(first)
  const [collapsed, setCollapsed] = useState<ReadonlySet<string>>(new Set())
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set())
  const [range, setRange] = useState<Range | null>(null)
  const toggle = (old: ReadonlySet<string>, key: string) =>
    new Set(old.has(key) ? [...old].filter((other) => other !== key) : [...old, key])
  const extras = useMemo(
    () => ({
      ...NO_OVERLAYS,
      steps: report.profile.steps.map((step) => ({
        label: step.label,
        start: step.host_start_ns,
        end: step.host_end_ns,
      })),
    }),
    [report],
  )
  const selected = useMemo(() => (event === null ? null : spotOf(columns, event)), [columns, event])
  useEffect(() => {
    if (selected) engine.current?.focus(selected)
  }, [selected])
  const i = event === null ? -1 : columns.event.indexOf(event)
  const merged = columns.count.reduce((sum, count) => sum + count, 0) - columns.count.length
  return (
    <Card
      title={`${format(head.end_ns - head.start_ns, 'ns')} of the recording`}
      subtitle={`${format(head.start_ns, 'ns')} to ${format(head.end_ns, 'ns')}`}
      actions={
        <span className={textCss.row}>
          <SmallButton onClick={() => engine.current?.zoom(0.5)}>Zoom in</SmallButton>
          <SmallButton onClick={() => engine.current?.zoom(2)}>Zoom out</SmallButton>
          <SmallButton onClick={() => engine.current?.reset()}>Full window</SmallButton>
        </span>
      }
    >
      <div className={css.timeline}>
        <TimelineCanvas
          model={model}
          engine={engine}
          view={view}
          lastSent={lastSent}
          onView={onView}
          onUndo={undo}
          matches={null}
          colors={head.is_range_trace ? 'name' : 'kind'}
          classes={null}
          hidden={hidden}
          range={range}
          gutter={0}
          wheel="scroll"
          selected={selected}
          picked={NONE}
          arrangement={ALL_LANES}
          collapsed={collapsed}
          extras={extras}
          origin={noOrigin}
          onPick={(item: Item | null) => onEvent(item?.event ?? null)}
          onPickMore={ignore}
          onFollow={ignore}
          onBookmark={ignore}
          onGutter={ignore}
          onMeasure={ignore}
          onWheelScroll={ignore}
          onMenu={ignore}
          onRange={setRange}
          onToggle={(id) => setCollapsed((old) => toggle(old, id))}
          onOpen={(id) => setCollapsed((old) => new Set([...old].filter((other) => other !== id)))}
        />
      </div>
      <div className={css.legend}>
        <TimelineFooter
          view={view}
          busy={false}
          notes={NO_NOTES}
          found={null}
          colors={head.is_range_trace ? 'name' : 'kind'}
          legend={NO_NOTES}
          holds={recordedKinds(head)}
          hiding={{
            hidden,
            onHide: (key) => setHidden((old) => (key === undefined ? new Set() : toggle(old, key))),
          }}
          hint={null}
          search=""
        />
      </div>
      <p className={css.picked} role="status">
        {i < 0 ? (
          <span className={textCss.mute}>Click an event to see its name and times.</span>
        ) : (
          <>
            <b className={textCss.mono}>{columns.names[columns.name[i]]}</b> {format(columns.dur[i], 'ns')}, starts at{' '}
            {format(columns.start[i], 'ns')}, on {head.tracks[columns.lane[i]].title}
            {columns.count[i] > 1 && ` (longest of ${counted(columns.count[i], 'event')})`}
          </>
        )}
      </p>
      <p className={textCss.none}>
        {merged > 0 && `Events shorter than ${format(head.levels[0].cell_ns, 'ns')} are merged with their neighbors. `}
        For other times, open the trace with <code>{openCommand(report)}</code>.
      </p>
    </Card>
  )
}

const NONE: readonly never[] = []
const NO_NOTES: readonly never[] = []

/** The visible window, and the way back to the one before a zoom. */
function useLocalWindow(first: Range) {
  const [view, setView] = useState(first)
  const lastSent = useRef<Range | null>(null)
  const before = useRef<Range[]>([])
  const onView = useCallback((next: Range, move: 'pan' | 'zoom' | 'jump') => {
    lastSent.current = next
    setView((old) => {
      if (move === 'jump') before.current.push(old)
      return next
    })
  }, [])
  const undo = useCallback(() => setView(before.current.pop() ?? first), [first])
  return { view, lastSent, onView, undo }
}
