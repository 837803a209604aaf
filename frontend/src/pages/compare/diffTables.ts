// Tables of a comparison.
import type { View } from '../../api/payloads'
import { payloadByName } from '../../parts/payloadByName'
import type { Group } from '../../parts/tableSection'

const GROUPS: Group[] = [
  { table: 'operators', label: 'Operators' },
  { table: 'operators_by_shape', label: 'Operators by shape' },
  { table: 'kernels', label: 'Kernels', nameStyle: 'kernel' },
  { table: 'modules', label: 'Modules' },
  { table: 'runtime_calls', label: 'Runtime calls' },
]

export const KERNELS_BY_OPERATOR: Group = { table: 'kernels_by_operator', label: 'Kernels by operator' }
/** Tables of profiles with kernel types. */
const BY_TYPE: Group[] = [
  { table: 'kernels_by_type', label: 'Kernels by type' },
  { table: 'kernels_by_type_shape', label: 'Kernels by type and shapes' },
]
/** Modes of servers' steps. */
const MODES: Group = { table: 'serving_modes', label: 'Modes', nameStyle: 'plain' }
const RANGES: Group = { table: 'ranges', label: 'Ranges', nameStyle: 'plain' }

/** Whether kernels of both sides share no names: each is in one of the two alone. */
const haveOtherMakers = (view: View) =>
  payloadByName(view, 'findings', 'notices')?.notices.some(({ rule }) => rule === 'other_makers') ?? false

/** Ranges first; tables without rows are omitted. */
export function diffTables(view: View): Group[] {
  return payloadByName(view, MODES.table, 'table') ? [...tablesOf(view), MODES] : tablesOf(view)
}

function tablesOf(view: View): Group[] {
  if (payloadByName(view, KERNELS_BY_OPERATOR.table, 'table')) {
    const [operators, byShape, kernels, ...others] = GROUPS
    const named = [kernels, ...BY_TYPE.filter(({ table }) => payloadByName(view, table, 'table'))]
    return [operators, byShape, KERNELS_BY_OPERATOR, ...(haveOtherMakers(view) ? [] : named), ...others]
  }
  if (!payloadByName(view, RANGES.table, 'table')) return GROUPS
  return [RANGES, ...GROUPS.filter(({ table }) => (payloadByName(view, table, 'table')?.total_rows ?? 0) > 0)]
}
