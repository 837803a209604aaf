// Nodes and tensors of an execution trace.
import { useMemo, useState } from 'react'
import type { Query } from '../../api/client'
import { companionCandidates } from '../../lib/companions'
import type { Address } from '../../lib/profiles'
import type { Row } from '../../lib/tableRows'
import { AnswerPage } from '../../parts/answerPage'
import { DetailBlock } from '../../parts/detailBlock'
import { callOf, ExecutionNodeDetail, eventOf } from '../../parts/executionNodeDetail'
import type { PageProps } from '../../parts/page'
import type { Group } from '../../parts/tableSection'
import { useView } from '../../state/data'
import { timelineState } from '../../state/links'
import { openViewOfProfile, setRoute } from '../../state/urlState'
import { Placeholder, SmallButton } from '../../widgets/basics'
import { TimelineIcon } from '../../widgets/icons'
import { ProblemPanel } from '../../widgets/problem'
import pageCss from '../../parts/pageHead.module.css'
import textCss from '../../widgets/text.module.css'

const GROUPS: Group[] = [{ table: 'execution_nodes', label: 'Nodes' }]

export function ExecutionNodes({ base, catalog, profile }: PageProps) {
  const traces = companionCandidates(catalog, profile, profile.model, 'trace')
  const [{ run, worker, span }, isOne] = [traces[0] ?? profile, traces.length === 1]
  const trace = useMemo<Address | null>(() => (isOne ? { run, worker, span } : null), [isOne, run, worker, span])
  return (
    <AnswerPage
      id="execution_nodes"
      query={base}
      groups={GROUPS}
      placeholder="Search nodes, text or /regex/"
      detail={(row) => <Node key={String(row.node_number)} row={row} base={base} trace={trace} />}
      isDone={trace !== null}
      action={
        trace && (
          <span>
            <SmallButton onClick={() => openViewOfProfile({ ...trace }, 'timeline', {})}>
              Open the timeline of {trace.worker}
            </SmallButton>
          </span>
        )
      }
    />
  )
}

function Node({ row, base, trace }: { row: Row; base: Query; trace: Address | null }) {
  const query = useMemo<Query>(() => ({ ...base, node_number: Number(row.node_number) }), [base, row])
  const resource = useView('execution_nodes', query)
  const [state, setState] = useState<'' | 'busy' | 'lost'>('')
  const go = async () => {
    if (!trace) return
    setState('busy')
    const hit = await eventOf(callOf(row), { ...trace })
    setState(hit ? '' : 'lost')
    if (hit) openViewOfProfile({ ...trace }, 'timeline', timelineState(hit.event, hit.start, hit.end - hit.start))
  }
  return (
    <div className={pageCss.detail} data-testid="node">
      {trace && Number(row.function_id) > 0 && (
        <span className={textCss.row}>
          <SmallButton leftSection={<TimelineIcon />} loading={state === 'busy'} onClick={() => void go()}>
            Show in timeline
          </SmallButton>
          {state === 'lost' && <span className={textCss.mute}>This node is not in the trace of {trace.worker}.</span>}
        </span>
      )}
      {resource.problem && <ProblemPanel problem={resource.problem} />}
      {!resource.data && !resource.problem && <Placeholder height={80} />}
      {resource.data && (
        <DetailBlock title="Tensors" wide>
          <ExecutionNodeDetail
            view={resource.data}
            heading={(text) => <h3>{text}</h3>}
            onName={(link) => setRoute({ search: String(link.name), row: String(link.node_number) }, true)}
          />
        </DetailBlock>
      )}
    </div>
  )
}
