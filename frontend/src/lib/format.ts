// The page's only number formatter. tests/format_cases.json has the cases that the Python formatter must pass as well.
import type { Scalar, Unit } from '../api/payloads'

/** A display unit: `value / factor` in `symbol`. */
export interface Scale {
  unit: Unit
  factor: number
  symbol: string
}

const DASH = '–'
const TIME: [number, string][] = [
  [1, 'ns'],
  [1e3, 'µs'],
  [1e6, 'ms'],
  [1e9, 's'],
]
const BYTES: [number, string][] = [
  [1, 'B'],
  [2 ** 10, 'KiB'],
  [2 ** 20, 'MiB'],
  [2 ** 30, 'GiB'],
  [2 ** 40, 'TiB'],
]
const RATE: [number, string][] = [
  [1, 'B/s'],
  [1e3, 'kB/s'],
  [1e6, 'MB/s'],
  [1e9, 'GB/s'],
  [1e12, 'TB/s'],
]
/** Units by size, smallest first: how many of the base unit one is, and its symbol. */
export const LADDERS: Partial<Record<Unit, [number, string][]>> = {
  ns: TIME,
  bytes: BYTES,
  bytes_per_second: RATE,
  watts: [[1, 'W']],
  celsius: [[1, '°C']],
  hertz: [[1e6, 'MHz']], // the one in which clocks of processors are compared
}

/** The scale of a column with maximum `max`. */
export function scaleFor(unit: Unit, max: number): Scale {
  if (unit === 'ratio') return { unit, factor: 0.01, symbol: '%' }
  const ladder = LADDERS[unit]
  if (!ladder) return { unit, factor: 1, symbol: '' }
  let best = ladder[0]
  for (const step of ladder) if (Number(Math.abs(max / step[0]).toPrecision(3)) >= 1) best = step
  return { unit, factor: best[0], symbol: best[1] }
}

/** One scale for a whole column, one step smaller if the smallest value would vanish and the largest stays short. */
export function columnScale(unit: Unit, values: Iterable<Scalar>): Scale {
  let max = 0
  let min = Number.POSITIVE_INFINITY
  for (const value of values) {
    if (typeof value !== 'number' || value === 0) continue
    max = Math.max(max, Math.abs(value))
    min = Math.min(min, Math.abs(value))
  }
  const scale = scaleFor(unit, max)
  const smaller = LADDERS[unit]?.filter(([factor]) => factor < scale.factor).at(-1)
  const longest = unit === 'ns' ? 10_000 : 100_000
  if (!smaller || min / scale.factor >= 0.01 || max / smaller[0] >= longest) return scale
  return { unit, factor: smaller[0], symbol: smaller[1] }
}

/** Keys of single-call values, including latency, of which waiting and transfer are parts. */
const ONE =
  /(^|_)(mean|min|max|p\d+|median|longest|shortest|dur|delay|lifetime|lateness|skew|residual|latency_(low|high))(_|$)|_latency(_|$)/
const UPKEEP = /(^|_)(guard|wrapper|break)_ns$/
const BEFORE = /^before_/
const MOMENT = /(^|_)(at|time|start|end|hit|moment|issued|needed)_ns$/

/**
 * The unit family of a column: sums, single-call values (mean, p50, max, ...), times, compiled-code overhead, time
 * before an event. tests/format_cases.json has the cases for page and terminal.
 */
export function familyOf(key: string, unit: Unit): string {
  if (!LADDERS[unit]) return key
  const families: [string, RegExp][] = [
    ['one', ONE],
    ['moment', MOMENT],
    ['upkeep', UPKEEP],
    ['before', BEFORE],
  ]
  return `${unit} ${families.find(([, told]) => told.test(key))?.[0] ?? 'sum'}`
}

/** A row's own duration, whose parts add up to it. */
const OF_EVENT = 'dur_ns'

/** The scales of a table's columns, one for each family of them; `valuesOf` gives values, or the extremes, of a column. */
export function familyScales(
  columns: readonly { metric: { key: string; unit: Unit }; hidden?: boolean }[],
  valuesOf: (key: string) => readonly Scalar[],
): Map<string, Scale> {
  const families = new Map<string, { unit: Unit; values: Scalar[] }>()
  const isOfEvents = columns.some(({ metric, hidden }) => metric.key === OF_EVENT && !hidden)
  const inTable = ({ key, unit }: { key: string; unit: Unit }) => {
    const family = familyOf(key, unit)
    return isOfEvents && family === 'ns sum' ? 'ns one' : family
  }
  for (const { metric } of columns) {
    const family = inTable(metric)
    const values = families.get(family)?.values ?? []
    families.set(family, { unit: metric.unit, values: values.concat(valuesOf(metric.key)) })
  }
  const scales = new Map([...families].map(([family, { unit, values }]) => [family, columnScale(unit, values)]))
  return new Map(columns.map(({ metric }) => [metric.key, scales.get(inTable(metric)) ?? scaleFor(metric.unit, 0)]))
}

const grouped = (decimals: number) =>
  new Intl.NumberFormat('en-US', { minimumFractionDigits: decimals, maximumFractionDigits: decimals })
const GROUPED = [0, 1, 2, 3].map(grouped)

