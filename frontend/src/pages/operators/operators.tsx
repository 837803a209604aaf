// Operators: the top ten as donuts, all of them as a table, one of them in every detail.
import type { View } from '../../api/payloads'
import { Replayed } from '../../parts/graphReplays'
import type { ViewProps } from '../../parts/page'
import { pick } from '../../parts/payloadByName'
import { RowDetail } from '../../parts/rowDetail'
import { type Group, TableSection } from '../../parts/tableSection'
import { ViewFrame } from '../../parts/viewFrame'
import { useView } from '../../state/data'
import { openView } from '../../state/route'
import { Bones, Value } from '../../widgets/basics'
import { Donuts } from './donuts'
import { NO_OPERATOR, NoOperator } from './kernelsWithoutOperator'
import frameCss from '../../parts/viewFrame.module.css'
import textCss from '../../widgets/text.module.css'

const GROUPS: Group[] = [
  { table: 'operators', label: 'By operator' },
  { table: 'operators_outermost', label: 'Outermost' },
  { table: 'operators_by_shape', label: 'By input shape' },
]
const KIND = { kind: 'operator' }
const OUTERMOST = { kind: 'operator', outermost: 'true' }

const donutsOf = ({ payloads }: View) =>
  Object.fromEntries(Object.entries(payloads).filter(([name]) => name !== 'no_operator' && name !== 'replayed'))

export function Operators({ base }: ViewProps) {
  const resource = useView('operators', base)
  return (
    <div className={frameCss.page}>
      <ViewFrame resource={resource} bones={<Bones height={200} />} steps={String(base.steps ?? '')}>
        {(view) => (
          <>
            <Donuts payloads={donutsOf(view)} />
            <p className={textCss.none}>
              Self times of all operators add up to the whole. Total times include nested operators: do not add them.
            </p>
            <LeftOut view={view} />
            <Replayed view={view} noun="Operators" />
          </>
        )}
      </ViewFrame>
      {(resource.data || !resource.problem) && (
        <TableSection
          view="operators"
          base={base}
          groups={GROUPS}
          placeholder="Search operators, text or /regex/"
          detail={(row, table) =>
            row.name === NO_OPERATOR ? (
              <NoOperator reasons={resource.data && pick(resource.data, 'no_operator', 'breakdown')} base={base} />
            ) : (
              <RowDetail
                row={row}
                table={table}
                base={base}
                stacks
                extra={table.name === 'operators_outermost' ? OUTERMOST : KIND}
              />
            )
          }
        />
      )}
    </div>
  )
}

/** Host self is less than the host spent: what it leaves out, and where that is. */
function LeftOut({ view }: { view: View }) {
  const [time, ratio] = pick(view, 'left_out', 'figures')?.figures ?? []
  if (!time || !ratio) return null
  return (
    <p className={textCss.none} data-testid="left-out">
      Host self leaves out <Value value={time.value} unit={time.metric.unit} /> (
      <Value value={ratio.value} unit={ratio.metric.unit} /> of the operators' own time) in runtime calls.{' '}
      <button type="button" className={textCss.link} onClick={() => openView('launches')}>
        Show runtime calls
      </button>
    </p>
  )
}
