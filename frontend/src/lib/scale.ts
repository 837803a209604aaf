// Axes: where ticks stand.

/** A step of 1, 2 or 5 times a power of ten that gives about `count` ticks. */
export function niceStep(span: number, count: number): number {
  const rough = span / Math.max(1, count)
  const power = 10 ** Math.floor(Math.log10(rough))
  const unit = rough / power
  return (unit <= 1 ? 1 : unit <= 2 ? 2 : unit <= 5 ? 5 : 10) * power
}

export function ticks(start: number, end: number, count: number): number[] {
  if (!(end > start)) return []
  const step = niceStep(end - start, count)
  const out: number[] = []
  for (let i = Math.ceil(start / step); i * step <= end; i++) out.push(i * step)
  return out
}

export const clamp = (value: number, low: number, high: number) => Math.min(Math.max(value, low), Math.max(low, high))

/** Time of a tick, with as many decimals as the step needs. */
export function tickLabel(ns: number, step: number, span: number): string {
  const [factor, symbol] = span >= 2e9 ? [1e9, 's'] : span >= 2e6 ? [1e6, 'ms'] : span >= 2e3 ? [1e3, 'µs'] : [1, 'ns']
  const decimals = Math.max(0, Math.ceil(-Math.log10(step / factor) - 1e-9))
  return `${(ns / factor).toLocaleString('en-US', { minimumFractionDigits: decimals, maximumFractionDigits: decimals })} ${symbol}`
}
