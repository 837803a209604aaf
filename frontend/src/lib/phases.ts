// Which phase a sentence names, and what each took step by step.
import type { Series, Tree } from '../api/payloads'

/** Of a root, which is often the step, the largest phase inside is named when it takes so much of it. */
const SOME = 0.2
/** Of that, where most of it lies: the largest phase inside as long as it takes so much of the one around it. */
const MOST = 0.5

/** The outermost phase, the one to name first and the one that most of that lies in; null where none has any time. */
export function largestPhase(tree: Tree, key: string): { root: number; first: number; inner: number } | null {
  const value = (node: number) => Number(tree.rows[node]?.[key] ?? 0)
  const largestIn = (node: number) =>
    tree.parent.reduce((best, parent, i) => (parent === node && (best < 0 || value(i) > value(best)) ? i : best), -1)
  const within = (node: number, share: number) => {
    const found = largestIn(node)
    return found >= 0 && value(found) > 0 && value(found) >= share * value(node) ? found : -1
  }
  const root = largestIn(-1)
  if (value(root) === 0) return null
  const child = within(root, SOME)
  const first = child < 0 ? root : child
  let inner = first
  for (let next = inner; next >= 0 && child >= 0; next = within(inner, MOST)) inner = next
  return { root, first, inner }
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
