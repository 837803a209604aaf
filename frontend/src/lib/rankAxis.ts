// Ranks on the first rank's time axis: `t * scale + shift`.
import type { ClockInfo } from '../api/payloads'

/** How a rank was laid beside the first: by corrected clocks, by the wall clocks that the files state, or by first steps. */
export type Way = 'clocks' | 'wall' | 'start'

/** What the clocks of a job say of one rank: a time t of it is `begins_ns + t * (1 + drift)` of the job. */
export interface Corrected {
  begins_ns: number
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
  /** Where its first step begins: what stands in when no clock says more. */
  start: number
}

export interface Placement {
  way: Way
  scale: number
  shift: number
  residual_ns: number | null
  /** What corrected clocks added to the wall clock's place of its begin; null where one of them is not known. */
  correction_ns: number | null
}

export const SAME: Placement = { way: 'clocks', scale: 1, shift: 0, residual_ns: null, correction_ns: null }

const PER_BILLION = 1e-9

/** Where a rank lies on the axis of the first, as well as `wish` allows and both of them know. */
export function placement(first: RankClock, other: RankClock, wish: Way): Placement {
  // Wall times do not fit into a number; their difference does.
  const apart =
    first.wall && other.wall ? Number(BigInt(other.wall.start_unix_ns) - BigInt(first.wall.start_unix_ns)) : null
  const [mine, its] = [first.corrected, other.corrected]
  if (wish === 'clocks' && mine && its && mine.set === its.set) {
    const own = 1 + mine.drift_ppb * PER_BILLION
    const shift = (its.begins_ns - mine.begins_ns) / own
    return {
      way: 'clocks',
      scale: (1 + its.drift_ppb * PER_BILLION) / own,
      shift,
      residual_ns: its.residual_ns,
      correction_ns: apart === null ? null : shift - apart,
    }
  }
  const rest = { scale: 1, residual_ns: null, correction_ns: null }
  if (wish !== 'start' && apart !== null) return { way: 'wall', shift: apart, ...rest }
  return { way: 'start', shift: first.start - other.start, ...rest }
}

export const toAxis = ({ scale, shift }: Placement, time: number) => time * scale + shift
export const fromAxis = ({ scale, shift }: Placement, time: number) => (time - shift) / scale
