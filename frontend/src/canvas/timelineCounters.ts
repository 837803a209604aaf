// Charts of counters: the mean of each slice of time as an area, between its lowest and its highest value.
import { paint, type Theme } from './surface'

export interface CounterSeries {
  key: string
  title: string
  subtitle: string
  /** Id of the device that it is about, '' = none. */
  device: string
  /** Says a value in words. */
  say: (value: number) => string
  /** By slice; null where nothing is known. */
  mean: readonly (number | null)[]
  low: readonly (number | null)[]
  high: readonly (number | null)[]
  /** Of the whole trace: the top of the chart. */
  max: number
  color: string
}

export interface Counters {
  start: number
  end: number
  series: CounterSeries[]
}

/** Draws a series into the box between two pixels; slices outside are skipped. */
export function drawCounter(
  context: CanvasRenderingContext2D,
  counters: Counters,
  series: CounterSeries,
  toX: (time: number) => number,
  box: { left: number; right: number; top: number; bottom: number },
  theme: Theme,
): void {
  const slices = series.mean.length
  if (slices === 0 || series.max <= 0) return
  const step = (counters.end - counters.start) / slices
  const height = box.bottom - box.top
  const y = (value: number) =>
    box.bottom - Math.max(value > 0 ? 1 : 0, (Math.min(value, series.max) / series.max) * height)
  const area = paint(series.color, 0.75, theme).fill
  const spread = paint(series.color, 0.3, theme).fill
  for (let i = 0; i < slices; i++) {
    const mean = series.mean[i]
    if (mean === null) continue
    const from = Math.max(box.left, toX(counters.start + i * step))
    const to = Math.min(box.right, toX(counters.start + (i + 1) * step))
    if (to <= from) continue
    const wide = Math.max(1, to - from + 0.3)
    const high = y(series.high[i] ?? mean)
    context.fillStyle = spread
    context.fillRect(from, high, wide, box.bottom - high)
    context.fillStyle = area
    context.fillRect(from, y(mean), wide, box.bottom - y(mean))
  }
}

/** The slice that holds a time; -1 = none. */
export function sliceAt(counters: Counters, time: number): number {
  const slices = counters.series[0]?.mean.length ?? 0
  const i = Math.floor(((time - counters.start) / (counters.end - counters.start)) * slices)
  return i >= 0 && i < slices ? i : -1
}
