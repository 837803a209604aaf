import { expect, it } from 'vitest'
import { colorStrength, flameModel, lineCount, lineOf, neighbour, nodeAt, parentsText } from './flameGraph'
import { LIGHT } from './surface'

const node = (label: string, parent: number, value: number) => ({ label, parent, value, category: 'cpu' })
// model > (a > a1), b; b claims more than its parent has left
const MODEL = flameModel([
  node('model', -1, 10),
  node('a', 0, 4),
  node('a1', 1, 3),
  node('b', 0, 8),
  node('loss', -1, 5),
])

it('gives every node a place inside its parent', () => {
  expect([...MODEL.width]).toEqual([12, 4, 3, 8, 5])
  expect([...MODEL.left]).toEqual([0, 0, 0, 4, 12])
  expect([...MODEL.depth]).toEqual([0, 1, 2, 1, 0])
  expect(MODEL.total).toBe(17)
})

it('finds what is under the pointer, zoomed or not', () => {
  const scene = { model: MODEL, found: null, zoom: -1, selected: -1, hover: -1, width: 170, theme: LIGHT }
  expect(nodeAt(scene, 50, 25)).toBe(3)
  expect(nodeAt(scene, 130, 5)).toBe(4)
  expect(nodeAt(scene, 130, 25)).toBe(-1)
  expect(nodeAt({ ...scene, zoom: 1 }, 100, 50)).toBe(2)
  expect(nodeAt({ ...scene, zoom: 1 }, 160, 5)).toBe(0)
  expect(nodeAt({ ...scene, zoom: 2 }, 160, 25)).toBe(2)
})

it('walks by arrow keys', () => {
  expect(neighbour(MODEL, -1, 'ArrowDown')).toBe(0)
  expect(neighbour(MODEL, 0, 'ArrowDown')).toBe(1)
  expect(neighbour(MODEL, 1, 'ArrowRight')).toBe(3)
  expect(neighbour(MODEL, 3, 'ArrowRight')).toBe(3)
  expect(neighbour(MODEL, 0, 'ArrowRight')).toBe(4)
  expect(neighbour(MODEL, 2, 'ArrowUp')).toBe(1)
})

it('lets what a search does not find fade', () => {
  const scene = { model: MODEL, found: null, zoom: -1, selected: -1, hover: -1, width: 170, theme: LIGHT }
  const strengths = (found: boolean[] | null) => MODEL.nodes.map((_, i) => colorStrength({ ...scene, found }, i))
  expect(strengths([true, false, true, false, false])).toEqual([1, 0.25, 1, 0.25, 0.25])
  expect(strengths(null)).toEqual([1, 0.88, 0.75, 0.88, 1])
})

it('gives the rows of what is around a zoomed node to what is beneath it', () => {
  expect([-1, 0, 1, 2, 4].map((zoom) => lineCount(MODEL, zoom))).toEqual([3, 3, 3, 2, 1])
  expect([0, 1, 2, 3, 4].map((node) => lineOf(MODEL, 1, node))).toEqual([-1, 1, 2, -1, -1])
  expect([0, 1, 2, 3, 4].map((node) => lineOf(MODEL, -1, node))).toEqual([0, 1, 2, 1, 0])
  expect(parentsText(MODEL, 2)).toBe('\u25b2 2 frames above: a \u2039 model')
})
