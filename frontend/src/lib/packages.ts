// Colours of stack frames by whose code they are: one's own stands out, what belongs to nobody in particular steps back.
import type { Row } from './pages'

const PLAIN = new Set(['standard library', 'built-in', 'generated code', ''])
const OWN = ['slice0', 'slice5', 'slice4', 'slice7', 'slice2']

const hash = (text: string) => {
  let value = 0
  for (const char of text) value = (value * 31 + char.charCodeAt(0)) | 0
  return Math.abs(value)
}

/** The category that colours a frame. */
export function packageCategory(row: Row): string {
  const kind = String(row.node_kind)
  const name = String(row.package ?? '')
  if (kind !== 'python') return kind
  if (PLAIN.has(name)) return 'other'
  if (row.framework === true) return name === 'torch' ? 'slice3' : `package ${name}`
  return OWN[hash(name) % OWN.length]
}

/** What the colour of a frame is called in the key. */
export function packageLabel(row: Row): string {
  const kind = String(row.node_kind)
  if (kind !== 'python') return KINDS[kind] ?? kind
  const name = String(row.package ?? '')
  return PLAIN.has(name) ? 'Python itself' : name
}

export const KINDS: Record<string, string> = {
  python: 'Python calls',
  module: 'modules',
  annotation: 'named ranges',
  operator: 'operators',
  runtime: 'runtime calls',
  unknown: 'without a frame',
}
