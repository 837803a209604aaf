// Counter charts: mean, minimum and maximum per time slice.
import { boxColors, type Theme } from '../surface'

export interface CounterSeries {
  key: string
  title: string
  subtitle: string
  /** Id of the device that it is about, null = none. */
  device: string | null
  say: (value: number) => string
  /** By slice; null if unknown. */
  mean: readonly (number | null)[]
  low: readonly (number | null)[]
  high: readonly (number | null)[]
  /** The lowest and the highest value of the whole trace. */
  min: number
  max: number
  /** Bottom and top of the chart, including 0. */
  bottom: number
  top: number
  color: string
}

export interface Counters {
  start: number
  end: number
  series: CounterSeries[]
}

/** The value range of a chart: includes 0, and 1 for shares. */
export const scaleOf = (min: number, max: number, isShare: boolean): { bottom: number; top: number } => ({
  bottom: Math.min(min, 0),
  top: Math.max(max, isShare ? 1 : 0),
})

/** The text beside a chart: value under the pointer and its range. */
export function rangeText({ min, max, say }: CounterSeries, value: number | null): string {
  if (min < 0) return value === null ? `${say(min)} to ${say(max)}` : `${say(value)}, ${say(min)} to ${say(max)}`
  return value === null ? `up to ${say(max)}` : `${say(value)} of up to ${say(max)}`
}

/** Draws a series into a box, from 0 on: up to the highest value of each slice lightly, up to the mean strongly. */
export function drawCounter(
  context: CanvasRenderingContext2D,
  counters: Counters,
  series: CounterSeries,
  toX: (time: number) => number,
  box: { left: number; right: number; top: number; bottom: number },
  theme: Theme,
): void {
  const slices = series.mean.length
  const range = series.top - series.bottom
  if (slices === 0 || range <= 0) return
  const step = (counters.end - counters.start) / slices
  const height = box.bottom - box.top
  const zero = box.bottom + (series.bottom / range) * height
  // Values above 0 are always visible.
  const y = (value: number) =>
    zero - Math.sign(value) * Math.max(value === 0 ? 0 : 1, (Math.abs(value) / range) * height)
  const far = series.high.map((high, i) => {
    const low = series.low[i]
    return high !== null && low !== null && -low > high ? low : high
  })
  const left = (i: number) => Math.min(Math.max(toX(counters.start + i * step), box.left), box.right)
  // One path each, because adjacent narrow slices would leave stripes.
  for (const [values, strength] of [
    [far, 0.3],
    [series.mean, 0.75],
  ] as const) {
    context.fillStyle = boxColors(series.color, strength, theme).fill
    context.beginPath()
    let open = false
    for (let i = 0; i < slices; i++) {
      const value = values[i]
      if (value === null || left(i + 1) <= box.left || left(i) >= box.right) {
        if (open) context.lineTo(left(i), zero)
        open = false
        continue
      }
      if (!open) context.moveTo(left(i), zero)
      open = true
      context.lineTo(left(i), y(value))
      context.lineTo(left(i + 1), y(value))
    }
    if (open) context.lineTo(left(slices), zero)
    context.fill()
  }
}

/** The name of a chart in a narrow column. */
export const narrowTitle = (title: string) =>
  title.replace(/^Launch queue depth/, 'Queue depth').replace(/^Memory, (allocated|change)$/, 'Memory')

export function sliceAt(counters: Counters, time: number): number {
  const slices = counters.series[0]?.mean.length ?? 0
  const i = Math.floor(((time - counters.start) / (counters.end - counters.start)) * slices)
  return i >= 0 && i < slices ? i : -1
}
