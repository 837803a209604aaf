import { expect, test } from 'vitest'
import { type TreeOrder, treeSequence } from './treeOrder'

// net(layer_10(b, a), layer_2), other
const PARENT = [-1, 0, 1, 1, 0, -1]
const NAMES = ['net', 'layer_10', 'b', 'a', 'layer_2', 'another']
const VALUES = [9, 3, 1, 2, 5, 10]

test.each<{ order: TreeOrder; nodes: number[] }>([
  { order: '', nodes: [0, 1, 2, 3, 4, 5] },
  { order: 'name', nodes: [5, 0, 4, 1, 3, 2] },
  { order: 'value', nodes: [5, 0, 4, 1, 3, 2] },
])('order "$order"', ({ order, nodes }) => {
  expect(treeSequence(PARENT, NAMES, VALUES, order)).toEqual(nodes)
})

test('equal ones stay as they came', () => {
  expect(treeSequence([-1, -1, -1], ['x', 'x', 'x'], [1, 1, 1], 'value')).toEqual([0, 1, 2])
  expect(treeSequence([-1, -1], ['x_2', 'x_2'], [1, 2], 'name')).toEqual([0, 1])
})
