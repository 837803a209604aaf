// What flight recorders say beside the traces, in one sentence.
import type { Table } from '../api/payloads'
import { counted } from './format'

export function recordersText({ rows, matched_rows }: Pick<Table, 'rows' | 'matched_rows'>): string {
  const workers = new Set(rows.map((row) => row.worker))
  const stopped = new Set(rows.filter((row) => Number(row.not_called) > 0).map((row) => row.worker))
  const met = rows.reduce((sum, row) => sum + Number(row.called_in_traces ?? 0), 0)
  const more = matched_rows > rows.length ? ' and more' : ''
  const here = `Flight recorders of ${counted(workers.size, 'rank')}${more} are here: `
  if (stopped.size > 0) {
    const [first, ...others] = [...stopped]
    const named = others.length === 0 ? first : `${first} and ${counted(others.length, 'other')}`
    return `${here}${named} stopped calling while others went on, as the findings say.`
  }
  if (met === 0) return `${here}no call in the traces has the number of one of theirs, so that nothing can be compared.`
  return (
    `${here}nobody stopped calling before the others. ` +
    `${counted(met, 'call')} of theirs the traces hold too ("Also in traces" in the table Flight recorders).`
  )
}
