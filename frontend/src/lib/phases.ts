// Which phase a sentence names, and what each took step by step.
import type { Series, Tree } from '../api/payloads'

/** A phase inside is named instead of the one around it when it takes so much of it; of a root, which is often the step, less. */
const MOST = 0.5
const SOME = 0.2

/** The deepest phase that still takes a good part of those around it; -1 where none has any time. */
export function largestPhase(tree: Tree, key: string): number {
  const value = (node: number) => Number(tree.rows[node][key] ?? 0)
  let best = -1
  for (;;) {
    const children = tree.parent.flatMap((parent, i) => (parent === best ? [i] : []))
    const next = children.reduce((a, b) => (a < 0 || value(b) > value(a) ? b : a), -1)
    const enough = tree.parent[best] === -1 ? SOME : MOST
    if (next < 0 || value(next) === 0 || (best >= 0 && value(next) < enough * value(best))) return best
    best = next
  }
}

/** What part of the time of a node lies in the phases directly inside of it; these may overlap, then at most all. */
export function partInside(tree: Tree, node: number, key: string): number {
  const inside = tree.rows.reduce((sum, row, i) => (tree.parent[i] === node ? sum + Number(row[key] ?? 0) : sum), 0)
  const all = Number(tree.rows[node][key] ?? 0)
  return all > 0 ? Math.min(1, inside / all) : 0
}

/** Bars by phase, of a series with a line for each. */
export const barsByPhase = (series: Series): Map<string, number[]> =>
  new Map(series.lines.map((line) => [line.metric.key, line.values.map((value) => value ?? 0)]))
