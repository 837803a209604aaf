// Whether all bars look the same.
import type { Series } from '../api/payloads'

/** Maximum number of bars that are seen one by one. */
const FEW = 4
const WITHIN = 0.02

/** Whether each part of all bars, of more than a few, is as long as that of the others but for 2 % of a bar. */
export function areUniform({ x, lines }: Pick<Series, 'x' | 'lines'>): boolean {
  if (x.length <= FEW) return false
  const totals = x.map((_, at) => lines.reduce((sum, { values }) => sum + (values[at] ?? 0), 0))
  const room = WITHIN * Math.max(...totals)
  return lines.every(({ values }) => {
    const known = values.filter((value): value is number => value !== null)
    return known.length === 0 || (known.length === x.length && Math.max(...known) - Math.min(...known) <= room)
  })
}
