// Operators: donuts, table and details.

import type { Query } from '../../api/client'
import type { Breakdown, View } from '../../api/payloads'
import { DetailBlock, FirstRows } from '../../parts/detailBlock'
import { GraphReplays } from '../../parts/graphReplays'
import { SummaryCard } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { payloadByName } from '../../parts/payloadByName'
import { RowDetail } from '../../parts/rowDetail'
import { SimulateButton } from '../../parts/simulateButton'
import { TablePage } from '../../parts/tablePage'
import type { Group } from '../../parts/tableSection'
import { useView } from '../../state/data'
import { followLink, showHits } from '../../state/links'
import { openView } from '../../state/urlState'
import { LinkButton, SmallButton, Value } from '../../widgets/basics'
import { BreakdownBar } from '../../widgets/breakdown'
import { TimelineIcon } from '../../widgets/icons'
import { Donuts } from './donuts'
import css from '../../parts/rowDetail.module.css'
import textCss from '../../widgets/text.module.css'
import donutsCss from './donuts.module.css'

const GROUPS: Group[] = [
  { table: 'operators', label: 'By operator' },
  { table: 'operators_outermost', label: 'Top-level' },
  { table: 'operators_by_shape', label: 'By input shape' },
]
const KIND = { kind: 'operator' }
const OUTERMOST = { kind: 'operator', outermost: 'true' }

const donutsOf = ({ payloads }: View) =>
  Object.fromEntries(Object.entries(payloads).filter(([name]) => name !== 'no_operator' && name !== 'replayed'))

export function Operators({ base }: PageProps) {
  const resource = useView('operators', base)
  return (
    <TablePage
      view="operators"
      resource={resource}
      base={base}
      bones={200}
      top={(view) => (
        <>
          <SummaryCard view={view}>
            <div className={donutsCss.shares}>
              <p className={textCss.none}>
                Self times add up. Total times include nested operators, so do not add them.{' '}
                <RuntimeCalls view={view} />
              </p>
              <Donuts payloads={donutsOf(view)} />
            </div>
          </SummaryCard>
          <GraphReplays view={view} noun="Operators" />
        </>
      )}
      groups={GROUPS}
      placeholder="Search operators, text or /regex/"
      detail={(row, table) =>
        row.name === NO_OPERATOR ? (
          <KernelsWithoutOperator
            reasons={resource.data && payloadByName(resource.data, 'no_operator', 'breakdown')}
            base={base}
          />
        ) : (
          <RowDetail
            row={row}
            table={table}
            base={base}
            stacks
            extra={table.name === 'operators_outermost' ? OUTERMOST : KIND}
            actions={<SimulateButton kind="operator" name={row.name} />}
          />
        )
      }
    />
  )
}

function RuntimeCalls({ view }: { view: View }) {
  const [time, ratio] = payloadByName(view, 'left_out', 'figures')?.figures ?? []
  if (!time || !ratio) return null
  return (
    <span data-testid="left-out">
      CPU self excludes <Value value={time.value} unit={time.metric.unit} /> (
      <Value value={ratio.value} unit={ratio.metric.unit} /> of operator self time) spent in runtime calls.{' '}
      <LinkButton onClick={() => openView('launches')}>Show runtime calls</LinkButton>
    </span>
  )
}

const NO_OPERATOR = '(no operator)'
const WHERE = [`operator:${NO_OPERATOR}`]

function KernelsWithoutOperator({ reasons, base }: { reasons: Breakdown | null; base: Query }) {
  return (
    <div className={css.grid}>
      <div className={css.name}>
        <span />
        <SmallButton leftSection={<TimelineIcon />} onClick={() => showHits(WHERE, NO_OPERATOR)}>
          Show in timeline
        </SmallButton>
      </div>
      {reasons && (
        <DetailBlock title="Why there is no operator" wide>
          <BreakdownBar payload={reasons} onLink={followLink} />
        </DetailBlock>
      )}
      <FirstRows
        title="Launched work"
        view="operators"
        table="no_operator"
        base={base}
        limit={100}
        nameStyle="kernel"
      />
    </div>
  )
}
