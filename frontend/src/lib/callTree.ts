// The aligned call tree, one level at a time.
import type { Tree } from '../api/payloads'

/** Numbers of one place on both sides. */
export interface Level {
  name: string
  kind: string
  presence: string
  baseCalls: number | null
  expCalls: number | null
  base: number
  exp: number
  delta: number
}

export interface LevelRow extends Level {
  /** Tree index; -1 for rows without a node. */
  node: number
  /** `rest`: hidden children; `self`: the node's own work. */
  role: 'child' | 'rest' | 'self'
  /** Number of children, or of summed children. */
  below: number
  /** Running sum of the changes, this row included. */
  sum: number
}

export interface LevelView {
  /** The parent of the rows; -1 at the top. */
  node: number
  total: Level
  rows: LevelRow[]
}

export type Order = 'tree' | 'change'

const TWIN = '\u001e'
/** Below this a difference is rounding error. */
const NOTHING_NS = 0.5

const number = (value: unknown): number => (typeof value === 'number' ? value : 0)

function levelOf(tree: Tree, node: number): Level {
  const row = tree.rows[node]
  return {
    name: String(row.name ?? ''),
    kind: String(row.node_kind ?? ''),
    presence: String(row.presence ?? 'both'),
    baseCalls: number(row.base_calls),
    expCalls: number(row.exp_calls),
    base: number(row.base_ns),
    exp: number(row.exp_ns),
    delta: number(row.delta_ns),
  }
}

/** Children of every node in the tree's order; those of the top at [-1]. */
export function childrenOf(tree: Tree): Map<number, number[]> {
  const out = new Map<number, number[]>()
  tree.parent.forEach((parent, node) => {
    const known = out.get(parent)
    if (known) known.push(node)
    else out.set(parent, [node])
  })
  return out
}

/** Names of a node's place from the top down. Of siblings with one name the later ones carry their number. */
export function pathOf(tree: Tree, children: Map<number, number[]>, node: number): string[] {
  const out: string[] = []
  for (let at = node; at >= 0; at = tree.parent[at]) {
    const name = String(tree.rows[at].name ?? '')
    const twins = (children.get(tree.parent[at]) ?? []).filter((other) => tree.rows[other].name === name)
    const which = twins.indexOf(at)
    out.unshift(which > 0 ? `${name}${TWIN}${which}` : name)
  }
  return out
}

/** The node at a path, or the last existing node on it. */
export function nodeAt(tree: Tree, children: Map<number, number[]>, path: readonly string[]): number {
  let at = -1
  for (const step of path) {
    const [name, which] = step.split(TWIN)
    const twins = (children.get(at) ?? []).filter((node) => String(tree.rows[node].name ?? '') === name)
    const next = twins[Number(which ?? 0)]
    if (next === undefined) break
    at = next
  }
  return at
}

const sumOf = (rows: readonly Level[]) => ({
  base: rows.reduce((sum, row) => sum + row.base, 0),
  exp: rows.reduce((sum, row) => sum + row.exp, 0),
  delta: rows.reduce((sum, row) => sum + row.delta, 0),
})

/** The children of `node`. Of more than `limit` those that changed most are rows; the others are one row. */
export function levelView(
  tree: Tree,
  children: Map<number, number[]>,
  node: number,
  order: Order,
  limit: number,
): LevelView {
  const all = (children.get(node) ?? []).map((child) => ({
    ...levelOf(tree, child),
    node: child,
    role: 'child' as const,
    below: children.get(child)?.length ?? 0,
    sum: 0,
  }))
  const ranked = [...all].sort((a, b) => Math.abs(b.delta) - Math.abs(a.delta) || b.base + b.exp - (a.base + a.exp))
  const kept = new Set(ranked.slice(0, limit).map((row) => row.node))
  const rows: LevelRow[] = (order === 'change' ? ranked : all).filter((row) => kept.has(row.node))
  const others = all.filter((row) => !kept.has(row.node))
  const plain = { kind: '', presence: 'both', baseCalls: null, expCalls: null, node: -1, sum: 0 }
  if (others.length > 0) rows.push({ ...plain, name: '', role: 'rest', below: others.length, ...sumOf(others) })
  const whole: Level = node >= 0 ? levelOf(tree, node) : { ...plain, name: '', ...sumOf(all) }
  const below = sumOf(all)
  const own = { base: whole.base - below.base, exp: whole.exp - below.exp, delta: whole.delta - below.delta }
  if (all.length > 0 && Object.values(own).some((value) => Math.abs(value) > NOTHING_NS))
    rows.push({ ...plain, name: '', role: 'self', below: 0, ...own })
  let sum = 0
  for (const row of rows) {
    sum += row.delta
    row.sum = Math.abs(sum) > NOTHING_NS ? sum : 0
  }
  return { node, total: whole, rows }
}
