// Colours of stack frames by package.
import type { Row } from './tableRows'

const PLAIN = new Set(['standard library', 'built-in', 'generated code', ''])
/** One's own packages, and those of others but torch: each is unlike the colours of modules, operators and runtime calls. */
const OWN = ['slice0', 'slice2', 'slice5', 'slice9', 'sync']
const OTHERS = ['slice8', 'python']

/** The category that colours each frame of a tree; packages take their colours in the order in which they come. */
export function packageColors(rows: readonly Row[]): (row: Row) => string {
  const found = new Map<string, string>()
  let own = 0
  let others = 0
  for (const row of rows) {
    const name = String(row.package ?? '')
    if (row.node_kind !== 'python' || found.has(name)) continue
    if (PLAIN.has(name)) found.set(name, 'overhead')
    else if (name === 'torch') found.set(name, 'slice3')
    else if (row.framework === true) found.set(name, OTHERS[others++ % OTHERS.length])
    else found.set(name, OWN[own++ % OWN.length])
  }
  return (row) => {
    if (row.node_kind === 'annotation') return 'memset'
    return row.node_kind === 'python' ? (found.get(String(row.package ?? '')) ?? 'other') : String(row.node_kind)
  }
}

export function packageLabel(row: Row): string {
  const kind = String(row.node_kind)
  if (kind !== 'python') return KINDS[kind] ?? kind
  const name = String(row.package ?? '')
  return PLAIN.has(name) ? 'Python interpreter' : name
}

export const KINDS: Record<string, string> = {
  python: 'Python calls',
  module: 'modules',
  annotation: 'named ranges',
  operator: 'operators',
  runtime: 'runtime calls',
  unknown: 'no frame',
}
