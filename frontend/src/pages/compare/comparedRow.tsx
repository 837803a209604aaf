// An opened row of a comparison: both sides.
import { useMemo } from 'react'
import type { Query } from '../../api/client'
import type { Table } from '../../api/payloads'
import { columnScale, isNumeric } from '../../lib/format'
import type { Address } from '../../lib/profiles'
import { type Row, rowId } from '../../lib/tableRows'
import { usePages } from '../../state/tablePages'
import { joinList, type Values } from '../../state/tensorboardHash'
import { openViewOfProfile } from '../../state/urlState'
import { CopyButton, Placeholder, SmallButton, Value } from '../../widgets/basics'
import { ProblemPanel } from '../../widgets/problem'
import { rowText } from '../../widgets/tableRow'
import detailBlockCss from '../../parts/detailBlock.module.css'
import rowDetailCss from '../../parts/rowDetail.module.css'
import plainTableCss from '../../widgets/plainTable.module.css'
import textCss from '../../widgets/text.module.css'
import css from './comparedRow.module.css'

export interface Side extends Address {
  window: string
  capture: string
  steps: string
}

const HOMES: Record<string, { view: string; state: Values }> = {
  operators: { view: 'operators', state: {} },
  operators_by_shape: { view: 'operators', state: { group: 'operators_by_shape' } },
  kernels: { view: 'kernels', state: {} },
  kernels_by_class: { view: 'kernels', state: {} },
  kernels_by_type: { view: 'kernels', state: { group: 'kernels_by_type' } },
  kernels_by_type_shape: { view: 'kernels', state: { group: 'kernels_by_type_shape' } },
  modules: { view: 'modules', state: { form: 'table' } },
  runtime_calls: { view: 'launches', state: { group: 'runtime_calls' } },
  serving_modes: { view: 'serving', state: { group: 'serving_modes' } },
  ranges: { view: 'stacks', state: { form: 'functions' } },
}

const whereOf = (row: Row, table: Table) => table.row_key.map((key) => `${key}:${row[key] ?? ''}`)

function openRow(side: Side, row: Row, table: Table): void {
  const { view, state } = HOMES[table.name]
  openViewOfProfile({ ...side }, view, {
    ...state,
    where: joinList(whereOf(row, table)),
    row: rowId(row, table.row_key),
  })
}

export function ComparedRow(props: { row: Row; table: Table; query: Query; base: Side; exp: Side }) {
  const { row, table, query, base, exp } = props
  const all = useMemo(() => ({ ...query, measure: 'all' }), [query])
  const ask = useMemo(() => ({ sort: '', desc: true, search: '', where: whereOf(row, table) }), [row, table])
  const pages = usePages('diff', table.name, all, ask)
  const name = String(row[table.name_column] ?? '')
  return (
    <div className={css.sides}>
      <div data-testid="detail-name" className={rowDetailCss.name}>
        <span className={textCss.mono}>{name.length > 36 ? name : ''}</span>
        <span className={textCss.row}>
          {row.presence !== 'new' && (
            <SmallButton onClick={() => openRow(base, row, table)}>Open in baseline</SmallButton>
          )}
          {row.presence !== 'gone' && (
            <SmallButton onClick={() => openRow(exp, row, table)}>Open in experiment</SmallButton>
          )}
          <CopyButton label="Copy row" text={() => rowText(row, table.columns)} />
        </span>
      </div>
      {pages.problem && <ProblemPanel problem={pages.problem} />}
      {!pages.table && !pages.problem && <Placeholder height={130} />}
      {pages.table && pages.row(0) && <Numbers table={pages.table} row={pages.row(0) ?? {}} />}
    </div>
  )
}

/** `base_X`, `exp_X` and `delta_X` side by side, a line for every X that either side has. */
function Numbers({ table, row }: { table: Table; row: Row }) {
  const measures = table.columns
    .filter(({ metric }) => metric.key.startsWith('base_') && isNumeric(metric.unit))
    .map(({ metric }) => ({ key: metric.key.slice('base_'.length), metric }))
    .filter(({ key }) => row[`base_${key}`] || row[`exp_${key}`])
  const window = measures.at(-1)?.metric.window ?? ''
  return (
    <div className={detailBlockCss.block}>
      <table className={plainTableCss.table}>
        <thead>
          <tr>
            <th scope="col">{window}</th>
            <th scope="col">Baseline</th>
            <th scope="col">Experiment</th>
            <th scope="col">Change</th>
            <th scope="col">Experiment / baseline</th>
          </tr>
        </thead>
        <tbody>
          {measures.map(({ key, metric }) => {
            const values = ['base', 'exp', 'delta'].map((side) => row[`${side}_${key}`] ?? null)
            const [base, exp, delta] = values
            const scale = columnScale(metric.unit, values)
            return (
              <tr key={key}>
                <th scope="row" title={metric.definition}>
                  {key === 'calls' ? 'Calls' : metric.title.replace(/^.*?: /, '')}
                </th>
                <td>
                  <Value value={base} unit={metric.unit} scale={scale} />
                </td>
                <td>
                  <Value value={exp} unit={metric.unit} scale={scale} />
                </td>
                <td>
                  <Value value={delta} unit={metric.unit} scale={scale} change />
                </td>
                <td>
                  <Value
                    value={typeof base === 'number' && typeof exp === 'number' && base > 0 ? exp / base : null}
                    unit="ratio"
                  />
                </td>
              </tr>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}
