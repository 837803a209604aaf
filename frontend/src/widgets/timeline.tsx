// The timeline's React shell: hands data, window and selection to the engine, shows what is under the pointer.
import { type Ref, useEffect, useImperativeHandle, useRef, useState } from 'react'
import type { Timeline } from '../api/payloads'
import type { Range } from '../canvas/timelineDraw'
import { TimelineEngine } from '../canvas/timelineEngine'
import type { TimelineModel } from '../canvas/timelineModel'
import { categoryColor } from '../lib/color'
import { format } from '../lib/format'
import { Swatch, useTheme } from './basics'

export interface TimelineHandle {
  zoom(factor: number): void
  reset(): void
  show(range: Range): void
  /** Moves the window, at the zoom it has, so far that the range is in sight. */
  reveal(range: Range): void
  plotWidth(): number
  focus(): void
}

export interface TimelineProps {
  data: Timeline
  /** The whole trace at low resolution, for the strip. */
  whole: Timeline | null
  /** The window of the URL; null = what the data shows. */
  view: Range | null
  matches: ((name: string) => boolean) | null
  selected: number | null
  range: Range | null
  collapsed: ReadonlySet<number>
  onView: (view: Range) => void
  onPick: (event: number | null, bucket: Range | null) => void
  onRange: (range: Range | null) => void
  onCollapse: (collapsed: ReadonlySet<number>) => void
  handle: Ref<TimelineHandle>
}

interface Hover {
  index: number
  x: number
  y: number
}

export function TimelineCanvas(props: TimelineProps) {
  const { data, whole, view, matches, selected, range, collapsed, handle } = props
  const theme = useTheme()
  const canvas = useRef<HTMLCanvasElement>(null)
  const engine = useRef<TimelineEngine | null>(null)
  const [model, setModel] = useState<TimelineModel | null>(null)
  const [hover, setHover] = useState<Hover | null>(null)
  const latest = useRef(props)
  latest.current = props
  const models = useRef<TimelineModel | null>(null)

  // biome-ignore lint/correctness/useExhaustiveDependencies: the engine lives as long as its canvas
  useEffect(() => {
    if (!canvas.current) return
    const made = new TimelineEngine(canvas.current, theme, {
      onView: (next) => latest.current.onView(next),
      onPick: (index) => {
        const shown = models.current
        if (index < 0 || !shown) latest.current.onPick(null, null)
        else if (shown.event[index] < 0)
          latest.current.onPick(null, { start: shown.start[index], end: shown.start[index] + shown.dur[index] })
        else latest.current.onPick(shown.event[index], null)
      },
      onHover: (index, x, y) => setHover(index < 0 ? null : { index, x, y }),
      onRange: (next) => latest.current.onRange(next),
      onCollapse: (next) => latest.current.onCollapse(next),
    })
    engine.current = made
    return () => made.destroy()
  }, [])
  useEffect(() => {
    const made = engine.current
    if (!made) return
    models.current = made.setData(data)
    setModel(models.current)
    setHover(null)
  }, [data])
  useEffect(() => {
    if (whole) engine.current?.setOverview(whole)
  }, [whole])
  useEffect(() => engine.current?.setTheme(theme), [theme])
  useEffect(() => engine.current?.setSearch(matches), [matches])
  useEffect(() => engine.current?.setSelected(selected), [selected])
  useEffect(() => engine.current?.setRange(range), [range])
  useEffect(() => engine.current?.setCollapsed(collapsed), [collapsed])
  const viewKey = view ? `${view.start} ${view.end}` : ''
  // biome-ignore lint/correctness/useExhaustiveDependencies: only a new window of the URL moves the engine
  useEffect(() => {
    if (view) engine.current?.setView(view)
  }, [viewKey])
  useImperativeHandle(
    handle,
    () => ({
      zoom: (factor) => engine.current?.zoom(factor),
      reset: () => engine.current?.reset(),
      show: (target) => engine.current?.show(target),
      reveal: (target) => engine.current?.reveal(target),
      plotWidth: () => engine.current?.plotWidth ?? 1200,
      focus: () => canvas.current?.focus(),
    }),
    [],
  )
  return (
    <div className="tt-timeline">
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-label="Timeline. W and S zoom, A and D or the arrow keys move, 0 shows the whole trace. With an event selected the arrow keys walk to its neighbours, F fits it into the window and M marks its time. The lists below hold the same events as text."
      />
      {hover && model && hover.index < model.start.length && (
        <HoverTip
          model={model}
          hover={hover}
          width={canvas.current?.clientWidth ?? 800}
          height={canvas.current?.clientHeight ?? 400}
        />
      )}
    </div>
  )
}

function HoverTip({
  model,
  hover,
  width,
  height,
}: {
  model: TimelineModel
  hover: Hover
  width: number
  height: number
}) {
  const { index } = hover
  const merged = model.count[index] > 1
  const category = model.categories[model.category[index]]
  const lines: [string, string][] = merged
    ? [
        ['Events', model.count[index].toLocaleString('en-US')],
        ['Busy', format(model.busy[index], 'ns')],
        ['Span', format(model.dur[index], 'ns')],
        ['Busy share', format(model.dur[index] > 0 ? model.busy[index] / model.dur[index] : 1, 'ratio')],
      ]
    : [
        ['Duration', format(model.dur[index], 'ns')],
        ['Start', format(model.start[index], 'ns')],
      ]
  const style = {
    left: Math.min(hover.x + 14, Math.max(0, width - 340)),
    ...(hover.y > height - 150 ? { bottom: height - hover.y + 12 } : { top: hover.y + 16 }),
  }
  return (
    <div className="tt-tip tt-float" style={style}>
      <div className="tt-tip-head tt-mono">
        <Swatch color={categoryColor(category)} />
        {merged ? `${model.names[model.name[index]]} and others` : model.names[model.name[index]]}
      </div>
      {lines.map(([title, value]) => (
        <div className="tt-tip-row" key={title}>
          <span className="tt-tip-name">{title}</span>
          <span className="tt-num">{value}</span>
        </div>
      ))}
      <div className="tt-tip-foot">
        {category}
        {merged ? ' · too small at this zoom: click to zoom in' : ' · click for details'}
      </div>
    </div>
  )
}

/** The events in sight as text, longest first: the timeline for those who cannot see it. */
export function TimelineText({ data }: { data: Timeline }) {
  const order = data.dur.map((_, i) => i).sort((a, b) => data.dur[b] - data.dur[a])
  return (
    <table className="tt-table">
      <caption className="tt-sr">The longest events of the window</caption>
      <thead>
        <tr>
          <th scope="col">Event</th>
          <th scope="col">Track</th>
          <th scope="col">Start</th>
          <th scope="col">Duration</th>
        </tr>
      </thead>
      <tbody>
        {order.slice(0, 200).map((i) => (
          <tr key={i}>
            <th scope="row" className="tt-mono">
              {data.count[i] > 1 ? `${data.count[i]} events` : data.names[data.name[i]]}
            </th>
            <td>{data.tracks[data.track[i]]?.title}</td>
            <td className="tt-num">{format(data.start[i], 'ns')}</td>
            <td className="tt-num">{format(data.dur[i], 'ns')}</td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
