// Ranks on one axis of time: that of the first of them. A time t of another one stands at `t * scale + shift` there.
import type { ClockInfo } from '../api/payloads'

/** How a rank was laid beside the first: by corrected clocks, by the wall clocks that the files state, or by where both begin. */
export type Way = 'clocks' | 'wall' | 'start'

/** What the clocks of a job say of one rank: what is added to its wall time, at the time 0 of its file, and how it grows. */
export interface Corrected {
  offset_ns: number
  drift_ppb: number
  /** How far a corrected time may be off. */
  residual_ns: number | null
  /** Ranks with the same number met, if only by way of others: only their clocks compare. */
  set: number
}

/** What is known of the clock of a rank. */
export interface RankClock {
  wall: ClockInfo | null
  corrected: Corrected | null
  /** Where its first event, its first step, ... begins: what stands in when no clock says more. */
  start: number
}

export interface Placement {
  way: Way
  scale: number
  shift: number
  residual_ns: number | null
}

export const SAME: Placement = { way: 'clocks', scale: 1, shift: 0, residual_ns: null }

const PER_BILLION = 1e-9

/** Where a rank lies on the axis of the first, as well as `wish` allows and both of them know. */
export function placement(first: RankClock, other: RankClock, wish: Way): Placement {
  if (wish !== 'start' && first.wall && other.wall) {
    // Wall times do not fit into a number; their difference does.
    const apart = Number(BigInt(other.wall.start_unix_ns) - BigInt(first.wall.start_unix_ns))
    if (wish === 'clocks' && first.corrected && other.corrected?.set === first.corrected.set) {
      const [mine, its] = [first.corrected, other.corrected]
      const own = 1 + mine.drift_ppb * PER_BILLION
      const scale = (1 + its.drift_ppb * PER_BILLION) / own
      const shift = (apart + its.offset_ns - mine.offset_ns) / own
      return { way: 'clocks', scale, shift, residual_ns: its.residual_ns }
    }
    return { way: 'wall', scale: 1, shift: apart, residual_ns: null }
  }
  return { way: 'start', scale: 1, shift: first.start - other.start, residual_ns: null }
}

export const toAxis = ({ scale, shift }: Placement, time: number) => time * scale + shift
export const fromAxis = ({ scale, shift }: Placement, time: number) => (time - shift) / scale