/** Three significant digits, at most three decimals; whole numbers stay whole. */
function digits(value: number): string {
  if (!Number.isFinite(value)) return DASH
  const size = Math.abs(value)
  if (Number.isInteger(value)) return GROUPED[0].format(value)
  if (size < 0.0005) return value < 0 ? '>-0.001' : '<0.001'
  const decimals = size >= 99.95 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3
  return GROUPED[decimals].format(value)
}

/** From here on, a ratio reads "12.5 times" instead of "1,250.0 %". */
export const TIMES_FROM = 10
const TIMES = ' times'

function percent(value: number): string {
  if (Math.abs(value) >= TIMES_FROM) return digits(value) + TIMES
  const shown = value * 100
  if (shown !== 0 && Math.abs(shown) < 0.05) return value < 0 ? '>-0.1' : '<0.1'
  return GROUPED[1].format(shown)
}

/** The number without unit, as in a table cell. */
export function formatNumber(value: Scalar, scale: Scale): string {
  if (value === null || value === undefined) return DASH
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  if (typeof value === 'string') return value === '' ? DASH : value
  if (scale.unit === 'ratio') return percent(value)
  if (scale.unit === 'unix_ms') return formatTime(value)
  // Whole nanoseconds or bytes stay whole; 12 of a larger unit is 12.0.
  if (scale.factor === 1 || value === 0) return digits(value)
  const scaled = value / scale.factor
  const size = Math.abs(scaled)
  if (size < 0.0005) return digits(scaled)
  const decimals = size >= 99.95 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3
  return GROUPED[decimals].format(scaled)
}

/** A value with its unit. Without a scale the value chooses its own. */
export function format(value: Scalar, unit: Unit, scale?: Scale): string {
  if (value === null || value === undefined) return DASH
  const used = scale ?? scaleFor(unit, typeof value === 'number' ? value : 0)
  const text = formatNumber(value, used)
  return used.symbol && typeof value === 'number' && !text.endsWith(TIMES) ? `${text} ${used.symbol}` : text
}

/** An axis label with enough decimals for `step` (a power of two), at most three. */
export function formatMark(value: number, step: number, scale: Scale): string {
  const decimals = Math.min(3, Math.max(0, Math.ceil(Math.log2(scale.factor / step))))
  return value === 0 ? '0' : `${GROUPED[decimals].format(value / scale.factor)} ${scale.symbol}`
}

/** A range in the unit of the upper bound, `59.0 to 60.1 ms`; one number if both read alike. */
export function formatRange(low: number, high: number, unit: Unit, scale: Scale = scaleFor(unit, high)): string {
  const [first, last] = [low, high].map((value) => formatNumber(value, scale))
  const upper = `${last} ${scale.symbol}`.trimEnd()
  return first === last ? upper : low ? `${first} to ${upper}` : `up to ${upper}`
}

/** Metrics that hold a change: shown with their sign. */
export const isChange = (key: string) => /(^|_)delta_/.test(key)

/** Adds a plus to an increase; a change too small to be shown is about 0. */
export const signed = (text: string, value: Scalar) =>
  /^[<>]/.test(text) ? '≈0' : typeof value === 'number' && value > 0 ? `+${text}` : text

const NANOSECONDS = new Intl.NumberFormat('en-US', { maximumFractionDigits: 9 })

/** A single event's value with every digit that it has: `2.918005 ms`. */
export function precise(value: Scalar, unit: Unit): string {
  if (unit !== 'ns' || typeof value !== 'number' || !Number.isInteger(value)) return format(value, unit)
  const scale = scaleFor(unit, value)
  return `${NANOSECONDS.format(value / scale.factor)} ${scale.symbol}`
}

const EXACT: Partial<Record<Unit, string>> = {
  ns: ' ns',
  bytes: ' bytes',
  bytes_per_second: ' bytes/s',
  watts: ' W',
  celsius: ' °C',
  hertz: ' Hz',
}
const FULL = new Intl.NumberFormat('en-US', { maximumFractionDigits: 6 })

/** The exact value, for hover and copy. */
export function exactText(value: Scalar, unit: Unit): string {
  if (value === null || value === undefined) return 'no value'
  if (typeof value !== 'number') return format(value, unit)
  if (unit === 'ratio') return `${FULL.format(value * 100)} %`
  if (unit === 'unix_ms') return new Date(value).toISOString()
  return `${FULL.format(value)}${EXACT[unit] ?? ''}`
}

/** Wall time in the reader's zone (or the given one): `2026-11-20 14:03:12`. */
export function formatTime(unixMs: number, zone?: string): string {
  const parts = new Intl.DateTimeFormat('en-GB', {
    timeZone: zone,
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hourCycle: 'h23',
  }).formatToParts(unixMs)
  const get = (type: string) => parts.find((part) => part.type === type)?.value ?? ''
  return `${get('year')}-${get('month')}-${get('day')} ${get('hour')}:${get('minute')}:${get('second')}`
}

/** The scale if its unit matches, else undefined. */
export const scaleOf = (scale: Scale | undefined, unit: Unit) => (scale?.unit === unit ? scale : undefined)

/** A number with its noun: `1 segment`, `2,148 segments`. */
export const counted = (count: number, one: string, many = `${one}s`) =>
  `${count.toLocaleString('en-US')} ${count === 1 ? one : many}`

export const isNumeric = (unit: Unit) => unit !== 'text' && unit !== 'code' && unit !== 'bool' && unit !== 'unix_ms'
