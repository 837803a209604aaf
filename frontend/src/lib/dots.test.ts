import { expect, it } from 'vitest'
import type { Scatter } from '../api/payloads'
import { dotsOf } from './dots'

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
