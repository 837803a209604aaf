// Timeline highlights of a table row.
import { rowId } from '../lib/tableRows'
import { joinList, splitList, type Values } from './tensorboardHash'

/** Columns that the events view filters by. */
const COLUMNS = [
  'name',
  'kind',
  'operator',
  'input_shape',
  'module',
  'grid',
  'block',
  'category',
  'caller_phase',
  'caller_frame',
  'replayed_operator',
  'replayed_shape',
  'replayed_module',
]
/** Row columns that filter replayed work. */
const OF_REPLAYS: [string, string][] = [
  ['replayed_operator:', 'name:'],
  ['replayed_shape:', 'input_shape:'],
  ['replayed_module:', 'module:'],
]
const BEGIN = new RegExp(`^(?:${COLUMNS.join('|')}):`)

/** Filters, `column:value` each, as one value of the URL. */
export const encodeHit = joinList

/** Filters of a `hit`. A value may contain the separator. */
export function decodeHit(text: string | undefined): string[] {
  const found: string[] = []
  for (const item of splitList(text)) {
    if (BEGIN.test(item)) found.push(item)
    else if (found.length > 0) found.push(joinList([found.pop() ?? '', item]))
  }
  return found
}

export function hitTitle(where: readonly string[]): string {
  for (const column of ['name:', 'module:', 'operator:', 'replayed_operator:', 'replayed_module:']) {
    const found = where.find((item) => item.startsWith(column))
    if (found) return found.slice(column.length)
  }
  return where.join(', ')
}

/** Views whose rows are tree nodes by default; filters do not apply. */
const TREES = ['modules', 'stacks']

function columnOf(item: string): string {
  const found = OF_REPLAYS.find(([filter]) => item.startsWith(filter))
  return found ? found[1] + item.slice(found[0].length) : item
}

/** The state that shows the row alone, in a page that never had its view open. */
export function rowState(view: string, form: string, group: string, where: readonly string[], row: string): Values {
  // Node numbers change with the selected stacks; names do not.
  if (TREES.includes(view) && form !== 'table') return { search: hitTitle(where) }
  // Only the table of copies has a kind.
  const own = where.filter((item) => group === 'copies' || !item.startsWith('kind:'))
  return { where: joinList(own.map(columnOf)), row }
}

/** The table that counts events of this kind, and the state that opens the row of this name there. */
export function tableOf(name: string, kind: string): { view: string; label: string; state: Values } | null {
  const where = joinList([`name:${name}`])
  if (kind === 'operator') return { view: 'operators', label: 'operators', state: { where, row: name } }
  if (kind === 'kernel') return { view: 'kernels', label: 'kernels', state: { where, row: name } }
  if (kind === 'memcpy' || kind === 'memset')
    return {
      view: 'kernels',
      label: 'copies',
      state: { group: 'copies', where, row: rowId({ name, kind }, ['name', 'kind']) },
    }
  if (kind === 'runtime') return { view: 'launches', label: 'runtime calls', state: { where, row: name } }
  if (kind !== 'module') return null
  const module = name.replace(/^(nn\.Module: |\[pl\]\[module\])/, '')
  const state = { form: 'table', where: joinList([`module:${module}`]), row: module }
  return { view: 'modules', label: 'modules', state }
}
