import { expect, test } from 'vitest'
import {
  defaultOpenCount,
  nearbyRange,
  OPEN,
  openSections,
  SECTION,
  sectionAt,
  stackSections,
  toggleSection,
  visibleRange,
} from './layout'

test('sections stand below each other, and those in sight are found among a thousand', () => {
  const { places, content } = stackSections(Array.from({ length: 1024 }, (_, i) => (i === 3 ? 100 : 0)))
  expect(content).toBe(1024 * SECTION + 100)
  expect(visibleRange(places, 0, 3 * SECTION)).toEqual([0, 3])
  // The open one is longer than its head.
  expect(visibleRange(places, 3 * SECTION + 101, SECTION)).toEqual([3, 5])
  expect(visibleRange(places, content - SECTION, SECTION)).toEqual([1023, 1024])
  const [first, last] = nearbyRange(places, 500 * SECTION, 10 * SECTION)
  expect(first).toBeLessThan(500)
  expect(last - first).toBeLessThan(30)
  expect(visibleRange([], 0, 100)).toEqual([0, 0])
})

test('a height belongs to one section, or to none', () => {
  const { places, content } = stackSections([50, 0])
  expect([-1, 0, SECTION + 49, SECTION + 50, content].map((y) => sectionAt(places, y))).toEqual([-1, 0, 0, 1, -1])
})

test('sections are open by themselves as far as they fit, but two are, and none of many', () => {
  expect(defaultOpenCount(OPEN, 40)).toBe(OPEN)
  expect(defaultOpenCount(OPEN + 1, 40)).toBe(0)
  expect(defaultOpenCount(OPEN, 100)).toBe(3)
  expect(defaultOpenCount(OPEN, 1000)).toBe(2)
  expect(defaultOpenCount(1, 1000)).toBe(1)
})

test('what a person opened or closed stays so, whatever is open by itself among more sections', () => {
  const keys = ['', 'a', 'b.open', 'c']
  expect([...openSections(keys, 2, new Set())]).toEqual(['', 'a'])
  const turned = toggleSection(toggleSection(new Set(['a a track']), '', false), 'b.open', true)
  expect([...openSections(keys, 2, turned)]).toEqual(['a', 'b.open'])
  expect([...openSections(keys, 0, turned)]).toEqual(['b.open'])
  expect([...openSections(keys, 4, turned)]).toEqual(['a', 'b.open', 'c'])
  const again = toggleSection(turned, '', true)
  expect([...openSections(keys, 0, again)]).toEqual(['', 'b.open'])
  expect(again.size).toBe(turned.size)
})
