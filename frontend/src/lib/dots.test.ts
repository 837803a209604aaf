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

// By hand: areas 1, 1, 0.05 and 0.04 at rates from 1e-7 to 100, below a limit of 1000.
const rates = {
  groups: [
    { ...group(['mm', 'add', 'fill', 'eq'], [1, 1, 0.05, 0.04]), x: [100, 1, 0.5, 0.1], y: [100, 0.1, 1e-7, 1e-6] },
  ],
  limits: [{ title: '1,000', x: [0.05, 200], y: [0.2, 1000] }],
}

it('leaves out low dots of a small area if an axis has more than six decades', () => {
  expect(logRange(rates, 'y')).toEqual([0.1, 3000])
  expect(logRange(rates, 'x')).toEqual([0.01, 200])
  expect(dotsOutside(rates)).toEqual({ count: 2, share: 0.09 / 2.09 })
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
