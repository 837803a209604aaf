import { expect, it } from 'vitest'
import type { Tree } from '../api/payloads'
import { childrenOf, levelView, nodeAt, pathOf } from './callTree'

/** [parent, name, base, exp] */
function tree(nodes: [number, string, number, number][]): Tree {
  return {
    kind: 'tree',
    name: 'call_tree',
    title: 'Call tree',
    columns: [],
    label_column: 'name',
    value_columns: [],
    total_nodes: nodes.length,
    parent: nodes.map(([parent]) => parent),
    rows: nodes.map(([, name, base, exp]) => ({
      name,
      node_kind: 'operator',
      presence: base && exp ? 'both' : base ? 'gone' : 'new',
      base_calls: 1,
      exp_calls: 1,
      base_ns: base,
      exp_ns: exp,
      delta_ns: exp - base,
    })),
  }
}

const TREE = tree([
  [-1, 'Forward', 100, 160],
  [0, 'a', 40, 30],
  [0, 'twin', 20, 0],
  [0, 'twin', 0, 90],
  [3, 'kernel', 0, 90],
  [-1, 'Backward', 50, 50],
])
const CHILDREN = childrenOf(TREE)

it('names a place so that a link finds it again, twins included', () => {
  for (let node = 0; node < TREE.rows.length; node++) {
    expect(nodeAt(TREE, CHILDREN, pathOf(TREE, CHILDREN, node))).toBe(node)
  }
  expect(pathOf(TREE, CHILDREN, 4)).toEqual(['Forward', 'twin\u001e1', 'kernel'])
})

it('stops at the last place that is there', () => {
  expect(nodeAt(TREE, CHILDREN, ['Forward', 'renamed', 'kernel'])).toBe(0)
  expect(nodeAt(TREE, CHILDREN, ['nothing'])).toBe(-1)
})

it('ends the running sum at the change of the node, with what is its own', () => {
  const view = levelView(TREE, CHILDREN, 0, 'tree', 10)
  expect(view.rows.map((row) => [row.role, row.name, row.sum])).toEqual([
    ['child', 'a', -10],
    ['child', 'twin', -30],
    ['child', 'twin', 60],
    ['self', '', 60],
  ])
  // Itself: 40 of the baseline, 40 of the experiment. No change, but time.
  expect(view.rows[3]).toMatchObject({ base: 40, exp: 40, delta: 0 })
  expect(view.total.delta).toBe(60)
})

it('has no row of its own where the children are the whole', () => {
  expect(levelView(TREE, CHILDREN, 3, 'tree', 10).rows.map((row) => row.role)).toEqual(['child'])
  expect(levelView(TREE, CHILDREN, -1, 'tree', 10).total).toMatchObject({ base: 150, exp: 210, delta: 60 })
})

it('has no rows below a leaf', () => expect(levelView(TREE, CHILDREN, 4, 'tree', 10).rows).toEqual([]))

it('orders by change, whichever its sign', () => {
  const rows = levelView(TREE, CHILDREN, 0, 'change', 10).rows
  expect(rows.map((row) => row.delta)).toEqual([90, -20, -10, 0])
})

it('keeps the largest changes in order, and sums the rest', () => {
  const view = levelView(TREE, CHILDREN, 0, 'tree', 1)
  expect(view.rows.map((row) => [row.role, row.node, row.delta, row.below, row.sum])).toEqual([
    ['child', 3, 90, 1, 90],
    ['rest', -1, -30, 2, 60],
    ['self', -1, 0, 0, 60],
  ])
})

it('takes what rounding leaves for nothing', () => {
  const thirds = tree([
    [-1, 'x', 1, 1],
    [0, 'a', 1 / 3, 1 / 3],
    [0, 'b', 2 / 3, 2 / 3 - 1e-9],
  ])
  expect(levelView(thirds, childrenOf(thirds), 0, 'tree', 10).rows).toHaveLength(2)
})
