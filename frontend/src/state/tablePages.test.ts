import { expect, test } from 'vitest'
import type { Column, Table } from '../api/payloads'
import { mergePages, NO_ROWS } from './tablePages'

const column = (key: string) => ({ metric: { key } }) as Column
const page = (rows: Table['rows'], total_rows = rows.length) =>
  ({
    name: 'calls',
    columns: [column('name'), column('note')],
    rows,
    total_rows,
    offset: 0,
    name_column: 'name',
  }) as unknown as Table

const [bare, noted] = [
  { name: 'a', note: null },
  { name: 'b', note: 'x' },
]

test('a column that is empty in some steps is not in others, and stays empty while one searches', () => {
  const steps = { steps: '1' }
  const first = mergePages(NO_ROWS, 'all', steps, page([bare]))
  expect([...first.empty]).toEqual(['note'])
  const searched = mergePages(first, 'some', steps, page([], 1))
  expect([...searched.empty]).toEqual(['note'])
  expect([...mergePages(searched, 'other', { steps: '2' }, page([bare, noted])).empty]).toEqual([])
  // Of other steps nobody knows it where a search stands from before.
  expect([...mergePages(searched, 'other', { steps: '2' }, page([bare], 2)).empty]).toEqual([])
})
