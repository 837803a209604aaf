// One sentence about flight recorder dumps.
import type { Table } from '../api/payloads'
import { counted } from './format'

export function recordersText({ rows, matched_rows }: Pick<Table, 'rows' | 'matched_rows'>): string {
  const workers = new Set(rows.map((row) => row.worker))
  const stopped = new Set(rows.filter((row) => Number(row.not_called) > 0).map((row) => row.worker))
  const met = rows.reduce((sum, row) => sum + Number(row.called_in_traces ?? 0), 0)
  const more = matched_rows > rows.length ? ' and more' : ''
  const here = `Flight recorder dumps of ${counted(workers.size, 'rank')}${more} are available: `
  if (stopped.size > 0) {
    const [first, ...others] = [...stopped]
    const named = others.length === 0 ? first : `${first} and ${counted(others.length, 'other')}`
    return `${here}${named} made no more calls while other ranks continued (see the findings).`
  }
  if (met === 0) return `${here}none of their calls is in the traces (compared by call number).`
  return (
    `${here}no rank stopped early. ` +
    `${counted(met, 'call')} also appear in the traces (column "Also in traces" of the table Flight recorders).`
  )
}
