// Whether the spread of ranks changes between steps.
import type { Heat, Series } from '../api/payloads'

const WITHIN = 0.02

/** Whether each quantile stays within 2 % of its maximum. */
export const isSteady = ({ lines }: Pick<Series, 'lines'>): boolean =>
  lines.every(({ values }) => {
    const known = values.filter((value): value is number => value !== null)
    return known.length === 0 || Math.max(...known) - Math.min(...known) <= WITHIN * Math.max(...known.map(Math.abs))
  })

/** The means of the ranks, the largest first, named by their ranks. */
export function sortedMeans(heat: Heat): Series {
  const ranks = heat.rows.flatMap((name, rank) => {
    const mean = heat.means[rank]
    return mean === null ? [] : [{ name, mean }]
  })
  ranks.sort((one, other) => other.mean - one.mean)
  return {
    kind: 'series',
    sql: '',
    name: 'sorted',
    title: heat.title,
    subtitle: '',
    x_metric: heat.row_metric,
    x: ranks.map(({ name }) => name),
    style: 'lines',
    lines: [{ metric: heat.metric, category: heat.category, values: ranks.map(({ mean }) => mean) }],
  }
}
