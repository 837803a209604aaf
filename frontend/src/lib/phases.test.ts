import { expect, test } from 'vitest'
import type { Tree } from '../api/payloads'
import { barsByPhase, largestPhase, partInside } from './phases'

const metric = (key: string) => ({ key, title: key, unit: 'ns' as const, definition: '', window: '' })

function tree(...nodes: [number, number][]): Tree {
  return {
    kind: 'tree',
    name: 'tree',
    title: '',
    columns: [],
    parent: nodes.map(([parent]) => parent),
    rows: nodes.map(([, ns], i) => ({ phase: String(i), ns })),
    label_column: 'phase',
    value_columns: ['ns'],
    total_nodes: nodes.length,
  }
}

test('the sentence names a phase of the step, and where most of that lies', () => {
  const named = (...nodes: [number, number][]) => largestPhase(tree(...nodes), 'ns')
  expect(named([-1, 100], [0, 30], [0, 60], [2, 59], [2, 1])).toEqual({ root: 0, first: 2, inner: 3 })
  expect(named([-1, 100], [0, 40], [0, 45], [2, 20])).toEqual({ root: 0, first: 2, inner: 2 })
  expect(named([-1, 100], [0, 19], [1, 19])).toEqual({ root: 0, first: 0, inner: 0 })
  expect(named([-1, 10], [-1, 90], [0, 9])).toEqual({ root: 1, first: 1, inner: 1 })
  expect(named([-1, 0])).toBeNull()
  expect(named()).toBeNull()
})

test('a part lies in the phases inside', () => {
  expect(partInside(tree([-1, 100], [0, 10], [0, 20], [2, 20]), 0, 'ns')).toBe(0.3)
  expect(partInside(tree([-1, 100], [0, 90], [0, 20]), 0, 'ns')).toBe(1)
  expect(partInside(tree([-1, 0]), 0, 'ns')).toBe(0)
})

test('bars are found by the name of the phase', () => {
  const line = { metric: metric('forward'), category: 'phase', values: [1, null, 3] }
  const rest = {
    kind: 'series' as const,
    name: '',
    title: '',
    subtitle: '',
    x_metric: metric('step'),
    x: ['1', '2', '3'],
  }
  expect(barsByPhase({ ...rest, lines: [line], style: 'stacked_bars' }).get('forward')).toEqual([1, 0, 3])
})
