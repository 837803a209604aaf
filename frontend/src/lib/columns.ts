// Visible columns of a table.
import type { Column, Table } from '../api/payloads'

/** Columns in which no row has anything, the name aside; null where not all rows are here, or none. */
export function emptyKeys({ columns, rows, total_rows, name_column }: Table): ReadonlySet<string> | null {
  if (rows.length === 0 || rows.length < total_rows) return null
  const keys = columns.map(({ metric }) => metric.key).filter((key) => key !== name_column)
  return new Set(keys.filter((key) => rows.every((row) => (row[key] ?? '') === '')))
}

/** `shown`: keys that a person chose, empty or not; null: what the server shows and is not empty. */
export const isDrawn = (
  { hidden, metric: { key } }: Column,
  shown: readonly string[] | null,
  empty: ReadonlySet<string>,
): boolean => (shown ? shown.includes(key) : !hidden && !empty.has(key))

/** What is chosen once a column is shown or hidden; null where that is what nobody chose. */
export function toggled(
  columns: readonly Column[],
  shown: readonly string[] | null,
  empty: ReadonlySet<string>,
  key: string,
): string[] | null {
  const drawn = (chosen: readonly string[] | null) =>
    columns.filter((column) => isDrawn(column, chosen, empty)).map(({ metric }) => metric.key)
  const now = drawn(shown)
  const next = now.includes(key) ? now.filter((item) => item !== key) : [...now, key]
  const usual = drawn(null)
  return next.length === usual.length && usual.every((item) => next.includes(item)) ? null : next
}
