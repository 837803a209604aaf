// Tables of a comparison.
import type { View } from '../../api/payloads'
import { payloadByName } from '../../parts/payloadByName'
import type { Group } from '../../parts/tableSection'

const OPERATORS: Group[] = [
  { table: 'operators', label: 'Operators' },
  { table: 'operators_by_shape', label: 'Operators by shape' },
]
const KERNELS: Group = { table: 'kernels', label: 'Kernels', nameStyle: 'kernel' }
/** Tables of profiles with kernel types. */
const BY_TYPE: Group[] = [
  { table: 'kernels_by_type', label: 'Kernels by type' },
  { table: 'kernels_by_type_shape', label: 'Kernels by type and shapes' },
]
/** For devices of different vendors, whose kernels share no names. */
const BY_CLASS: Group = { table: 'kernels_by_class', label: 'Kernels by class', nameStyle: 'plain' }
const CALLS: Group[] = [
  { table: 'modules', label: 'Modules' },
  { table: 'runtime_calls', label: 'Runtime calls' },
]
/** Modes of servers' steps. */
const MODES: Group = { table: 'serving_modes', label: 'Modes', nameStyle: 'plain' }
const RANGES: Group = { table: 'ranges', label: 'Ranges', nameStyle: 'plain' }

export const haveOtherVendors = (view: View) => payloadByName(view, BY_CLASS.table, 'table') !== null

/** How many changes of a table are within noise. */
function noteOf(view: View, { table }: Group): string {
  const title = payloadByName(view, table, 'table')?.title
  const figure = payloadByName(view, 'noise', 'figures')?.figures.find(({ metric }) => metric.title === title)
  return String(figure?.value ?? '')
}

/** Ranges first, and tables without rows last or, next to ranges, omitted like tables that do not exist. */
export function diffTables(view: View): Group[] {
  const kernels = haveOtherVendors(view) ? [BY_CLASS] : [KERNELS, ...BY_TYPE]
  const groups = [...OPERATORS, ...kernels, ...CALLS, MODES]
  const rows = ({ table }: Group) => payloadByName(view, table, 'table')?.total_rows
  const ranges = rows(RANGES) !== undefined
  const shown = groups.filter((group) => (ranges ? (rows(group) ?? 0) > 0 : rows(group) !== undefined))
  const full = (group: Group) => Number((rows(group) ?? 0) > 0)
  shown.sort((a, b) => full(b) - full(a))
  return (ranges ? [RANGES, ...shown] : shown).map((group) => ({ ...group, note: noteOf(view, group) }))
}
