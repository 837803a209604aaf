// Kernel classes by name, loaded on demand.
import { getTable, getView, type Query } from '../../api/client'
import type { Breakdown, Problem, Table } from '../../api/payloads'
import { classesOf, type KernelClasses } from '../../lib/kernelClasses'
import { useResource } from '../../state/data'

const LIMIT = 1000
/** Names beyond these have next to no time: they stay without a class. */
const PAGES = 20

/** Classes of all kernels; null if not requested or loading. */
export function useKernelClasses(
  profile: Query,
  wanted: boolean,
): { classes: KernelClasses | null; problem: Problem | null } {
  const query = { ...profile, steps: '', phase: '', limit: LIMIT }
  const { data, problem } = useResource<KernelClasses>(
    wanted ? JSON.stringify(['classes', query]) : '',
    async (signal) => {
      const answer = await getView('kernels', query, signal)
      if (answer.state === 'loading') return answer
      const { kernels, classes } = answer.data.payloads as { kernels: Table; classes: Breakdown }
      const tables = [kernels]
      while (tables.length < PAGES && tables.length * LIMIT < kernels.total_rows) {
        const page = await getTable('kernels', 'kernels', { ...query, offset: tables.length * LIMIT }, signal)
        if (page.state === 'loading') return page
        tables.push(page.data)
      }
      return { state: 'ready', data: classesOf(tables, classes) }
    },
    false,
  )
  return { classes: wanted ? data : null, problem: wanted ? problem : null }
}
