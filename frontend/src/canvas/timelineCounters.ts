// Charts of counters: the mean of each slice of time as an area, between its lowest and its highest value.
import { paint, type Theme } from './surface'

export interface CounterSeries {
  key: string
  title: string
  subtitle: string
  /** Id of the device that it is about, null = none. */
  device: string | null
  /** Says a value in words. */
  say: (value: number) => string
  /** By slice; null where nothing is known. */
  mean: readonly (number | null)[]
  low: readonly (number | null)[]
  high: readonly (number | null)[]
  /** Of the whole trace: the bottom and the top of the chart. */
  min: number
  max: number
  color: string
}

export interface Counters {
  start: number
  end: number
  series: CounterSeries[]
}

/** Draws a series into a box: up to the highest value of each slice lightly, up to the mean strongly. */
export function drawCounter(
  context: CanvasRenderingContext2D,
  counters: Counters,
  series: CounterSeries,
  toX: (time: number) => number,
  box: { left: number; right: number; top: number; bottom: number },
  theme: Theme,
): void {
  const slices = series.mean.length
  const range = series.max - series.min
  if (slices === 0 || range <= 0) return
  const step = (counters.end - counters.start) / slices
  const height = box.bottom - box.top
  // What is not at the bottom is seen.
  const y = (value: number) =>
    box.bottom - Math.max(value > series.min ? 1 : 0, ((Math.min(value, series.max) - series.min) / range) * height)
  const left = (i: number) => Math.min(Math.max(toX(counters.start + i * step), box.left), box.right)
  // One path each: slices narrower than a pixel side by side would leave stripes.
  for (const [values, strength] of [
    [series.high, 0.3],
    [series.mean, 0.75],
  ] as const) {
    context.fillStyle = paint(series.color, strength, theme).fill
    context.beginPath()
    let open = false
    for (let i = 0; i < slices; i++) {
      const value = values[i]
      if (value === null || left(i + 1) <= box.left || left(i) >= box.right) {
        if (open) context.lineTo(left(i), box.bottom)
        open = false
        continue
      }
      if (!open) context.moveTo(left(i), box.bottom)
      open = true
      context.lineTo(left(i), y(value))
      context.lineTo(left(i + 1), y(value))
    }
    if (open) context.lineTo(left(slices), box.bottom)
    context.fill()
  }
}

/** The slice that holds a time; -1 = none. */
export function sliceAt(counters: Counters, time: number): number {
  const slices = counters.series[0]?.mean.length ?? 0
  const i = Math.floor(((time - counters.start) / (counters.end - counters.start)) * slices)
  return i >= 0 && i < slices ? i : -1
}
