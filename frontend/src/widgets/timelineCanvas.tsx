// React wrapper of the timeline.
import { type ReactNode, useEffect, useRef, useState } from 'react'
import type { Theme } from '../canvas/surface'
import type { ColorBy } from '../canvas/timeline/colors'
import { type Overlays, TimelineEngine } from '../canvas/timeline/engine'
import { GUTTER } from '../canvas/timeline/layout'
import type { Item, Spot, TimelineModel } from '../canvas/timeline/model'
import type { Arrow } from '../canvas/timeline/scene'
import type { TimelineEvents } from '../canvas/timeline/timelineViewport'
import type { Range } from '../canvas/viewport'
import { format } from '../lib/format'
import { classOf, type KernelClasses } from '../lib/kernelClasses'
import type { Arrangement } from '../lib/laneOrder'
import { shortKernel } from '../lib/names'
import type { Point } from '../lib/tooltipPosition'
import { Swatch, useTheme } from './basics'
import { FloatingTooltip } from './floatingTooltip'
import { useEngine, type Windowed } from './useEngine'
import textCss from './text.module.css'
import css from './timelineCanvas.module.css'
import tipCss from './tip.module.css'

export interface Hover {
  item: Item | null
  arrow: Arrow | null
  color: string
  x: number
  y: number
  /** Places of the window that the tooltip leaves free. */
  clear: readonly Point[]
}

export interface TimelineCanvasProps<E extends Engine> extends Windowed<E>, Omit<TimelineEvents, 'onHover' | 'onOpen'> {
  matches: ((name: string) => boolean) | null
  colors: ColorBy
  /** Kernel classes, if they set the colours. */
  classes: KernelClasses | null
  /** Keys of hidden entries of the legend. */
  hidden: ReadonlySet<string>
  range: Range | null
  /** Pixels of the names of tracks; 0 = as at first. */
  gutter: number
  /** Windows whose keys are handled. */
  keysFrom: readonly Window[]
}

interface Engine {
  destroy(): void
  setView(view: Range): void
  setTheme(theme: Theme): void
  setColors(by: ColorBy, classes: KernelClasses | null, hidden: ReadonlySet<string>): void
  keepClear?(item: Item | null, arrow: Arrow | null): Point[]
  setGutter(width: number): void
  setSearch(matches: ((name: string) => boolean) | null): void
  setRange(range: Range | null): void
}

/** An engine for each model, with the properties that both timelines have. `colorOf`: colour of the hovered item. */
export function useTimelineEngine<E extends Engine>(
  props: TimelineCanvasProps<E>,
  model: object,
  make: (canvas: HTMLCanvasElement, theme: Theme, events: Omit<TimelineEvents, 'onOpen'>) => E,
  colorOf: (engine: E, item: Item) => string,
) {
  const { engine, matches, colors, classes, hidden, range, gutter } = props
  const theme = useTheme()
  const canvas = useRef<HTMLCanvasElement>(null)
  const [hover, setHover] = useState<Hover | null>(null)
  const latest = useRef(props)
  latest.current = props
  useEngine(canvas, model, props, (on) => {
    const made: E = make(on, theme, {
      onView: (next, move) => latest.current.onView(next, move),
      onUndo: () => latest.current.onUndo(),
      onBookmark: (time) => latest.current.onBookmark(time),
      onGutter: (width) => latest.current.onGutter(width),
      onPick: (item) => latest.current.onPick(item),
      onFollow: (event, spot) => latest.current.onFollow(event, spot),
      onHover: (item, arrow, at) =>
        setHover(
          item || arrow
            ? { item, arrow, color: item ? colorOf(made, item) : '', clear: inWindow(on, made, item, arrow), ...at }
            : null,
        ),
      onRange: (next) => latest.current.onRange(next),
      onToggle: (id) => latest.current.onToggle(id),
    })
    return made
  })
  // biome-ignore-start lint/correctness/useExhaustiveDependencies: a new model has a new engine
  useEffect(() => engine.current?.setTheme(theme), [theme, model])
  useEffect(() => engine.current?.setColors(colors, classes, hidden), [colors, classes, hidden, model])
  useEffect(() => engine.current?.setGutter(gutter || GUTTER), [gutter, model])
  useEffect(() => engine.current?.setSearch(matches), [matches, model])
  useEffect(() => engine.current?.setRange(range), [range?.start, range?.end, model])
  // biome-ignore-end lint/correctness/useExhaustiveDependencies: see above
  return { canvas, hover }
}

