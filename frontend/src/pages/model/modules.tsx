import type { Query } from '../../api/client'
import type { View } from '../../api/payloads'
import type { Row } from '../../lib/tableRows'
import { GraphReplays } from '../../parts/graphReplays'
import { SummaryCard } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { payloadByName } from '../../parts/payloadByName'
import { RowDetail } from '../../parts/rowDetail'
import { SimulateButton } from '../../parts/simulateButton'
import { type Group, TableSection } from '../../parts/tableSection'
import { TreePage } from '../../parts/treePage'
import { ViewFrame } from '../../parts/viewFrame'
import { useView } from '../../state/data'
import { Sentence } from '../../widgets/notices'
import { FormChoice, useForm } from './formChoice'
import frameCss from '../../parts/viewFrame.module.css'

export function Modules({ base }: PageProps) {
  const resource = useView('modules', base)
  return (
    <ViewFrame resource={resource} bones={500} steps={String(base.steps ?? '')}>
      {(view) => <Page view={view} base={base} />}
    </ViewFrame>
  )
}

const TREE = { value: 'tree', label: 'Tree' }
const BY_MODULE = { value: 'table', label: 'By module' }
const COMPILED = { value: 'compiled', label: 'Compiled code' }
const MODULES: Group[] = [{ table: 'modules', label: 'Modules' }]
const REGIONS: Group[] = [{ table: 'compiled', label: 'Compiled code', widest: 260 }]
/** How the calls of compiled code are named in the trace. */
const REGION = 'Torch-Compiled Region: '

/** Filter for a node's calls; none for layers together; for compiled code, calls of its region; for replayed modules, their device work. */
const whereOf = (row: Row) => {
  if (row.layers) return []
  if (row.region) return [`name:${REGION}${row.region}`]
  const filter = row.calls === 0 && Number(row.replayed_calls ?? 0) > 0 ? 'replayed_module' : 'module'
  return [`${filter}:${String(row.module).replace(/ \(recomputed\)$/, '')}`]
}

const categoryOf = (_: Row, value: string) => (value.includes('device') ? 'kernel' : 'cpu')

function Page({ view, base }: { view: View; base: Query }) {
  const tree = payloadByName(view, 'tree', 'tree')
  const forms = [...(tree ? [TREE, BY_MODULE] : []), ...(payloadByName(view, 'compiled', 'table') ? [COMPILED] : [])]
  const form = useForm(forms)
  const lead = <FormChoice forms={forms} />
  if (tree && form === TREE.value) {
    const notes = payloadByName(view, 'data_quality', 'notices')?.notices ?? []
    return (
      <TreePage
        tree={tree}
        lead={lead}
        note={[
          <SummaryCard key="answer" view={view} />,
          <GraphReplays key="replayed" view={view} noun="Modules" />,
          ...notes.map((notice) => (
            <p key={notice.rule} className={frameCss.note}>
              <Sentence notice={notice} text={notice.text} />
            </p>
          )),
        ]}
        noun={tree.rows.some((row) => row.region) ? 'modules and regions' : 'modules'}
        whereOf={whereOf}
        categoryOf={categoryOf}
        ordered
      />
    )
  }
  const compiled = form === COMPILED.value
  return (
    <div className={frameCss.page}>
      <SummaryCard view={view} />
      {!compiled && <GraphReplays view={view} noun="Modules" />}
      <TableSection
        key={form}
        view="modules"
        base={base}
        groups={compiled ? REGIONS : MODULES}
        lead={lead}
        placeholder={compiled ? 'Search compiled code, text or /regex/' : 'Search modules, text or /regex/'}
        detail={(row, table) => (
          <RowDetail
            row={row}
            table={table}
            base={base}
            by={row.region === undefined ? undefined : [`name:${REGION}${row.region}`]}
            actions={!compiled && <SimulateButton kind="module" name={row.module} />}
          />
        )}
      />
    </div>
  )
}
