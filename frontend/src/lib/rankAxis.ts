// Ranks on the first rank's time axis: `t * scale + shift`.
import type { ClockInfo } from '../api/payloads'

export type Way = 'clocks' | 'wall' | 'start'

/** A rank's corrected clock: its time t is `begins_ns + t * (1 + drift)` of the job. */
export interface Corrected {
  begins_ns: number
  drift_ppb: number
  /** How far a corrected time may be off. */
  residual_ns: number | null
  /** Ranks with the same number met, if only by way of others: only their clocks compare. */
  set: number
}

export interface RankClock {
  wall: ClockInfo | null
  corrected: Corrected | null
  /** Start of the first step, used without a clock. */
  start: number
}

export interface Placement {
  way: Way
  scale: number
  shift: number
  residual_ns: number | null
  /** Correction of the wall clock in ns; null if unknown. */
  correction_ns: number | null
}

export const SAME: Placement = { way: 'clocks', scale: 1, shift: 0, residual_ns: null, correction_ns: null }

const PER_BILLION = 1e-9

/** A rank's place on the first rank's axis, by the best available of `wish` and weaker ways. */
export function placement(first: RankClock, other: RankClock, wish: Way): Placement {
  // Wall times exceed a number's precision; their difference does not.
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
