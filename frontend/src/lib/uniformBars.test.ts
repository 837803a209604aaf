import { expect, test } from 'vitest'
import type { Line } from '../api/payloads'
import { areUniform } from './uniformBars'

const line = (...values: (number | null)[]): Line => ({
  metric: { key: 'k', title: 'k', unit: 'ns', definition: '', window: '' },
  category: 'compute',
  values,
})
const x = ['a', 'b', 'c', 'd', 'e']

test('bars are alike when no part of one differs by more than 2 % of a bar', () => {
  expect(areUniform({ x, lines: [line(99, 100, 100, 99, 100), line(1, 0, 0, 1, 0)] })).toBe(true)
  // As high as the others, and yet another rank: it computes where they wait.
  expect(areUniform({ x, lines: [line(10, 10, 10, 10, 40), line(90, 90, 90, 90, 60)] })).toBe(false)
  expect(areUniform({ x, lines: [line(10, 10, null, 10, 10)] })).toBe(false)
  expect(areUniform({ x: x.slice(0, 4), lines: [line(1, 1, 1, 1)] })).toBe(false)
})
