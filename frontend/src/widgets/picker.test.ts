import { expect, test } from 'vitest'
import { listedChoices, MAX_LISTED } from './picker'

const numbers = (count: number) => Array.from({ length: count }, (_, i) => i)

test('few choices are all shown', () => {
  expect(listedChoices(numbers(MAX_LISTED), 7)).toEqual({ before: 0, shown: numbers(MAX_LISTED) })
  expect(listedChoices([], -1)).toEqual({ before: 0, shown: [] })
})

test.each([
  [-1, 0],
  [0, 0],
  [500, 500 - MAX_LISTED / 2],
  [999, 1000 - MAX_LISTED],
])('of a thousand choices those around the chosen one are shown (%i)', (index, before) => {
  const found = listedChoices(numbers(1000), index)
  expect(found.before).toBe(before)
  expect(found.shown).toHaveLength(MAX_LISTED)
  expect(found.shown[0]).toBe(before)
  if (index >= 0) expect(found.shown).toContain(index)
})
