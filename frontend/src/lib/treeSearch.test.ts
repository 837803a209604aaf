import { expect, it } from 'vitest'
import { stepHit, treeHits } from './treeSearch'

// f > (f > g), g, and f again beside them
const NAMES = ['f', 'f', 'g', 'g', 'main', 'f']
const PARENT = [-1, 0, 1, 0, -1, 4]
const VALUES = [10, 6, 2, 3, 5, 4]

it('counts what calls itself once', () => {
  const of = (name: string) => treeHits(NAMES, PARENT, VALUES, (text) => text === name)
  expect(of('f')).toEqual({ nodes: [0, 1, 5], sum: 14, total: 15 })
  expect(of('g')).toEqual({ nodes: [2, 3], sum: 5, total: 15 })
  expect(of('x')).toEqual({ nodes: [], sum: 0, total: 15 })
})

it('goes to the next hit, and around the end', () => {
  expect(stepHit([2, 5, 9], -1, false)).toBe(2)
  expect(stepHit([2, 5, 9], 5, false)).toBe(9)
  expect(stepHit([2, 5, 9], 9, false)).toBe(2)
  expect(stepHit([2, 5, 9], 5, true)).toBe(2)
  expect(stepHit([2, 5, 9], -1, true)).toBe(9)
  expect(stepHit([], 3, false)).toBe(-1)
})
