// React wrapper of the timeline.
import { type ReactNode, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react'
import type { Theme } from '../canvas/surface'
import type { ColorBy } from '../canvas/timeline/colors'
import { type Overlays, TimelineEngine, type TrackStack } from '../canvas/timeline/engine'
import { HEAD } from '../canvas/timeline/layout'
import { type Item, type Spot, type TimelineModel, trackKind } from '../canvas/timeline/model'
import type { Arrow } from '../canvas/timeline/scene'
import type { TimelineEvents } from '../canvas/timeline/timelineViewport'
import type { Range } from '../canvas/viewport'
import { format } from '../lib/format'
import { classOf, type KernelClasses } from '../lib/kernelClasses'
import type { Arrangement } from '../lib/laneOrder'
import { shortKernel } from '../lib/names'
import type { Point } from '../lib/tooltipPosition'
import type { WheelStyle } from '../lib/wheel'
import { Swatch, useTheme } from './basics'
import { FloatingTooltip } from './floatingTooltip'
import { type TrackActions, TrackHeads } from './trackHeads'
import { TrackMap, type TrackPart } from './trackMap'
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
  /** Pixels of the names of tracks; 0 = the usual width. */
  gutter: number
  wheel: WheelStyle
  /** Windows whose keys are handled; absent: only keys of the canvas. */
  keysFrom?: readonly Window[]
}

