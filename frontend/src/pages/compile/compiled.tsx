// Compiled code: compilation, regions, graph breaks, kernels.

import type { Figure, Table, View } from '../../api/payloads'
import { counted, format } from '../../lib/format'
import type { Row } from '../../lib/tableRows'
import { HeadlineSentence, SummaryCard } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { figureValue, payloadByName } from '../../parts/payloadByName'
import { RowDetail } from '../../parts/rowDetail'
import { TablePage } from '../../parts/tablePage'
import type { Group } from '../../parts/tableSection'
import { useView } from '../../state/data'
import { followLink } from '../../state/links'
import { LinkButton } from '../../widgets/basics'

const GROUPS: Group[] = [
  { table: 'regions', label: 'Regions', nameStyle: 'plain', filters: ['region'], widest: 260 },
  { table: 'graph_breaks', label: 'Graph breaks', nameStyle: 'plain', widest: 320 },
  { table: 'generated_kernels', label: 'Kernels', nameStyle: 'kernel', filters: ['kernel_kind'], widest: 260 },
  { table: 'compiled_steps', label: 'By step', nameStyle: 'plain' },
]
/** How the calls of compiled code are named in the trace. */
const REGION = 'Torch-Compiled Region: '

export function Compiled({ base }: PageProps) {
  const resource = useView('compiled', base)
  return (
    <TablePage
      view="compiled"
      resource={resource}
      base={base}
      bones={78}
      top={(view) => <Top view={view} />}
      groups={GROUPS}
      placeholder="Search, text or /regex/"
      detail={(row, table) => <RowDetail row={row} table={table} base={base} by={[behind(row)]} />}
    />
  )
}

function Top({ view }: { view: View }) {
  const figures = payloadByName(view, 'summary', 'figures')?.figures
  return (
    figures && (
      <SummaryCard view={view}>
        <HeadlineSentence severity="info">
          {answered(figures, payloadByName(view, 'graph_breaks', 'table'))}{' '}
          <LinkButton onClick={() => followLink({ view: 'findings', params: {}, text: '' })}>Show findings</LinkButton>
        </HeadlineSentence>
      </SummaryCard>
    )
  )
}

function answered(figures: readonly Figure[], breaks: Table | null): string {
  const value = (key: string) => Number(figureValue({ figures }, key) ?? 0)
  const again = value('recompilations')
  const compiling =
    value('compilations') > 0
      ? `Compiling took ${format(value('compile_ns'), 'ns')} in ${counted(value('compilations'), 'compilation')}` +
        `${again > 0 ? `, including ${counted(again, 'recompilation')}` : ''}.`
      : 'No compilation in the selected steps.'
  const most = breaks?.rows[0]
  if (!most) return `${compiling} No graph breaks.`
  const where = most.break_at ? String(most.break_at) : `region ${most.break_from} continues as ${most.break_to}`
  return (
    `${compiling} ${counted(value('graph_breaks'), 'graph break')}${value('graph_breaks') > 1 ? '; the costliest' : ''}: ` +
    `${where}. Guards and wrappers take ${format(Number(most.break_ns), 'ns')} there.`
  )
}

/** A filter for the events of a row: its region, or the kernel. */
function behind(row: Row): string {
  if (row.generated_kernel !== undefined) return `name:${row.generated_kernel}`
  if (row.step !== undefined) return `name:ProfilerStep#${row.step}`
  return `name:${REGION}${String(row.region ?? row.break_to).split(', ')[0]}`
}
