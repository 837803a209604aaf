import { expect, test } from 'vitest'
import type { Column, Table } from '../api/payloads'
import { emptyKeys, isDrawn, toggled } from './columns'

const column = (key: string, hidden = false): Column => ({
  metric: { key, title: key, unit: 'text', definition: '', window: '' },
  hidden,
  share: false,
})
const COLUMNS = [column('calls'), column('kernel'), column('note'), column('z', true)]
const TABLE = {
  columns: [column('name'), ...COLUMNS],
  rows: [
    { name: '', calls: 0, kernel: null, note: '' },
    { name: '', calls: 0, kernel: '', note: '' },
  ],
  total_rows: 2,
  name_column: 'name',
} as unknown as Table

test('a column is empty where no row has anything: zero is something, a name is always there', () => {
  expect([...(emptyKeys(TABLE) ?? [])]).toEqual(['kernel', 'note', 'z'])
  expect([...(emptyKeys({ ...TABLE, rows: [{ name: 'a', kernel: 'gemm' }], total_rows: 1 }) ?? [])]).not.toContain(
    'kernel',
  )
})

test('what is empty is not known where rows are missing, or there are none', () => {
  expect(emptyKeys({ ...TABLE, total_rows: 3 })).toBeNull()
  expect(emptyKeys({ ...TABLE, rows: [], total_rows: 0 })).toBeNull()
})

test('an empty column is drawn once it is chosen, and another click ends that', () => {
  const empty = new Set(['kernel', 'note'])
  const drawn = (shown: string[] | null) =>
    COLUMNS.filter((each) => isDrawn(each, shown, empty)).map(({ metric }) => metric.key)
  expect(drawn(null)).toEqual(['calls'])
  const chosen = toggled(COLUMNS, null, empty, 'kernel')
  expect(drawn(chosen)).toEqual(['calls', 'kernel'])
  expect(toggled(COLUMNS, chosen, empty, 'kernel')).toBeNull()
  // A hidden one is chosen beside it, and given up again.
  const both = toggled(COLUMNS, chosen, empty, 'z')
  expect(drawn(both)).toEqual(['calls', 'kernel', 'z'])
  expect(toggled(COLUMNS, both, empty, 'z')).toEqual(['calls', 'kernel'])
})
