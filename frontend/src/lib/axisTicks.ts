// Ticks of an axis.

/** The smallest step of 1, 2 or 5 times a power of ten that is at least `room(step)` pixels wide. */
export function rulerStep(perPixel: number, room: (step: number) => number): number {
  for (let power = 10 ** Math.floor(Math.log10(perPixel)); ; power *= 10)
    for (const unit of [1, 2, 5]) {
      const step = unit * power
      if (step >= 1 && step / perPixel >= room(step)) return step
    }
}

/** Into how many parts a ruler divides such a step: each is a whole number of nanoseconds. */
export const divisions = (step: number): number => Math.min(step, 10)

export function multiples(start: number, end: number, step: number): number[] {
  const out: number[] = []
  for (let i = Math.ceil(start / step); i * step <= end; i++) out.push(i * step)
  return out
}

export const clamp = (value: number, low: number, high: number) => Math.min(Math.max(value, low), Math.max(low, high))

/** By decimals: making one costs more than using it, and a ruler is labelled anew in every frame. */
const formats: Intl.NumberFormat[] = []

/** Time of a tick, with as many decimals as the step needs. */
export function tickLabel(ns: number, step: number, span: number): string {
  const [factor, symbol] = span >= 2e9 ? [1e9, 's'] : span >= 2e6 ? [1e6, 'ms'] : span >= 2e3 ? [1e3, 'µs'] : [1, 'ns']
  const decimals = Math.max(0, Math.ceil(-Math.log10(step / factor) - 1e-9))
  formats[decimals] ??= new Intl.NumberFormat('en-US', {
    minimumFractionDigits: decimals,
    maximumFractionDigits: decimals,
  })
  return `${formats[decimals].format(ns / factor)} ${symbol}`
}
