// The timeline view that shows why a rank is late.
import type { Row } from './tableRows'

/** The worst step and the tracks with the cause. */
export interface RankZoom {
  steps: string
  detail: '' | 'all'
}

/** Columns of the straggler table with causes on the device. */
const ON_DEVICE = ['more_compute_ns', 'more_communication_ns', 'more_copy_ns', 'more_idle_ns']
/** Streams of devices do not show these. */
const ON_HOST = ['more_input_ns', 'more_host_ns']

const most = (row: Row, keys: readonly string[]) => Math.max(0, ...keys.map((key) => Number(row[key] ?? 0)))

/** `row`: a straggler; `isHost`: it has no device work. */
export const rankZoom = (row: Row | undefined, isHost: boolean): RankZoom => ({
  steps: typeof row?.worst_step === 'string' ? row.worst_step : '',
  detail: isHost || (row && most(row, ON_HOST) > most(row, ON_DEVICE)) ? 'all' : '',
})
