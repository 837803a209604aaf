import { expect, test } from 'vitest'
import { inSight, isOpen, nearSight, OPEN, SECTION, sectionAt, stack } from './ranksLayout'

test('sections stand below each other, and those in sight are found among a thousand', () => {
  const { places, content } = stack(Array.from({ length: 1024 }, (_, i) => (i === 3 ? 100 : 0)))
  expect(content).toBe(1024 * SECTION + 100)
  expect(inSight(places, 0, 3 * SECTION)).toEqual([0, 3])
  // The open one is longer than its head.
  expect(inSight(places, 3 * SECTION + 101, SECTION)).toEqual([3, 5])
  expect(inSight(places, content - SECTION, SECTION)).toEqual([1023, 1024])
  const [first, last] = nearSight(places, 500 * SECTION, 10 * SECTION)
  expect(first).toBeLessThan(500)
  expect(last - first).toBeLessThan(30)
  expect(inSight([], 0, 100)).toEqual([0, 0])
})

test('a height belongs to one section, or to none', () => {
  const { places, content } = stack([50, 0])
  expect([-1, 0, SECTION + 49, SECTION + 50, content].map((y) => sectionAt(places, y))).toEqual([-1, 0, 0, 1, -1])
})

test('few sections are open by themselves; a person turns one the other way', () => {
  expect(isOpen('a', OPEN, new Set())).toBe(true)
  expect(isOpen('a', OPEN + 1, new Set())).toBe(false)
  expect(isOpen('a', OPEN, new Set(['a']))).toBe(false)
  expect(isOpen('a', OPEN + 1, new Set(['a']))).toBe(true)
})
