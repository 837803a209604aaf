import { expect, test } from 'vitest'
import type { Matrix } from '../lib/rankMatrix'
import { cellAt, heightOf, layoutOf } from './matrix'

const plain: Matrix = {
  rows: ['r0', 'r1', 'r2', 'r3'],
  columns: ['0', '1'],
  values: [1, 2, 30, 4, null, 6, 7, 8],
  rowBands: [],
  columnBands: [],
  rowMarks: [],
  columnMarks: [],
  marked: [],
  labelFirst: [],
  rankOf: (row) => row,
}

test('few rows are as high as their names, many share the height', () => {
  const few = layoutOf(plain, 300, 500)
  expect([few.top, few.height / 4]).toEqual([0, 22])
  const many = layoutOf({ ...plain, rows: Array.from({ length: 1000 }, (_, i) => `rank${i}`) }, 300, 500)
  expect([many.height, many.rowFold.length]).toEqual([500, 501])
  expect(heightOf(many)).toBeGreaterThan(500)
})

test('what the columns are has room at the left of them', () => {
  expect(layoutOf(plain, 300, 500, 22, 'From / to').left).toBeGreaterThan(layoutOf(plain, 300, 500).left)
})

test('the pointer finds the largest of what shares a pixel, and nothing beside the cells', () => {
  const layout = layoutOf(plain, 300, 2)
  expect(layout.rowFold).toEqual([0, 2, 4])
  const left = layout.left + layout.width * 0.25
  expect(cellAt(plain, layout, left, layout.top + 0.5)).toBe(2)
  expect(cellAt(plain, layout, left, layout.top + 1.5)).toBe(6)
  expect(cellAt(plain, layout, layout.left - 1, layout.top + 0.5)).toBe(-1)
  expect(cellAt(plain, layout, left, layout.top + layout.height + 1)).toBe(-1)
})

test('names of marked rows have room beside the cells, where rows are too thin for names of their own', () => {
  const rows = Array.from({ length: 1000 }, (_, i) => `rank${i}`)
  const [bare, named] = [[], [700]].map((marked) => layoutOf({ ...plain, rows, marked }, 600, 500))
  expect(named.right).toBeGreaterThan(bare.right + 40)
  expect(named.left + named.width + named.right).toBe(600)
  expect(layoutOf({ ...plain, marked: [2] }, 600, 500).right).toBe(bare.right)
})
