// Sort order of tree nodes.

/** As they came (in order of execution), by name, or those with the largest value first. */
export type TreeOrder = '' | 'name' | 'value'

const NATURAL = new Intl.Collator('en', { numeric: true })

/** Positions of all nodes, each behind its parent, siblings in this order; equal ones as they came. */
export function treeSequence(
  parent: readonly number[],
  names: readonly string[],
  values: readonly number[],
  order: TreeOrder,
): number[] {
  const compare = {
    '': () => 0,
    name: (a: number, b: number) => NATURAL.compare(names[a], names[b]),
    value: (a: number, b: number) => values[b] - values[a],
  }[order]
  const children: number[][] = parent.map(() => [])
  const roots: number[] = []
  parent.forEach((above, i) => {
    ;(above < 0 ? roots : children[above]).push(i)
  })
  const sequence: number[] = []
  const stack = roots.sort(compare).reverse()
  for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
    sequence.push(node)
    for (const child of children[node].sort(compare).reverse()) stack.push(child)
  }
  return sequence
}
