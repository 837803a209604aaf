// Tensors of an operator, from an execution trace.
import { type ReactNode, useMemo, useState } from 'react'
import type { Query } from '../../api/client'
import type { Catalog, Figure, Profile, View } from '../../api/payloads'
import type { Range } from '../../canvas/viewport'
import { companionCandidates, EXECUTION } from '../../lib/companions'
import { addressText } from '../../lib/profiles'
import type { Row } from '../../lib/tableRows'
import { callOf, ExecutionNodeDetail, eventOf } from '../../parts/executionNodeDetail'
import { figureValue, payloadByName } from '../../parts/payloadByName'
import { useView } from '../../state/data'
import { Placeholder, SmallButton } from '../../widgets/basics'
import textCss from '../../widgets/text.module.css'
import css from './eventPanel.module.css'

/** The number of the call, which both files state. */
const FUNCTION = 'args.Record function id'

interface Props {
  base: Query
  catalog: Catalog
  profile: Profile
  figures: readonly Figure[]
  onGo: (event: number, at: Range) => void
}

const textOf = (figures: readonly Figure[], key: string) => String(figureValue({ figures }, key) ?? '')

/** Empty without an event number or companion execution trace. */
export function EventTensors(props: Props) {
  const { catalog, profile, figures } = props
  const [wanted, setWanted] = useState(false)
  const found = useMemo(() => companionCandidates(catalog, profile, profile.model, EXECUTION), [catalog, profile])
  const number = textOf(figures, FUNCTION)
  if (!number || found.length === 0) return null
  if (found.length > 1) {
    return (
      <Block>
        <p className={textCss.none}>
          {found.length} execution traces are available, but they do not identify the traces they belong to.
        </p>
      </Block>
    )
  }
  const { state, ...there } = found[0]
  if (state !== 'ready' && !wanted) {
    return (
      <Block>
        <SmallButton title={`Reads ${addressText(there)}`} onClick={() => setWanted(true)}>
          Read the execution trace
        </SmallButton>
      </Block>
    )
  }
  return <Node {...props} number={number} there={{ ...there }} />
}

const Block = ({ children }: { children: ReactNode }) => (
  <div className={css.wide} data-testid="event-tensors">
    <h3>Tensors</h3>
    {children}
  </div>
)

function Node(props: Props & { number: string; there: Query }) {
  const { figures, number, there } = props
  const { run, worker, span } = there
  const query = useMemo<Query>(() => ({ run, worker, span, function_id: number }), [run, worker, span, number])
  const resource = useView('execution_nodes', query)
  if (resource.problem) {
    return (
      <Block>
        <p className={textCss.none}>
          No tensors from execution trace {String(worker)}: {resource.problem.what}
        </p>
      </Block>
    )
  }
  if (!resource.data)
    return (
      <Block>
        <Placeholder height={80} />
      </Block>
    )
  const node = payloadByName(resource.data, 'node', 'figures')?.figures ?? []
  if (textOf(node, 'name') !== textOf(figures, 'name')) {
    return (
      <Block>
        <p className={textCss.none}>Execution trace {String(worker)} is from another recording.</p>
      </Block>
    )
  }
  return <TensorsOfNode {...props} view={resource.data} />
}

function TensorsOfNode({ base, view, onGo }: Props & { view: View }) {
  const [lost, setLost] = useState('')
  const go = async (row: Row) => {
    const { run, worker, span, window } = base
    const hit = await eventOf(callOf(row), { run, worker, span, window })
    setLost(hit ? '' : `${row.name} is not in this trace.`)
    if (hit) onGo(hit.event, hit)
  }
  return (
    <Block>
      <ExecutionNodeDetail
        view={view}
        heading={(text) => <h3>{text}</h3>}
        show={{
          label: 'Show this operator in the timeline',
          of: (row) => (Number(row.function_id) > 0 ? () => void go(row) : null),
        }}
      />
      {lost && <p className={textCss.none}>{lost}</p>}
    </Block>
  )
}