function inWindow(canvas: HTMLCanvasElement, engine: Engine, item: Item | null, arrow: Arrow | null): Point[] {
  const { left, top } = canvas.getBoundingClientRect()
  return (engine.keepClear?.(item, arrow) ?? []).map(({ x, y }) => ({ x: left + x, y: top + y }))
}

export function TimelineCanvas(
  props: TimelineCanvasProps<TimelineEngine> & {
    model: TimelineModel
    selected: Spot | null
    arrangement: Arrangement
    collapsed: ReadonlySet<string>
    extras: Overlays
    onOpen: (id: string) => void
    /** Lines about the origin of a hovered event. */
    origin: (event: number) => ReactNode
  },
) {
  const { origin, model, engine, view, keysFrom, classes, selected, arrangement, collapsed, extras } = props
  const onOpen = useRef(props.onOpen)
  onOpen.current = props.onOpen
  const { canvas, hover } = useTimelineEngine(
    props,
    model,
    (on, theme, events) =>
      new TimelineEngine(on, model, theme, view, { ...events, onOpen: (id) => onOpen.current(id) }, keysFrom),
    ({ scene }, item) => scene.colors.of(item),
  )
  // Tracks must be set before the selection.
  // biome-ignore-start lint/correctness/useExhaustiveDependencies: a new model has a new engine
  useEffect(() => engine.current?.setTracks(arrangement, collapsed), [arrangement, collapsed, model])
  useEffect(() => engine.current?.setSelected(selected), [selected, model])
  useEffect(() => engine.current?.setExtras(extras), [extras, model])
  // biome-ignore-end lint/correctness/useExhaustiveDependencies: see above
  const kernelClass = classes && hover?.item ? classOf(classes, hover.item.category, hover.item.name) : undefined
  return (
    <div data-testid="timeline" className={css.timeline}>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-label="Timeline. W and S zoom, A and D or the arrow keys move. 0 shows the full trace, Z undoes the last zoom, B sets a bookmark. With an event selected, the arrow keys select its neighbours, F zooms to it and M marks its time. The button As text lists the same events."
      />
      {hover && (
        <HoverTip
          hover={hover}
          mark={kernelClass?.title ?? (props.colors === 'module' ? hover.item?.module : undefined)}
          origin={origin}
        />
      )}
    </div>
  )
}

const MOST_LINES = 2

/** At most three lines: name and duration, then an arrow, `more` and the origin as far as there is room. */
export function HoverTip(props: {
  hover: Hover
  /** Class or module, if it sets the colour. */
  mark?: string
  /** Additional lines. */
  more?: readonly string[]
  origin?: (event: number) => ReactNode
}) {
  const { hover, mark, more = [], origin } = props
  const { item, arrow, clear } = hover
  const lines = [...(arrow ? [`→ ${arrow.name}`] : []), ...(mark ? [mark] : []), ...more]
  const isMerged = item !== null && item.count > 1
  if (isMerged) lines.push(`longest: ${shortKernel(item.name)}`, 'click to zoom in')
  return (
    <FloatingTooltip x={hover.x} y={hover.y} clear={clear} wide>
      {item && (
        <div className={`${tipCss.title} ${textCss.mono}`}>
          <Swatch color={hover.color} />
          <span className={tipCss.line}>
            {isMerged ? `${item.count.toLocaleString('en-US')} events` : shortKernel(item.name)}
          </span>
          <span className={textCss.num}>{isMerged ? `${format(item.busy, 'ns')} busy` : format(item.dur, 'ns')}</span>
        </div>
      )}
      {lines.slice(0, MOST_LINES).map((line) => (
        <div key={line} className={`${tipCss.line} ${textCss.mute}`}>
          {line}
        </div>
      ))}
      {item && !isMerged && lines.length === 0 && origin?.(item.event)}
    </FloatingTooltip>
  )
}
