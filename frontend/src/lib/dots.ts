// Dots of a scatter plot: those of some rows, and the range that shows them.
import type { Scatter } from '../api/payloads'

/** The dots with these labels. Empty groups stay, so that colors and shapes do not change. */
export function dotsOf(scatter: Scatter, labels: ReadonlySet<string>): Scatter {
  const groups = scatter.groups.map((group) => {
    const pick = <T>(values: readonly T[]) => values.filter((_, i) => labels.has(group.label[i]))
    return { ...group, label: pick(group.label), x: pick(group.x), y: pick(group.y), share: pick(group.share) }
  })
  return { ...scatter, groups }
}

/** More decades squeeze the dots of an axis. */
const MOST_DECADES = 6
/** Share of the area of all dots that one axis with too many decades may leave out; both together, twice as much. */
const MOST_OUTSIDE = 0.025
/** Room after the highest value, as a factor: the titles of limits are above the limits. */
const ROOM = { x: 1, y: 3 }
/** Decades of an axis that has few dots. */
const FEWEST_DECADES = 2

type Drawn = Pick<Scatter, 'groups' | 'limits'>

const dotsIn = ({ groups }: Drawn) =>
  groups.flatMap(({ x, y, share }) => x.map((value, i) => ({ x: value, y: y[i], area: share[i] ?? 1 })))

const areaOf = (dots: readonly { area: number }[]) => dots.reduce((sum, { area }) => sum + area, 0)

/**
 * Start, a power of ten, and end of a logarithmic axis. The lowest dots of a small area are left out if they need too
 * many decades. Lines of limits may start before the axis.
 */
export function logRange(drawn: Drawn, axis: 'x' | 'y'): [number, number] {
  const dots = dotsIn(drawn)
  const ends = drawn.limits.flatMap((limit) => limit[axis].map((value) => ({ value, area: 0 })))
  const values = [...dots.map((dot) => ({ value: dot[axis], area: dot.area })), ...ends]
  values.sort((a, b) => a.value - b.value)
  const high = values[values.length - 1]?.value ?? 1
  const spare = MOST_OUTSIDE * areaOf(dots)
  let skipped = 0
  const first = values.find(({ value, area }) => {
    skipped += area
    return value * 10 ** MOST_DECADES >= high || skipped > spare
  })
  const low = Math.min(first?.value ?? 1, high / 10 ** FEWEST_DECADES)
  return [10 ** Math.floor(Math.log10(low)), high * ROOM[axis]]
}

/** Number of dots below the axes, and their area as a share of that of the drawn dots. */
export function dotsOutside(drawn: Drawn): { count: number; share: number } {
  const [[x], [y]] = [logRange(drawn, 'x'), logRange(drawn, 'y')]
  const all = dotsIn(drawn)
  const outside = all.filter((dot) => dot.x < x || dot.y < y)
  const area = areaOf(outside)
  return { count: outside.length, share: area / (areaOf(all) - area || 1) }
}
