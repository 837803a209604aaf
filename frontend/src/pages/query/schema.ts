// The tables and columns that the editor of a query completes.
import type { Table } from '../../api/payloads'

/** Columns by table. */
export type Schema = Readonly<Record<string, readonly { label: string; detail: string; info: string }[]>>

/** Columns by table. A query over all ranks has the column `rank` in each table. */
export function schemaOf(table: Table | null, allRanks: boolean): Schema {
  const found: Record<string, { label: string; detail: string; info: string }[]> = {}
  for (const row of table?.rows ?? []) {
    const name = String(row.table_name)
    found[name] ??= allRanks ? [{ label: 'rank', detail: '', info: 'Rank of the row.' }] : []
    if (allRanks && row.column_name === 'rank') continue
    found[name].push({
      label: String(row.column_name),
      detail: String(row.unit ?? ''),
      info: String(row.meaning),
    })
  }
  return found
}
