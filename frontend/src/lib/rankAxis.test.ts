import { describe, expect, test } from 'vitest'
import { fromAxis, placement, type RankClock, toAxis } from './rankAxis'
import { rankOverview } from './rankOverview'

const WALL = 1_790_857_026_000_000_000n
const clock = (start: bigint, begins_ns?: number, drift_ppb = 0, set = 0): RankClock => ({
  wall: { start_unix_ns: String(start), length_ns: 1_000_000 },
  corrected: begins_ns === undefined ? null : { begins_ns, drift_ppb, residual_ns: 40, set },
  start: 500,
})

describe('a rank on the axis of the first', () => {
  test('wall times differ by less than a number of them can say', () => {
    const found = placement(clock(WALL), clock(WALL + 123n), 'wall')
    expect(found).toMatchObject({ way: 'wall', scale: 1, shift: 123, residual_ns: null })
    expect(toAxis(found, 1000)).toBe(1123)
  })

  test('corrected clocks say when each trace began: both show one moment at one place', () => {
    // The second began 2,000 ns after the first, with a clock that shows 300 too few.
    const found = placement(clock(WALL, 100), clock(WALL + 1700n, 2100), 'clocks')
    expect(found).toMatchObject({ way: 'clocks', residual_ns: 40, correction_ns: 300 })
    expect(toAxis(found, 5000)).toBe(7000)
  })

  test('a drift stretches: after a second 1,000 ppb are a microsecond', () => {
    const found = placement(clock(WALL, 0), clock(WALL, 0, 1000), 'clocks')
    expect(toAxis(found, 0)).toBe(0)
    expect(toAxis(found, 1e9)).toBeCloseTo(1e9 + 1000, 3)
    // The axis is the time of the first, whose own drift is taken out.
    const own = placement(clock(WALL, 0, 1000), clock(WALL, 0, 1000), 'clocks')
    expect(toAxis(own, 123_456_789)).toBe(123_456_789)
  })

  test('there and back is the same time', () => {
    const found = placement(clock(WALL, 5, -70_000), clock(WALL + 10n ** 9n, 900, 80_000), 'clocks')
    for (const time of [0, 1, 987_654_321, -40]) expect(fromAxis(found, toAxis(found, time))).toBeCloseTo(time, 5)
  })

  test('what is not known of either is not used', () => {
    expect(placement(clock(WALL), clock(WALL + 5n, 7), 'clocks').way).toBe('wall')
    expect(placement(clock(WALL, 7), clock(WALL + 5n), 'clocks').way).toBe('wall')
    // Both were corrected, but among others: they never met.
    expect(placement(clock(WALL, 7, 0, 1), clock(WALL + 5n, 7), 'clocks').way).toBe('wall')
    const none: RankClock = { wall: null, corrected: null, start: 200 }
    expect(placement(clock(WALL, 7), none, 'clocks')).toMatchObject({ way: 'start', shift: 300 })
    expect(placement(clock(WALL, 7), clock(WALL + 9n, 1), 'start')).toMatchObject({ way: 'start', shift: 0 })
    // Files without a wall time are aligned by where they met.
    const met = { begins_ns: 70, drift_ppb: 0, residual_ns: null, set: 0 }
    const found = placement(clock(WALL, 20), { wall: null, corrected: met, start: 0 }, 'clocks')
    expect(found).toMatchObject({ way: 'clocks', shift: 50, correction_ns: null })
  })
})

test('the whole reaches from the first begin to the last end; busy is the mean of who is there', () => {
  const at = (shift: number) => ({ way: 'wall' as const, scale: 1, shift, residual_ns: null, correction_ns: null })
  const found = rankOverview([
    { placement: at(0), start: 0, end: 400, busy: [1, 1] },
    { placement: at(-400), start: 0, end: 800, busy: [0] },
  ])
  expect([found.start, found.end]).toEqual([-400, 400])
  expect(found.busy[0]).toBe(0)
  expect(found.busy.at(-1)).toBe(0.5)
})
