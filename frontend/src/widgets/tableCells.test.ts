import { expect, test } from 'vitest'
import type { Column, Unit } from '../api/payloads'
import { fittingWidths, noiseOf, shortSequence, startWidth, twoLines } from './tableCells'

const column = (key: string, unit: Unit, share = false): Column => ({
  metric: { key, title: key, unit, definition: '', window: '' },
  hidden: false,
  share,
})
const COLUMNS = [
  column('name', 'code'),
  column('calls', 'count'),
  column('total_ns', 'ns', true),
  column('operator', 'code'),
  column('phase', 'code'),
]
const STARTS = new Map(Object.entries({ name: 200, calls: 80, total_ns: 150, operator: 210, phase: 100 }))

test.each([
  { room: 1000, widths: [460, 80, 150, 210, 100], says: 'the name takes what is left' },
  { room: 740, widths: [250, 80, 98, 210, 100], says: 'without bars all fits', left: 2 },
  { room: 700, widths: [250, 80, 98, 172, 100], says: 'texts share, a short name stays whole' },
  { room: 600, widths: [216, 80, 98, 106, 100], says: 'texts share' },
  { room: 500, widths: [250, 80, 150, 210, 100], says: 'what cannot fit keeps its width, and none is cut', left: 20 },
])('$room px: $says', ({ room, widths, left = 0 }) => {
  const found = fittingWidths(COLUMNS, STARTS, 'name', room)
  expect(COLUMNS.map(({ metric }) => found.get(metric.key))).toEqual([widths[0] + left, ...widths.slice(1)])
})

test.each([
  { room: 1000, widths: [390, 80, 150, 280, 100], says: 'other texts are whole before the name takes the rest' },
  { room: 800, widths: [250, 80, 150, 220, 100], says: 'the name is whole first' },
])('$room px: $says', ({ room, widths }) => {
  const whole = new Map([...STARTS, ['operator', 280]])
  const found = fittingWidths(COLUMNS, STARTS, 'name', room, whole)
  expect(COLUMNS.map(({ metric }) => found.get(metric.key))).toEqual(widths)
})

test('a title and its unit fill two lines', () => {
  expect(twoLines('Self increase', 'bytes')).toBe('Self increase'.length)
  expect(twoLines('Share of GPU time', 'ratio')).toBe('GPU time (%)'.length)
  expect(twoLines('Calls', 'count')).toBe('Calls'.length)
})

test('a ratio that reads as times gets the room of its word', () => {
  const ratio = column('ratio', 'ratio')
  expect(startWidth(ratio, [{ ratio: 1.5 }, { ratio: 17.5 }], 300)).toBeGreaterThan(
    startWidth(ratio, [{ ratio: 1.5 }], 300),
  )
})

test('a number with many digits is whole', () => {
  const sum = column('flops', 'number')
  expect(startWidth(sum, [{ flops: 3_298_534_883_328 }], 300)).toBeGreaterThan('3,298,534,883,328'.length * 8)
  expect(startWidth(sum, [{ flops: 5 }], 300)).toBeLessThan(100)
})

test('a sequence of kernels says of each what it does, and equal neighbours once', () => {
  const add = 'void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, int>(int)'
  expect(shortSequence([add, add, 'my_gemm', add].join(' → '))).toBe('add × 2 → my_gemm → add')
  expect(shortSequence('one')).toBe('one')
})

test('a change within noise has its interval', () => {
  const row = { noise: 'within noise', interval_low_ns: -1e6, interval_high_ns: 3e6 }
  expect(noiseOf(row, 'ns')).toEqual({ isWithin: true, text: 'within noise, 95 % interval -1.00 ms to +3.00 ms' })
  expect(noiseOf({ ...row, noise: 'significant' }, 'ns')?.isWithin).toBe(false)
  expect(noiseOf({ ...row, noise: null }, 'ns')).toBeNull()
  expect(noiseOf(row, 'count')).toBeNull()
})
