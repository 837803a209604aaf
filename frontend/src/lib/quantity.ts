// Sizes and times as typed ("1.5 MiB", "200 us").
import type { Unit } from '../api/payloads'
import { LADDERS } from './format'

/** Other unit spellings. KB of memory means 1,024 bytes, as allocators use it. */
const ALSO: Record<string, string> = {
  k: 'kib',
  kb: 'kib',
  m: 'mib',
  mb: 'mib',
  g: 'gib',
  gb: 'gib',
  t: 'tib',
  tb: 'tib',
}

/** The whole number; null if empty, undefined if invalid. */
export function readQuantity(text: string, unit: Unit): number | null | undefined {
  const typed = text.trim()
  if (typed === '') return null
  const match = /^(\d[\d,]*(?:\.\d+)?|\.\d+)\s*([a-zµμ]*)$/i.exec(typed)
  if (!match) return undefined
  const ladder = LADDERS[unit] ?? [[1, '']]
  const symbol = match[2].toLowerCase().replace(/^[µμ]s$/, 'us')
  const wanted = unit === 'bytes' ? (ALSO[symbol] ?? symbol) : symbol
  const factor = wanted === '' ? 1 : ladder.find(([, name]) => name.toLowerCase().replace('µs', 'us') === wanted)?.[0]
  const value = Math.round(Number(match[1].replaceAll(',', '')) * (factor ?? Number.NaN))
  return Number.isSafeInteger(value) ? value : undefined
}

/** In the largest unit that is exact with at most three decimals. */
export function writeQuantity(value: number, unit: Unit): string {
  const ladder = LADDERS[unit] ?? [[1, '']]
  for (const [factor, symbol] of [...ladder].reverse()) {
    const short = Number((value / factor).toFixed(3))
    if (value >= factor && short * factor === value) return `${short} ${symbol}`.trim()
  }
  return `${value} ${ladder[0][1]}`.trim()
}
