import { expect, test } from 'vitest'
import type { Heat, Metric } from '../api/payloads'
import {
  byPlace,
  byStep,
  domainOf,
  foldLines,
  largestOf,
  missingRanks,
  neighbourCell,
  partOf,
  sortChoices,
  sortRanks,
  spreadLabels,
} from './rankMatrix'

const metric = (key: string): Metric => ({ key, title: key, unit: 'ns', definition: '', window: '' })

/** Eight ranks on two nodes: tensor groups of two, pipeline groups of two with stages of four ranks. */
const HEAT: Heat = {
  kind: 'heat',
  name: 'heat',
  title: 'Waiting',
  subtitle: '',
  metric: metric('wait_ns'),
  category: 'wait',
  row_metric: metric('worker'),
  x_metric: metric('step'),
  rows: ['r0', 'r1', 'r2', 'r3', 'r4', 'r5', 'r6', 'r7'],
  x: ['4', '5'],
  merged: 1,
  values: [1, 2, 3, 4, 5, 6, null, 8, 90, 10, 11, 12, 13, 14, 15, 16],
  means: [2, 4, 6, null, 50, 12, 14, 16],
  worst: [4, 7],
  groupings: [
    { key: 'node', title: 'Node', groups: ['a', 'b'], of: [0, 0, 0, 0, 1, 1, 1, 1], place: [0, 1, 2, 3, 0, 1, 2, 3] },
    {
      key: 'group0',
      title: 'tp',
      groups: ['0, 1', '2, 3', '4, 5', '6, 7'],
      of: [0, 0, 1, 1, 2, 2, 3, 3],
      place: [0, 1, 0, 1, 0, 1, 0, 1],
    },
    {
      key: 'group1',
      title: 'pp',
      groups: ['0, 4', '1, 5', '2, 6', '3, 7'],
      of: [0, 1, 2, 3, 0, 1, 2, 3],
      place: [0, 0, 0, 0, 1, 1, 1, 1],
    },
  ],
  choices: [],
}

test('ranks are sorted by mean, those without one last, and by group or place with what is together', () => {
  expect(sortRanks(HEAT, 'name').ranks).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
  expect(sortRanks(HEAT, 'value').ranks).toEqual([4, 7, 6, 5, 2, 1, 0, 3])
  expect(sortRanks(HEAT, 'node').bands.map((band) => [band.title, band.from, band.to])).toEqual([
    ['a', 0, 4],
    ['b', 4, 8],
  ])
  expect(sortRanks(HEAT, 'group1').ranks).toEqual([0, 4, 1, 5, 2, 6, 3, 7])
  expect(sortRanks(HEAT, 'group1').bands[1].title).toBe('pp 1, 5')
  const places = sortRanks(HEAT, 'group0.place')
  expect(places.ranks).toEqual([0, 2, 4, 6, 1, 3, 5, 7])
  expect(places.bands.map((band) => band.title)).toEqual(['place 0', 'place 1'])
  expect(sortRanks(HEAT, 'no such order')).toEqual(sortRanks(HEAT, 'name'))
  expect(sortChoices(HEAT).map(({ value }) => value)).toContain('group1.place')
})

test('who is in no group stands last, in a part of its own', () => {
  const [node] = HEAT.groupings
  const odd = { ...HEAT, groupings: [{ ...node, of: [-1, ...node.of.slice(1)], place: [-1, ...node.place.slice(1)] }] }
  const { ranks, bands } = sortRanks(odd, 'node')
  expect(ranks.at(-1)).toBe(0)
  expect(bands.at(-1)).toEqual({ title: 'no group', from: 7, to: 8 })
})

test('the matrix by step keeps each value with its rank, whatever the order', () => {
  const matrix = byStep(HEAT, 'value')
  expect(matrix.rows[0]).toBe('r4')
  expect(matrix.values.slice(0, 2)).toEqual([90, 10])
  expect(matrix.rankOf(0, 1)).toBe(4)
})

test('ranks stand by group and place; stages that follow each other are parts, nodes are marked', () => {
  const matrix = byPlace(HEAT, 'group0')
  expect(matrix?.columns).toEqual(['0, 1', '2, 3', '4, 5', '6, 7'])
  expect(matrix?.values).toEqual([2, 6, 50, 14, 4, null, 12, 16])
  expect(matrix?.rankOf(1, 2)).toBe(5)
  expect(matrix?.columnBands.map((band) => band.to - band.from)).toEqual([2, 2])
  expect(matrix?.columnMarks).toEqual([0, 2])
  // Two nodes of four: what is larger lies along the columns.
  const nodes = byPlace(HEAT, 'node')
  expect([nodes?.isTurned, nodes?.rows, nodes?.columns.length]).toEqual([true, ['a', 'b'], 4])
  expect(byPlace({ ...HEAT, groupings: [] }, 'node')).toBeNull()
})

test('of lines that share a pixel the largest is found, the first where nothing is known', () => {
  expect(foldLines(3, 10)).toEqual([0, 1, 2, 3])
  expect(foldLines(8, 4)).toEqual([0, 2, 4, 6, 8])
  const matrix = byStep(HEAT, 'name')
  expect(matrix.values[largestOf(matrix, [3, 6], [0, 2])]).toBe(90)
  const unknown = { ...matrix, values: matrix.values.map(() => null) }
  expect(largestOf(unknown, [2, 4], [0, 2])).toBe(4)
})

