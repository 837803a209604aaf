// Marks over the memory history.
import type { View } from '../../../api/payloads'
import type { HistoryAxis, HistoryMarks } from '../../../canvas/blocks/scene'
import { format } from '../../../lib/format'
import type { Row } from '../../../lib/tableRows'
import { payloadByName } from '../../../parts/payloadByName'

const rowsOf = (view: View, table: string): Row[] => payloadByName(view, table, 'table')?.rows ?? []

const numberOf = (row: Row, key: string): number | null => {
  const value = row[key]
  return typeof value === 'number' ? value : null
}

/** State e + 1 is after event e. */
export const STATE_OFFSET: Record<HistoryAxis, number> = { events: 1, time: 0 }

/** Steps, out-of-memory events and the selected moment. */
export function historyMarks(view: View, axis: HistoryAxis, at: string | undefined): HistoryMarks {
  const off = STATE_OFFSET[axis]
  const place = (event: number | null, time: number | null) =>
    axis === 'time' ? time : event === null ? null : event + off
  const steps = rowsOf(view, 'history_steps').flatMap((row) => {
    const start = place(numberOf(row, 'first_event'), numberOf(row, 'step_begin_ns'))
    const last = numberOf(row, 'last_event')
    const end = place(last === null ? null : last + 1, numberOf(row, 'step_end_ns'))
    return start === null || end === null ? [] : [{ label: String(row.step_name ?? ''), start, end }]
  })
  const ooms = rowsOf(view, 'oom_events').flatMap((row) => {
    const where = place(numberOf(row, 'event_number'), numberOf(row, 'event_ns'))
    return where === null ? [] : [{ at: where, label: `${format(numberOf(row, 'asked_bytes'), 'bytes')} requested` }]
  })
  const moment = payloadByName(view, 'moment', 'figures')?.figures ?? []
  const momentOf = (key: string) => {
    const value = moment.find(({ metric }) => metric.key === key)?.value
    return typeof value === 'number' ? value : null
  }
  return { steps, ooms, moment: at === undefined ? null : place(momentOf('event_number'), momentOf('event_ns')) }
}
