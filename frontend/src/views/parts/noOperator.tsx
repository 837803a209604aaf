// The opened row "(no operator)": why no operator stands behind the device time, and what was launched so, from where.
import { Button } from '@mantine/core'
import { useMemo } from 'react'
import type { Query } from '../../api/client'
import type { Breakdown } from '../../api/payloads'
import { familyScales, isNumeric } from '../../lib/format'
import { labelsOf, shortenMiddle, shortKernel } from '../../lib/names'
import { followLink, showHits } from '../../state/links'
import { usePages } from '../../state/pages'
import { Bones, MetricName, Value } from '../../widgets/basics'
import { BreakdownBar } from '../../widgets/breakdown'
import { TimelineIcon } from '../../widgets/icons'
import { ProblemPanel } from '../../widgets/problem'
import { readableName } from '../../widgets/tableCells'
import layoutCss from '../../widgets/layout.module.css'
import plainTableCss from '../../widgets/plainTable.module.css'
import textCss from '../../widgets/text.module.css'
import css from './rowDetail.module.css'

export const NO_OPERATOR = '(no operator)'
const MOST_ROWS = 100
/** Characters of a text that stand in a cell; the rest is on hover. */
const LONGEST = 36
const EVERYTHING = { sort: '', desc: true, search: '', where: [] }
const WHERE = [`operator:${NO_OPERATOR}`]

export function NoOperator({ reasons, base }: { reasons: Breakdown | null; base: Query }) {
  return (
    <div className={css.grid}>
      <div className={css.name}>
        <span />
        <Button
          size="compact-xs"
          variant="default"
          leftSection={<TimelineIcon />}
          onClick={() => showHits(WHERE, NO_OPERATOR)}
        >
          Show in timeline
        </Button>
      </div>
      {reasons && (
        <div className={`${css.block} ${css.stacks}`}>
          <h3>Why no operator</h3>
          <BreakdownBar payload={reasons} onLink={followLink} />
        </div>
      )}
      <Kernels base={base} />
    </div>
  )
}

function Kernels({ base }: { base: Query }) {
  const pages = usePages('operators', 'no_operator', base, EVERYTHING)
  const { table } = pages
  const columns = useMemo(
    () =>
      table?.columns.filter(({ metric, hidden }) => !hidden && table.rows.some((row) => row[metric.key] !== null)) ??
      [],
    [table],
  )
  const names = useMemo(
    () => labelsOf(table?.rows.slice(0, MOST_ROWS).map((row) => readableName(row, 'name')) ?? [], LONGEST, shortKernel),
    [table],
  )
  if (pages.problem) return <ProblemPanel problem={pages.problem} />
  if (!table) return <Bones height={170} />
  const rows = table.rows.slice(0, MOST_ROWS)
  const scales = familyScales(columns, (key) => table.extremes[key] ?? [])
  return (
    <div className={`${css.block} ${css.stacks}`}>
      <h3>
        What was launched
        <small>{pages.count > rows.length ? `${rows.length} of ${pages.count}` : pages.count}</small>
      </h3>
      <div className={`${layoutCss.scroll} ${css.instances}`} tabIndex={0}>
        <table className={plainTableCss.table}>
          <thead>
            <tr>
              {columns.map(({ metric }) => (
                <th key={metric.key} scope="col" className={isNumeric(metric.unit) ? textCss.right : textCss.left}>
                  <MetricName metric={metric} />
                  {scales.get(metric.key)?.symbol && ` (${scales.get(metric.key)?.symbol})`}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, i) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: rows of one answer never move
              <tr key={i}>
                {columns.map(({ metric }) => {
                  const value = row[metric.key] ?? null
                  if (isNumeric(metric.unit))
                    return (
                      <td key={metric.key} className={textCss.right}>
                        <Value value={value} unit={metric.unit} scale={scales.get(metric.key)} bare />
                      </td>
                    )
                  const text = metric.key === 'name' ? readableName(row, 'name') : String(value ?? '')
                  const short = metric.key === 'name' ? (names.get(text)?.short ?? text) : shortenMiddle(text, LONGEST)
                  return (
                    <td key={metric.key} className={textCss.left} title={text}>
                      <span className={metric.unit === 'code' ? textCss.mono : undefined}>{short}</span>
                    </td>
                  )
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  )
}
