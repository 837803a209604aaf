// Where two ranks laid beside each other on the timeline show why one of them is late.
import type { Row } from './tableRows'

/** Its worst step, and the tracks in which the cause lies. */
export interface RankZoom {
  steps: string
  detail: '' | 'all'
}

/** What a straggler does longer before the collectives at which it is last, by columns of the table of stragglers. */
const ON_DEVICE = ['more_compute_ns', 'more_communication_ns', 'more_copy_ns', 'more_idle_ns']
/** Streams of devices do not show these. */
const ON_HOST = ['more_input_ns', 'more_host_ns']

const most = (row: Row, keys: readonly string[]) => Math.max(0, ...keys.map((key) => Number(row[key] ?? 0)))

/** `row`: of a straggler; `isHost`: nothing of it computes on a device. */
export const rankZoom = (row: Row | undefined, isHost: boolean): RankZoom => ({
  steps: typeof row?.worst_step === 'string' ? row.worst_step : '',
  detail: isHost || (row && most(row, ON_HOST) > most(row, ON_DEVICE)) ? 'all' : '',
})
