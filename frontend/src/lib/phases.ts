// The largest phase, and its time per step.
import type { Series, Tree } from '../api/payloads'
import type { Row } from './tableRows'

/** Minimum share of a root for its largest child to be named. */
const SOME = 0.2
/** Share of the steps from which a phase counts as the step itself. */
const ALL = 0.99
/** Minimum share for a nested phase to be named. */
const MOST = 0.5

/** The sorted column if the tree has it, else the first given. */
export const phaseMeasure = (tree: Tree, ...keys: (string | null | undefined)[]): string =>
  keys.find((key): key is string => !!key && tree.value_columns.includes(key)) ?? tree.value_columns[0]

/**
 * The largest phase with its tree nodes: `root`, and `inner`, the nested phase with most of its time (-1 if none or if
 * the phase occurs in several places). Null without time. A phase that spans all steps is the step: its largest child
 * is used if large enough.
 */
export function largestPhase(
  tree: Tree,
  rows: readonly Row[],
  key: string,
  stepped: boolean,
): { row: Row; root: number; inner: number } | null {
  const value = (node: number) => Number(tree.rows[node]?.[key] ?? 0)
  const largestIn = (node: number) =>
    tree.parent.reduce((best, parent, i) => (parent === node && (best < 0 || value(i) > value(best)) ? i : best), -1)
  const within = (node: number, share: number) => {
    const found = largestIn(node)
    return found >= 0 && value(found) > 0 && value(found) >= share * value(node) ? found : -1
  }
  const root = largestIn(-1)
  if (value(root) === 0) return null
  const step = stepped && Number(tree.rows[root].phase_step_ratio ?? 0) >= ALL ? tree.rows[root].phase : null
  const largest = rows.reduce<Row | null>((best, row) => {
    return row.phase !== step && Number(row[key] ?? 0) > Number(best?.[key] ?? 0) ? row : best
  }, null)
  const some = largest && (step === null || Number(largest[key]) >= SOME * value(root)) ? largest : null
  const row = some ?? rows.find(({ phase }) => phase === tree.rows[root].phase) ?? tree.rows[root]
  const places = tree.rows.flatMap(({ phase }, node) => (phase === row.phase ? [node] : []))
  let inner = -1
  if (some && places.length === 1) {
    const enough = MOST * value(places[0])
    for (let next = within(places[0], MOST); next >= 0 && value(next) >= enough; next = within(inner, MOST))
      inner = next
  }
  return { row, root, inner }
}

/** Share of a node's time in its direct children, at most 1. */
export function nestedShare(tree: Tree, node: number, key: string): number {
  const inside = tree.rows.reduce((sum, row, i) => (tree.parent[i] === node ? sum + Number(row[key] ?? 0) : sum), 0)
  const all = Number(tree.rows[node][key] ?? 0)
  return all > 0 ? Math.min(1, inside / all) : 0
}

/** Bars by phase, of a series with a line for each. */
export const barsByPhase = (series: Series): Map<string, number[]> =>
  new Map(series.lines.map((line) => [line.metric.key, line.values.map((value) => value ?? 0)]))
