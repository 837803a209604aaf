import { expect, test } from 'vitest'
import { columnLabels } from './heat'

const places = (...asked: Parameters<typeof columnLabels>) => columnLabels(...asked).map(({ at }) => at)

test('the column of the largest value has a name, in place of those that it would run into', () => {
  expect(places(4, 1, [2])).toEqual([0, 1, 2, 3])
  expect(places(64, 6, [])).toEqual([0, 6, 12, 18, 24, 30, 36, 42, 48, 54, 60])
  expect(places(64, 6, [21])).toEqual([0, 6, 12, 21, 30, 36, 42, 48, 54, 60])
  expect(places(64, 6, [2, 4, 18])).toEqual([2, 12, 18, 24, 30, 36, 42, 48, 54, 60])
  expect(places(0, 6, [])).toEqual([])
})

test('the name of one of the last columns ends above it', () => {
  expect(columnLabels(64, 6, [63]).slice(-2)).toEqual([
    { at: 48, isEnd: false },
    { at: 63, isEnd: true },
  ])
  expect(columnLabels(64, 6, [60]).at(-1)).toEqual({ at: 60, isEnd: false })
})
