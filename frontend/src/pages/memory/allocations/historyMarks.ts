// Marks over the memory history.
import type { View } from '../../../api/payloads'
import type { HistoryAxis, HistoryMarks } from '../../../canvas/blocks/scene'
import { format } from '../../../lib/format'
import type { Row } from '../../../lib/tableRows'
import { numberOf, payloadByName } from '../../../parts/payloadByName'

const rowsOf = (view: View, table: string): Row[] => payloadByName(view, table, 'table')?.rows ?? []

const numberIn = (row: Row, key: string) => (typeof row[key] === 'number' ? row[key] : null)

/** State e + 1 is after event e. */
export const STATE_OFFSET: Record<HistoryAxis, number> = { events: 1, time: 0 }

export function historyMarks(view: View, axis: HistoryAxis, at: string | undefined): HistoryMarks {
  const off = STATE_OFFSET[axis]
  const place = (event: number | null, time: number | null) =>
    axis === 'time' ? time : event === null ? null : event + off
  const steps = rowsOf(view, 'history_steps').flatMap((row) => {
    const start = place(numberIn(row, 'first_event'), numberIn(row, 'step_begin_ns'))
    const last = numberIn(row, 'last_event')
    const end = place(last === null ? null : last + 1, numberIn(row, 'step_end_ns'))
    return start === null || end === null ? [] : [{ label: String(row.step_name ?? ''), start, end }]
  })
  const ooms = rowsOf(view, 'oom_events').flatMap((row) => {
    const where = place(numberIn(row, 'event_number'), numberIn(row, 'event_ns'))
    return where === null ? [] : [{ at: where, label: `${format(numberIn(row, 'asked_bytes'), 'bytes')} requested` }]
  })
  const moment = payloadByName(view, 'moment', 'figures')
  return {
    steps,
    ooms,
    moment: at === undefined ? null : place(numberOf(moment, 'event_number'), numberOf(moment, 'event_ns')),
  }
}
