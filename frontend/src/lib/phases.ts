// Which phase a sentence names, and what each took step by step.
import type { Series, Tree } from '../api/payloads'
import type { Row } from './tableRows'

/** Of a root, which is often the step, the largest phase inside is named when it takes so much of it. */
const SOME = 0.2
/** What is open in so much of the steps is the step, or around it: no part of it. */
const ALL = 0.99
/** Of that, where most of it lies: the largest phase inside as long as it takes so much of it, and of the one around it. */
const MOST = 0.5

/** The measure of the sentence: that by which the table is sorted, where it is a time that the tree knows; else the first one given. */
export const phaseMeasure = (tree: Tree, ...keys: (string | null | undefined)[]): string =>
  keys.find((key): key is string => !!key && tree.value_columns.includes(key)) ?? tree.value_columns[0]

/**
 * The largest phase over all its places; then nodes of the tree: the outermost phase, and the one that most of that lies in.
 * `inner` is -1 where there is none, or where the phase stands at several places. Null where none has any time.
 *
 * Where steps are recorded and the outermost phase is open all through them it is the step (or what is around it): what is named is
 * the largest of the others, if it takes enough of it.
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

/** What part of the time of a node lies in the phases directly inside of it; these may overlap, then at most all. */
export function nestedShare(tree: Tree, node: number, key: string): number {
  const inside = tree.rows.reduce((sum, row, i) => (tree.parent[i] === node ? sum + Number(row[key] ?? 0) : sum), 0)
  const all = Number(tree.rows[node][key] ?? 0)
  return all > 0 ? Math.min(1, inside / all) : 0
}

/** Bars by phase, of a series with a line for each. */
export const barsByPhase = (series: Series): Map<string, number[]> =>
  new Map(series.lines.map((line) => [line.metric.key, line.values.map((value) => value ?? 0)]))
