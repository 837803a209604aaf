// Which phase a sentence names, and what each took step by step.
import type { Series, Tree } from '../api/payloads'

/** A child that takes so much of its parent is looked into. */
const MOST = 0.5

/** The deepest node that still takes most of everything around it; -1 where nothing has any time. */
export function largestPhase(tree: Tree, key: string): number {
  const value = (node: number) => Number(tree.rows[node][key] ?? 0)
  let best = -1
  for (;;) {
    const children = tree.parent.flatMap((parent, i) => (parent === best ? [i] : []))
    const next = children.reduce((a, b) => (a < 0 || value(b) > value(a) ? b : a), -1)
    if (next < 0 || value(next) === 0 || (best >= 0 && value(next) < MOST * value(best))) return best
    best = next
  }
}

/** Bars by phase, of a series with a line for each. */
export const barsByPhase = (series: Series): Map<string, number[]> =>
  new Map(series.lines.map((line) => [line.metric.key, line.values.map((value) => value ?? 0)]))
