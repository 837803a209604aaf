import { describe, expect, it } from 'vitest'
import type { Line, Series } from '../api/payloads'
import { pairsOf, sizePlotText } from './sizePlot'

const line = (key: string, category: string, values: (number | null)[]): Line => ({
  metric: { key, title: category, unit: 'bytes_per_second', definition: '', window: '' },
  category,
  values,
})
const series = {
  name: 'bandwidth',
  title: 'Bus bandwidth by size',
  lines: [
    line('typical_bus_bandwidth', 'slice0', [1e9, 2e9, null]),
    line('fitted_bus_bandwidth', 'slice0', [1.1e9, 1.9e9, null]),
    line('typical_bus_bandwidth', 'slice1', [null, null, 3e9]),
  ],
} as unknown as Series

describe('bandwidth by size', () => {
  it('pairs dots with the line that fits them', () => {
    expect(pairsOf(series).map(({ measured, fit }) => [measured.category, fit?.values[0] ?? null])).toEqual([
      ['slice0', 1.1e9],
      ['slice1', null],
    ])
  })
  it('is told in words', () => {
    expect(sizePlotText(series)).toBe(
      'Bus bandwidth by size. slice0: 2 sizes, at most 2.00 GB/s, with a fit; slice1: 1 sizes, at most 3.00 GB/s.',
    )
  })
})
