// Search hits in a tree, and their share of a value.
interface TreeHits {
  /** Positions of the matching nodes, in the order of the tree. */
  nodes: readonly number[]
  /** Sum over hits without nested hits. */
  sum: number
  total: number
}

/** Nodes are in pre-order. */
export function treeHits(
  names: readonly string[],
  parent: readonly number[],
  values: readonly number[],
  match: (name: string) => boolean,
): TreeHits {
  const nodes: number[] = []
  const inside: boolean[] = []
  let sum = 0
  let total = 0
  for (let i = 0; i < names.length; i++) {
    const above = parent[i] >= 0 && inside[parent[i]]
    const own = match(names[i])
    if (own) nodes.push(i)
    if (own && !above) sum += values[i]
    if (parent[i] < 0) total += values[i]
    inside[i] = above || own
  }
  return { nodes, sum, total }
}

/** The next hit behind a node, or before it; around the end it goes on at the other one. -1 = none. */
export function stepHit(nodes: readonly number[], from: number, back: boolean): number {
  if (nodes.length === 0) return -1
  if (back) return nodes.findLast((node) => node < from) ?? nodes[nodes.length - 1]
  return nodes.find((node) => node > from) ?? nodes[0]
}
