import { expect, it } from 'vitest'
import type { Scatter } from '../api/payloads'
import { dotsOf, dotsOutside, logRange } from './dots'

const group = (label: string[], share: number[] = []) => ({
  title: label[0],
  category: 'matrix',
  label,
  x: label.map((_, i) => i + 1),
  y: label.map((_, i) => 10 * (i + 1)),
  share,
})

it('picks the dots with these labels and stays with its groups', () => {
  const scatter = { groups: [group(['mm', 'bmm', 'conv'], [1, 0.5, 0.2]), group(['add', 'mul'])] } as unknown as Scatter
  const [matrix, others] = dotsOf(scatter, new Set(['conv', 'mm'])).groups
  expect(matrix).toEqual({ ...group(['mm', 'conv'], [1, 0.2]), x: [1, 3], y: [10, 30] })
  expect(others).toEqual({ ...group(['add']), label: [], x: [], y: [] })
})

// By hand: areas 1, 1, 0.03 and 0.02 at rates from 1e-7 to 100, below a limit of 1000.
const rates = {
  groups: [
    { ...group(['mm', 'add', 'fill', 'eq'], [1, 1, 0.03, 0.02]), x: [100, 1, 0.5, 0.1], y: [100, 0.1, 1e-7, 1e-6] },
  ],
  limits: [{ title: '1,000', x: [0.05, 200], y: [0.2, 1000] }],
}

it('leaves out low dots of a small area if an axis has more than six decades', () => {
  expect(logRange(rates, 'y')).toEqual([0.1, 3000])
  expect(logRange(rates, 'x')).toEqual([0.01, 200])
  const { count, share } = dotsOutside(rates)
  expect(count).toBe(2)
  expect(share).toBeCloseTo(0.05 / 2)
})

it('leaves out at most 5 % of the area of all dots on both axes together', () => {
  // 0.024 of the area is low on one axis, and 0.024 on the other.
  const both = { ...group(['mm', 'low', 'left'], [0.952, 0.024, 0.024]), x: [1e3, 1e3, 1e-6], y: [1e3, 1e-6, 1e3] }
  expect(dotsOutside({ groups: [both], limits: [] }).count).toBe(2)
  // 0.04 on each axis would be 0.08.
  const more = { ...both, share: [0.92, 0.04, 0.04] }
  expect(dotsOutside({ groups: [more], limits: [] })).toEqual({ count: 0, share: 0 })
})

it('may start after the lines of limits', () => {
  const dots = { ...group(['mm', 'low'], [1, 0.01]), x: [1, 1], y: [1, 1e-6] }
  const drawn = { groups: [dots], limits: [{ title: '1', x: [1, 2], y: [5e-7, 1e6] }] }
  expect(logRange(drawn, 'y')[0]).toBe(1)
})

it('shows low dots of a large area', () => {
  const [{ label, x, y }] = rates.groups
  const large = { ...rates, groups: [{ ...group(label, [1, 1, 0.2, 0.01]), x, y }] }
  expect(logRange(large, 'y')[0]).toBe(1e-7)
  expect(dotsOutside(large).count).toBe(0)
})

it('shows at least two decades', () => {
  const one = { groups: [{ ...group(['mm']), x: [100], y: [100] }], limits: [] }
  expect(logRange(one, 'x')).toEqual([1, 100])
})
