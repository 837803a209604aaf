// Rows of a table widget, independent of their source.
import type { Problem, Scalar, Table } from '../api/payloads'

export type Row = Record<string, Scalar>

export interface TableQuery {
  sort: string
  desc: boolean
  search: string
  where: string[]
}

export interface Pages {
  /** The newest page's head: columns, totals, counts. Null until the first answer. */
  table: Table | null
  /** Matching rows; a row that is not loaded yet is undefined. */
  count: number
  row(index: number): Row | undefined
  /** Asks for rows [from, to]. */
  want(from: number, to: number): void
  /** Columns in which no row has anything, since all rows of the same question were here. */
  empty: ReadonlySet<string>
  busy: boolean
  problem: Problem | null
}

const KEY_SEPARATOR = '\u001e'

export const rowId = (row: Row, keys: readonly string[]) =>
  keys.map((key) => String(row[key] ?? '')).join(KEY_SEPARATOR)

export const rowIdText = (id: string) => id.replaceAll(KEY_SEPARATOR, ' ')

/** Whether the events of a frame can be asked for by its name: one without the addresses of its objects is no event's name. */
export const hasTimelineEvents = (row: Row) => !/^<.* object>$/.test(String(row.name))
