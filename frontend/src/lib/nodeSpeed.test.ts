import { expect, test } from 'vitest'
import { nodeSets, slowestText } from './nodeSpeed'

const row = (nodes: string, node_count: number, slowdown: number | null) => ({ nodes, node_count, slowdown })

test('single nodes and pairs of nodes are told apart', () => {
  const sets = nodeSets([row('a, b', 2, 1.3), row('a', 1, 1.02), row('8 nodes: a … h', 8, null), row('b', 1, 0.9)])
  expect(sets.map(({ title, rows }) => [title, rows.map(({ nodes }) => nodes)])).toEqual([
    ['Single nodes', ['a', 'b']],
    ['Pairs of nodes', ['a, b']],
    ['Three or more nodes', ['8 nodes: a … h']],
  ])
})

test('a sentence says whether any node is slow', () => {
  expect(slowestText(nodeSets([row('a', 1, 1.05), row('b', 1, 0.95)]))).toContain('at most 5.0 % longer')
  expect(slowestText(nodeSets([row('a, b', 2, 1.3), row('a', 1, 1.05)]))).toBe(
    'Slowest: a, b. The same collectives take 30.0 % longer than the median of equal-sized groups.',
  )
  expect(slowestText(nodeSets([row('a, b', 2, null)]))).toContain('No comparison')
})
