import { expect, test } from 'vitest'
import type { Heat } from '../api/payloads'
import { isSteady, sortedMeans } from './steadiness'

const metric = { key: 'k', title: 'k', unit: 'ns', definition: '', window: '' } as const
const line = (...values: (number | null)[]) => ({ metric, category: 'wait', values })

test('a spread is steady when no quantile moves by more than 2 %', () => {
  expect(isSteady({ lines: [line(100, 99, null), line(0, 0, 0)] })).toBe(true)
  expect(isSteady({ lines: [line(100, 99), line(5, 6)] })).toBe(false)
})

test('ranks stand from the largest mean to the smallest, without those that have none', () => {
  const heat = { rows: ['a', 'b', 'c'], means: [1, null, 3], metric, row_metric: metric, category: 'wait', title: 't' }
  const { x, lines } = sortedMeans(heat as unknown as Heat)
  expect([x, lines[0].values]).toEqual([
    ['c', 'a'],
    [3, 1],
  ])
})
