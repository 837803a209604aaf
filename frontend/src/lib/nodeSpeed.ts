// Slow nodes: collective times by node set.
import { format } from './format'
import type { Row } from './tableRows'

interface NodeSets {
  title: string
  rows: Row[]
}

const TITLES = ['Single nodes', 'Pairs of nodes', 'Three or more nodes']

/** Slowdown from which nodes count as slow. */
const SLOW = 1.1

/** Rows of as many nodes together, of three and more all: only those of as many are compared with each other. */
export function nodeSets(rows: readonly Row[]): NodeSets[] {
  const sets = TITLES.map((title): NodeSets => ({ title, rows: [] }))
  for (const row of rows) sets[Math.min(Math.max(Number(row.node_count), 1), 3) - 1].rows.push(row)
  return sets.filter((set) => set.rows.length > 0)
}

/** Whether any of them is slow, in one sentence. */
export function slowestText(sets: readonly NodeSets[]): string {
  const compared = sets.flatMap(({ rows }) => rows.filter((row) => typeof row.slowdown === 'number'))
  if (compared.length === 0) return 'No comparison: no two node groups of equal size run the same collectives.'
  const slowest = compared.reduce((most, row) => (Number(row.slowdown) > Number(most.slowdown) ? row : most))
  const more = format(Math.max(Number(slowest.slowdown) - 1, 0), 'ratio')
  return Number(slowest.slowdown) < SLOW
    ? `No slow node: the same collectives take at most ${more} longer than the median of equal-sized groups.`
    : `Slowest: ${String(slowest.nodes)}. The same collectives take ${more} longer than the median of equal-sized groups.`
}