interface Engine {
  destroy(): void
  setView(view: Range): void
  setTheme(theme: Theme): void
  setColors(by: ColorBy, classes: KernelClasses | null, hidden: ReadonlySet<string>): void
  keepClear?(item: Item | null, arrow: Arrow | null): Point[]
  setGutter(width: number): void
  setWheel(style: WheelStyle): void
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
  const { engine, matches, colors, classes, hidden, range, gutter, wheel } = props
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
      onPath: (by) => latest.current.onPath?.(by),
      onFollow: (event, spot) => latest.current.onFollow(event, spot),
      onHover: (item, arrow, at) =>
        setHover(
          item || arrow
            ? { item, arrow, color: item ? colorOf(made, item) : '', clear: inWindow(on, made, item, arrow), ...at }
            : null,
        ),
      onRange: (next, track) => latest.current.onRange(next, track),
      onToggle: (id) => latest.current.onToggle(id),
      onPickMore: (item) => latest.current.onPickMore(item),
      onWheelScroll: () => latest.current.onWheelScroll(),
      onMeasure: (point) => latest.current.onMeasure(point),
      onMenu: (spot) => latest.current.onMenu(spot),
    })
    return made
  })
  // biome-ignore-start lint/correctness/useExhaustiveDependencies: a new model has a new engine
  useEffect(() => engine.current?.setTheme(theme), [theme, model])
  useEffect(() => engine.current?.setColors(colors, classes, hidden), [colors, classes, hidden, model])
  useEffect(() => engine.current?.setGutter(gutter), [gutter, model])
  useEffect(() => engine.current?.setWheel(wheel), [wheel, model])
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
    /** Events selected together. */
    picked: readonly Spot[]
    arrangement: Arrangement
    collapsed: ReadonlySet<string>
    extras: Overlays
    onOpen: (id: string) => void
    /** Absent: tracks have no buttons. */
    actions?: TrackActions
    /** Lines about the origin of a hovered event. */
    origin: (event: number) => ReactNode
  },
) {
  const { origin, model, engine, view, keysFrom, classes, selected, picked, arrangement, collapsed, extras, actions } =
    props
  const onOpen = useRef(props.onOpen)
  onOpen.current = props.onOpen
  const { box, stack, onTracks, moved, thumb, scrollNow } = useTrackStack<TrackStack>()
  const counters = extras.counters?.series
  const parts = useMemo(
    () =>
      (stack?.layout.rest ?? []).map(({ track, top, height }): TrackPart => {
        const kind = track.kind === 'lane' ? trackKind(track.id) : (counters?.[track.counter]?.color ?? 'other')
        return { top, height, kind }
      }),
    [stack?.layout, counters],
  )
  const { canvas, hover } = useTimelineEngine(
    props,
    model,
    (on, theme, events) =>
      new TimelineEngine(on, model, theme, view, { ...events, onTracks, onOpen: (id) => onOpen.current(id) }, keysFrom),
    ({ scene }, item) => scene.colors.of(item),
  )
  // Tracks must be set before the selection.
  // biome-ignore-start lint/correctness/useExhaustiveDependencies: a new model has a new engine
  useEffect(() => engine.current?.setTracks(arrangement, collapsed), [arrangement, collapsed, model])
  useEffect(() => engine.current?.setSelected(selected), [selected, model])
  useEffect(() => engine.current?.setPicked(picked), [picked, model])
  useEffect(() => engine.current?.setExtras(extras), [extras, model])
  // biome-ignore-end lint/correctness/useExhaustiveDependencies: see above
  const kernelClass = classes && hover?.item ? classOf(classes, hover.item.category, hover.item.name) : undefined
  return (
    <div ref={box} data-testid="timeline" className={css.timeline}>
      <canvas
        id={CANVAS}
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-label="Timeline. W and S zoom, A and D or the arrow keys move. 0 shows the full trace, Z undoes the last zoom, B sets a bookmark, R measures. With an event selected, the arrow keys select its neighbors, F zooms to it and M marks its time. Period and comma select the next and the previous event on the critical path. The button As text lists the same events."
      />
      {stack && (
        <>
          {actions && (
            <TrackHeads
              stack={stack}
              moved={moved}
              canvas={canvas}
              actions={actions}
              onBring={(id) => engine.current?.bringTrack(id)}
            />
          )}
          <TrackMap
            canvas={CANVAS}
            parts={parts}
            content={stack.layout.content}
            room={stack.room}
            scroll={stack.scroll}
            scrollNow={scrollNow}
            thumb={thumb}
            onScroll={(to) => engine.current?.scrollTo(to)}
          />
        </>
      )}
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

export const CANVAS = 'timeline-canvas'

/** Scrolls of fewer pixels only move what is drawn; the heads near the visible ones exist already. */
const SCROLL_STEP = 300

interface Stack {
  layout: { fixed: number; content: number }
  scroll: number
  gutter: number
  room: number
}

/** Track positions. A scroll moves two elements; only other changes draw again. */
export function useTrackStack<S extends Stack>() {
  const [stack, setStack] = useState<S | null>(null)
  const box = useRef<HTMLDivElement>(null)
  /** Element that moves with the tracks, and the thumb of the scroll bar. */
  const moved = useRef<HTMLDivElement>(null)
  const thumb = useRef<HTMLDivElement>(null)
  const latest = useRef<S | null>(null)
  const move = useCallback(() => {
    if (!latest.current) return
    const { scroll, layout } = latest.current
    if (moved.current) moved.current.style.transform = `translateY(${-scroll}px)`
    if (thumb.current) thumb.current.style.top = `${(scroll / layout.content) * 100}%`
  }, [])
  const onTracks = useCallback(
    (now: S) => {
      const before = latest.current
      latest.current = now
      if (before?.gutter !== now.gutter) box.current?.style.setProperty('--gutter', `${now.gutter}px`)
      if (before?.layout.fixed !== now.layout.fixed)
        box.current?.style.setProperty('--fixed', `${HEAD + now.layout.fixed}px`)
      if (before?.scroll !== now.scroll) move()
      const step = (scroll: number) => Math.floor(scroll / SCROLL_STEP)
      setStack((old) =>
        old?.layout === now.layout && old.room === now.room && step(old.scroll) === step(now.scroll) ? old : now,
      )
    },
    [move],
  )
  // biome-ignore lint/correctness/useExhaustiveDependencies: what was drawn anew has to be moved again
  useLayoutEffect(move, [stack])
  const scrollNow = useCallback(() => latest.current?.scroll ?? 0, [])
  return { box, stack, onTracks, moved, thumb, scrollNow }
}

const MOST_LINES = 2

/** At most three lines: name and duration, arrow, `more`, origin. The last ones are left out if there is no room. */
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
