import { describe, expect, it } from 'vitest'
import cases from '../../../tests/format_cases.json'
import type { Scalar, Unit } from '../api/payloads'
import {
  columnScale,
  exactText,
  familyOf,
  familyScales,
  format,
  formatRange,
  formatTime,
  isChange,
  precise,
  scaleFor,
  signed,
} from './format'

interface Case {
  unit: string
  value: Scalar
  column_max?: number
  zone?: string
  text: string
}

describe('format', () => {
  it.each((cases as Case[]).filter(({ text }) => text !== undefined))(
    '$unit $value (column max $column_max) reads $text',
    ({ unit, value, column_max, zone, text }) => {
      const known = unit as Unit
      if (known === 'unix_ms') {
        expect(formatTime(value as number, zone)).toBe(text)
      } else {
        expect(format(value, known, column_max === undefined ? undefined : scaleFor(known, column_max))).toBe(text)
      }
    },
  )

  it.each(
    (cases as unknown as { unit: Unit; low: number; high: number; range?: string }[]).filter(({ range }) => range),
  )('bounds $low and $high read $range', ({ unit, low, high, range }) =>
    expect(formatRange(low, high, unit)).toBe(range),
  )

  it('keeps small sizes of a column readable', () => {
    expect(columnScale('bytes_per_second', [3.53e12, 4e8]).symbol).toBe('GB/s')
    expect(columnScale('bytes', [6 * 2 ** 30, 2 ** 30]).symbol).toBe('GiB')
    expect(columnScale('ns', [98e6, 12]).symbol).toBe('ms')
    expect(columnScale('ns', [1.2e9, 4e3]).symbol).toBe('ms')
    expect(columnScale('ns', [1.2e9, 0.4e9]).symbol).toBe('s')
  })

  it('tells the exact value', () => {
    expect(exactText(98588333, 'ns')).toBe('98,588,333 ns')
    expect(exactText(0.33412345, 'ratio')).toBe('33.412345 %')
    expect(exactText(null, 'ns')).toBe('no value')
  })
})

it('shows single events with every digit', () => {
  expect(precise(2_918_005, 'ns')).toBe('2.918005 ms')
  expect(precise(10_304, 'ns')).toBe('10.304 µs')
  expect(precise(322_412_000, 'ns')).toBe('322.412 ms')
  expect(precise(0.5, 'ratio')).toBe(format(0.5, 'ratio'))
})

it('shows a change with its sign', () => {
  expect([2e6, -2e6, 0].map((value) => signed(format(value, 'ns'), value))).toEqual(['+2.00 ms', '-2.00 ms', '0 ns'])
  expect(signed('–', null)).toBe('–')
  expect([12, -12].map((value) => signed(format(value, 'ns', scaleFor('ns', 1e9)), value))).toEqual(['≈0', '≈0'])
  expect(['delta_ns', 'leading_delta_ns', 'delta_calls', 'base_ns', 'time_ratio'].map(isChange)).toEqual([
    true,
    true,
    true,
    false,
    false,
  ])
})

it.each((cases as { key?: string; unit: string; family?: string }[]).filter(({ key }) => key))(
  '$key counts with its family',
  ({ key, unit, family }) => expect(familyOf(key ?? '', unit as Unit)).toBe(family),
)

it('gives the parts of an event the unit of the whole', () => {
  const hidden = new Set<string>()
  const values: Record<string, number[]> = { dur_ns: [1700, 6e6], wait_ns: [900], start_ns: [5e9], before_ns: [8e8] }
  const symbols = () => {
    const columns = Object.keys(values).map((key) => ({ metric: { key, unit: 'ns' as Unit }, hidden: hidden.has(key) }))
    return [...familyScales(columns, (key) => values[key]).values()].map(({ symbol }) => symbol)
  }
  expect(symbols()).toEqual(['µs', 'µs', 's', 'ms'])
  values.wait_ns = [6e6]
  expect(symbols()).toEqual(['µs', 'µs', 's', 'ms'])
  // Rows that are no events: what they sum up is apart from what one event takes.
  hidden.add('dur_ns')
  expect(symbols()).toEqual(['µs', 'ms', 's', 'ms'])
})

it('gives each family of columns one unit', () => {
  const columns = ['total_ns', 'self_ns', 'mean_ns', 'max_ns'].map((key) => ({ metric: { key, unit: 'ns' as Unit } }))
  const values: Record<string, number[]> = { total_ns: [2e9], self_ns: [3e6], mean_ns: [8591e3], max_ns: [8.69e6] }
  const scales = familyScales([...columns, { metric: { key: 'calls', unit: 'count' } }], (key) => values[key] ?? [])
  expect([...scales].map(([key, scale]) => [key, scale.symbol])).toEqual([
    ['total_ns', 'ms'],
    ['self_ns', 'ms'],
    ['mean_ns', 'ms'],
    ['max_ns', 'ms'],
    ['calls', ''],
  ])
})
