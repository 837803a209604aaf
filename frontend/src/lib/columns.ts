// Visible columns of a table.
import type { Column, Table } from '../api/payloads'

/** Empty columns besides the name; null if rows are missing or there are none. */
export function emptyKeys({ columns, rows, total_rows, name_column }: Table): ReadonlySet<string> | null {
  if (rows.length === 0 || rows.length < total_rows) return null
  const keys = columns.map(({ metric }) => metric.key).filter((key) => key !== name_column)
  return new Set(keys.filter((key) => rows.every((row) => (row[key] ?? '') === '')))
}

/** `shown`: keys selected by the user, even if empty; null: the server's non-empty columns. */
export const isDrawn = (
  { hidden, metric: { key } }: Column,
  shown: readonly string[] | null,
  empty: ReadonlySet<string>,
): boolean => (shown ? shown.includes(key) : !hidden && !empty.has(key))

/** The selection after a column is toggled; null if it equals the default. */
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