test('colours span from 0, from the smallest of values that lie close together, and end before one that is far off', () => {
  expect(domainOf([0, 5, 10, null])).toEqual({ low: 0, high: 10, isLog: false, isAlike: false })
  // From 1.16 to 1.94 is not from nothing to everything.
  expect(domainOf([1.16, 1.94])).toEqual({ low: 0, high: 1.94, isLog: false, isAlike: false })
  expect(domainOf([90, 100])).toEqual({ low: 90, high: 100, isLog: false, isAlike: false })
  expect(domainOf([99.5, 100])).toEqual({ low: 0, high: 100, isLog: false, isAlike: true })
  expect(domainOf([-4, 2])).toEqual({ low: -4, high: 2, isLog: false, isAlike: false })
  expect(domainOf([null])).toEqual({ low: 0, high: 0, isLog: false, isAlike: false })
  const usual = Array.from({ length: 99 }, () => 10)
  expect(domainOf([...usual, 1000])).toEqual({ low: 10, high: 1000, isLog: true, isAlike: false })
  // The noise of a thousand ranks is no news beside one that is late.
  expect(domainOf([...usual, 3000])).toEqual({ low: 30, high: 3000, isLog: true, isAlike: false })
  // One rank alone that is late: zeros say nothing about what is far off.
  expect(domainOf([...usual.map(() => 0), 30])).toEqual({ low: 0, high: 30, isLog: false, isAlike: false })
  expect(partOf({ low: 10, high: 20, isLog: false }, 15)).toBe(0.5)
  expect(partOf({ low: 0, high: 10, isLog: false }, 99)).toBe(1)
})

test('ranks without a row are known where all rows are ranks', () => {
  const none = { count: 0, first: [] }
  expect(missingRanks(['rank0', 'rank1', 'rank4'])).toEqual({ count: 2, first: [2, 3] })
  expect(missingRanks(['rank9', 'rank8'])).toEqual({ count: 8, first: [0, 1, 2, 3, 4, 5, 6, 7] })
  expect(missingRanks(['rank2', 'rank20'])).toEqual({ count: 19, first: [0, 1, 3, 4, 5, 6, 7, 8] })
  expect(missingRanks(['rank0', 'rank1'])).toEqual(none)
  expect(missingRanks(['main', 'rank4'])).toEqual(none)
  expect(missingRanks([])).toEqual(none)
  // Numbers that are no ranks: an array up to them took seconds, or was no valid one.
  expect(missingRanks(['rank0', 'rank20261128'])).toEqual(none)
  expect(missingRanks(['rank0', 'rank1700000000000'])).toEqual(none)
})

test('arrow keys walk over all cells and stop at the edges', () => {
  const matrix = byStep(HEAT, 'name')
  expect(neighbourCell(matrix, -1, 'ArrowDown')).toBe(0)
  expect(neighbourCell(matrix, 0, 'ArrowUp')).toBe(0)
  expect(neighbourCell(matrix, 0, 'ArrowDown')).toBe(2)
  expect(neighbourCell(matrix, 1, 'ArrowRight')).toBe(1)
  expect(neighbourCell(matrix, 3, 'ArrowLeft')).toBe(2)
  expect(neighbourCell(matrix, 14, 'End')).toBe(15)
  expect(neighbourCell(matrix, 15, 'ArrowDown')).toBe(15)
})

test('on a logarithmic scale a band does not look like the few that are many times as large', () => {
  const scale = { low: 1, high: 1000, isLog: true }
  expect([0, 1, 10, 1000].map((value) => Math.round(30 * partOf(scale, value)))).toEqual([0, 0, 10, 30])
})

test('the ranks with the largest means are marked, where they stand in each order, unless all are alike', () => {
  const rows = Array.from({ length: 40 }, (_, i) => `r${i}`)
  const means = rows.map((_, i) => (i === 30 ? 90 : i === 7 ? 80 : 10))
  const heat = { ...HEAT, rows, means, x: ['0'], values: means, groupings: [], worst: [] }
  expect(byStep(heat, 'name').marked).toEqual([7, 30])
  expect(byStep(heat, 'value').marked).toEqual([0, 1])
  expect(byStep({ ...heat, means: rows.map(() => 5) }, 'name').marked).toEqual([])
})

test('the column with the rank that stands out comes first of those that are named', () => {
  const rows = Array.from({ length: 40 }, (_, i) => `r${i}`)
  const means = rows.map((_, i) => (i === 30 ? 90 : i === 7 ? 80 : i === 9 ? 20 : 10))
  const of = rows.map((_, i) => Math.floor(i / 4))
  const grouping = {
    key: 'tp',
    title: 'tp',
    groups: [...new Set(of)].map(String),
    of,
    place: rows.map((_, i) => i % 4),
  }
  const heat = { ...HEAT, rows, means, groupings: [grouping] }
  expect(byPlace(heat, 'tp')?.labelFirst).toEqual([7, 1])
  expect(byPlace({ ...heat, means: rows.map(() => 5) }, 'tp')?.labelFirst).toEqual([])
  expect(byPlace({ ...heat, means: rows.map(() => null) }, 'tp')?.labelFirst).toEqual([])
})

test('labels keep apart and within the picture', () => {
  expect(spreadLabels([10, 12, 50], 14, 100)).toEqual([10, 24, 50])
  expect(spreadLabels([90, 95, 99], 14, 100)).toEqual([72, 86, 100])
})
