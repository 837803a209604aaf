import { expect, test } from 'vitest'
import { SHOWN, shownAround } from './picker'

const numbers = (count: number) => Array.from({ length: count }, (_, i) => i)

test('few choices are all shown', () => {
  expect(shownAround(numbers(SHOWN), 7)).toEqual({ before: 0, shown: numbers(SHOWN) })
  expect(shownAround([], -1)).toEqual({ before: 0, shown: [] })
})

test.each([
  [-1, 0],
  [0, 0],
  [500, 500 - SHOWN / 2],
  [999, 1000 - SHOWN],
])('of a thousand choices those around the chosen one are shown (%i)', (index, before) => {
  const found = shownAround(numbers(1000), index)
  expect(found.before).toBe(before)
  expect(found.shown).toHaveLength(SHOWN)
  expect(found.shown[0]).toBe(before)
  if (index >= 0) expect(found.shown).toContain(index)
})
