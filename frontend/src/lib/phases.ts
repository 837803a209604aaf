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

const HOST = 'host_total_ns'

/** Process groups annotate their collectives themselves: these are no phases of the user. */
const COLLECTIVE = /^(?:gloo|nccl|mpi|ucc|xccl|hccl|mccl):(?!:)/

interface Largest {
  row: Row
  /** The column by which it is the largest. */
  key: string
  root: number
  /** The nested phase with most of its time; -1 if there is none, or if the phase occurs in several places. */
  inner: number
  /** The phase that spans all steps; '' if there is none. */
  step: string
}

/**
 * Returns the largest phase, null without time. A phase that spans all steps is the step itself, so it is returned only
 * if there is no other phase. If the parts have little GPU time, the largest phase by CPU time is returned.
 */
export function largestPhase(tree: Tree, rows: readonly Row[], key: string, stepped: boolean): Largest | null {
  const ofUser = ({ phase }: Row) => !COLLECTIVE.test(String(phase))
  const value = (node: number) => (tree.rows[node] && ofUser(tree.rows[node]) ? Number(tree.rows[node][key] ?? 0) : 0)
  const largestIn = (node: number) =>
    tree.parent.reduce((best, parent, i) => (parent === node && (best < 0 || value(i) > value(best)) ? i : best), -1)
  const within = (node: number, share: number) => {
    const found = largestIn(node)
    return found >= 0 && value(found) > 0 && value(found) >= share * value(node) ? found : -1
  }
  const root = largestIn(-1)
  if (value(root) === 0) return null
  const spans = stepped && Number(tree.rows[root].phase_step_ratio ?? 0) >= ALL
  const step = spans ? String(tree.rows[root].phase) : ''
  const largestBy = (column: string) =>
    rows.reduce<Row | null>((best, row) => {
      return row.phase !== step && ofUser(row) && Number(row[column] ?? 0) > Number(best?.[column] ?? 0) ? row : best
    }, null)
  const largest = largestBy(key)
  const some = largest && (!spans || Number(largest[key]) >= SOME * value(root)) ? largest : null
  const onHost = some ? null : largestBy(HOST)
  const row = some ?? onHost ?? rows.find(({ phase }) => phase === tree.rows[root].phase) ?? tree.rows[root]
  const places = tree.rows.flatMap(({ phase }, node) => (phase === row.phase ? [node] : []))
  let inner = -1
  if (some && places.length === 1) {
    const enough = MOST * value(places[0])
    for (let next = within(places[0], MOST); next >= 0 && value(next) >= enough; next = within(inner, MOST))
      inner = next
  }
  return { row, key: onHost ? HOST : key, root, inner, step }
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
