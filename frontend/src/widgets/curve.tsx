// A zoomable curve over time.
import { type CSSProperties, type PointerEvent, type ReactNode, useMemo, useState } from 'react'
import type { Series } from '../api/payloads'
import { format } from '../lib/format'
import { SignButtons, useTheme } from './basics'
import { axisRange, type Band, type CurveMarks, curveOption, GRID, windowOf } from './curveOption'
import { PlotFrame, usePlot } from './plot'
import css from './curve.module.css'
import textCss from './text.module.css'

const DRAG_PX = 5

export function Curve(props: {
  series: Series
  marks: CurveMarks
  height: number
  /** Without words at the axis of x. */
  isBare?: boolean
  onWindow: (start: number, end: number) => void
  /** A click chose a time; absent: nothing is known of one. */
  onMoment?: (at: number) => void
  onReset: () => void
  children?: ReactNode
}) {
  const { series, marks, height, isBare, onWindow, onMoment, onReset, children } = props
  const theme = useTheme()
  const [drag, setDrag] = useState<{ from: number; to: number } | null>(null)
  const option = useMemo(() => curveOption(series, theme, marks, isBare), [series, theme, marks, isBare])
  const { frame, chart, drawn } = usePlot(option)

  const pixel = (event: PointerEvent<HTMLElement>) => {
    const box = frame.current?.getBoundingClientRect()
    return event.clientX - (box?.left ?? 0)
  }
  const timeAt = (x: number) => {
    const [start, end] = axisRange(series, marks)
    const at = chart.current?.convertFromPixel({ xAxisIndex: 0 }, x)
    return Math.round(Math.min(end, Math.max(start, typeof at === 'number' ? at : start)))
  }
  const finish = () => {
    setDrag(null)
    if (!drag) return
    const [low, high] = [timeAt(Math.min(drag.from, drag.to)), timeAt(Math.max(drag.from, drag.to))]
    if (Math.abs(drag.to - drag.from) < DRAG_PX) onMoment?.(low)
    else if (high > low) onWindow(low, high)
  }
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the buttons above the curve do the same by keyboard
    <div
      data-testid="curve"
      className={css.curve}
      onPointerDown={(event) => {
        const box = frame.current?.getBoundingClientRect()
        if (event.button !== 0 || !chart.current || !box) return
        const point = [event.clientX - box.left, event.clientY - box.top]
        if (!chart.current.containPixel({ gridIndex: 0 }, point)) return
        event.currentTarget.setPointerCapture(event.pointerId)
        setDrag({ from: point[0], to: point[0] })
      }}
      onPointerMove={(event) => drag && setDrag({ ...drag, to: pixel(event) })}
      onPointerUp={finish}
      onPointerCancel={() => setDrag(null)}
      onDoubleClick={onReset}
    >
      <PlotFrame frame={frame} drawn={drawn} height={height} label={summary(series, marks)} />
      {children}
      {drag && Math.abs(drag.to - drag.from) >= DRAG_PX && (
        <i className={css.drag} style={{ left: Math.min(drag.from, drag.to), width: Math.abs(drag.to - drag.from) }} />
      )}
    </div>
  )
}

/** A block's lifetime over the curve, with edges where they are known and visible. */
export function CurveBlock({ series, life }: { series: Series; life: Band }) {
  const [start, end] = windowOf(series)
  const share = (at: number) => (Math.min(end, Math.max(start, at)) - start) / Math.max(1, end - start)
  const [from, to] = [share(life.start), share(life.end)]
  const room = `(100% - ${GRID.left + GRID.right}px)`
  const style: CSSProperties = {
    top: GRID.top,
    bottom: GRID.bottom,
    left: `calc(${GRID.left}px + ${room} * ${from})`,
    width: `calc(${room} * ${to - from})`,
    borderLeftWidth: life.start >= start && life.start <= end ? 2 : 0,
    borderRightWidth: life.end >= start && life.end <= end ? 2 : 0,
  }
  return <i data-testid="curve-block" className={css.block} style={style} />
}

function summary(series: Series, marks: CurveMarks): string {
  const { peak } = marks
  const { unit } = series.x_metric
  const [start, end] = axisRange(series, marks)
  const lines = series.lines.map((line) => {
    const values = line.values.filter((value): value is number => value !== null)
    const low = values.reduce((least, value) => Math.min(least, value), Number.POSITIVE_INFINITY)
    const high = values.reduce((most, value) => Math.max(most, value), Number.NEGATIVE_INFINITY)
    return `${line.metric.title} between ${format(low, 'bytes')} and ${format(high, 'bytes')}`
  })
  const top = peak ? ` Peak: ${peak.label} at ${format(peak.x, unit)}.` : ''
  const failed = (marks.failures ?? []).map(({ x, label }) => ` ${label} at ${format(x, unit)}.`).join('')
  return `${series.title} from ${format(start, unit)} to ${format(end, unit)}: ${lines.join('; ')}.${top}${failed}`
}

/** Look closer, farther, to the sides, and at everything again. */
export function CurveButtons(props: {
  window: [number, number]
  zoomed: boolean
  onWindow: (start: number, end: number) => void
  onReset: () => void
}) {
  const { window, zoomed, onWindow, onReset } = props
  const [start, end] = window
  const quarter = Math.max(1, (end - start) / 4)
  const move = (low: number, high: number) => onWindow(Math.round(start + low), Math.round(end + high))
  const buttons: [string, string, () => void, boolean][] = [
    ['Earlier', '‹', () => move(-quarter, -quarter), zoomed],
    ['Later', '›', () => move(quarter, quarter), zoomed],
    ['Zoom in', '+', () => move(quarter, -quarter), end - start > 4],
    ['Zoom out', '−', () => move(-2 * quarter, 2 * quarter), zoomed],
    ['Show the full window', '↺', onReset, zoomed],
  ]
  return (
    <span className={textCss.row}>
      <SignButtons buttons={buttons} />
    </span>
  )
}
