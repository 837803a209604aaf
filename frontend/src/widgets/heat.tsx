// A heat map of rows over x.
import { Tooltip } from '@mantine/core'
import type { CSSProperties } from 'react'
import type { Series } from '../api/payloads'
import { categoryColor, inkOn, mix } from '../lib/color'
import { columnScale, format, formatNumber } from '../lib/format'
import { labelsOf, shortKernel } from '../lib/names'
import { useTheme } from './basics'
import css from './heat.module.css'
import layoutCss from './layout.module.css'
import plainTableCss from './plainTable.module.css'
import textCss from './text.module.css'

/** Up to this many columns cells contain numbers; long names make the map scroll. */
const WRITTEN = 14

/** From this many rows on, rows are small. */
const SMALL = 16

/** Opacity of nothing: a cell with a value is never quite the surface. */
const FAINT = 0.06

const NAMED = 12

/** A column that is named, and whether its name ends above it, as there is no room behind it. */
interface ColumnLabel {
  at: number
  isEnd: boolean
}

/** Every n-th column plus those of `largest`, without overlaps. */
export function columnLabels(count: number, every: number, largest: readonly number[]): ColumnLabel[] {
  const found: ColumnLabel[] = []
  const from = ({ at, isEnd }: ColumnLabel) => (isEnd ? at + 1 - every : at)
  const regular = Array.from({ length: Math.ceil(count / every) }, (_, i) => i * every)
  for (const at of [...largest, ...regular]) {
    const one = { at, isEnd: at > (regular.at(-1) ?? 0) }
    if (found.every((other) => Math.abs(from(one) - from(other)) >= every)) found.push(one)
  }
  return found.sort((one, other) => one.at - other.at)
}

/** Characters of a name at most: the middle of a longer one goes. */
const LONGEST = 48

/** Readable kernel names; equal ones are distinguished. */
function rowNames(titles: readonly string[]): string[] {
  const labels = labelsOf(titles, LONGEST, shortKernel)
  return titles.map((title) => {
    const { short = title, rest = '' } = labels.get(title) ?? {}
    return rest.startsWith('…') ? `${short} ${rest}` : short
  })
}

export function HeatMap(props: { series: Series; row: string; categories?: readonly string[]; dense?: boolean }) {
  const { series, row, categories, dense } = props
  const theme = useTheme()
  const values = series.lines.flatMap((line) => line.values)
  const unit = series.lines[0]?.metric.unit ?? 'number'
  const scale = columnScale(unit, values)
  const most = Math.max(...values.map((value) => value ?? 0), 0)
  const shade = (category: string, part: number) =>
    mix(categoryColor(category), theme.panel, FAINT + (1 - FAINT) * part)
  const written = series.x.length <= WRITTEN || series.x.some((x) => String(x).includes(' '))
  const every = written ? 1 : Math.ceil(series.x.length / NAMED)
  const largest = series.x.flatMap((_, i) =>
    most > 0 && series.lines.some(({ values: of }) => of[i] === most) ? [i] : [],
  )
  const named = columnLabels(series.x.length, every, largest)
  const names = rowNames(series.lines.map((line) => line.metric.title))
  const longest = Math.max(row.length, ...names.map((name) => name.length))
  const words = series.x.flatMap((x) => String(x).split(' '))
  const widths = {
    '--tt-heat-name': `${longest + 3}ch`,
    '--tt-heat-columns': series.x.length,
    '--tt-heat-cell': written ? `${Math.max(64, 8 + 6 * Math.max(...words.map((word) => word.length)))}px` : '9px',
  } as CSSProperties
  return (
    <>
      <div data-testid="heat-legend" className={css.legend}>
        <span>0</span>
        {[...new Set(categories ?? [series.lines[0]?.category ?? ''])].map((category) => (
          <i
            key={category}
            style={{ background: `linear-gradient(to right, ${shade(category, 0)}, ${shade(category, 1)})` }}
          />
        ))}
        <span>{format(most, unit, written ? scale : undefined)}</span>
        {written && scale.symbol && <span>· numbers in {scale.symbol}</span>}
        {values.includes(null) && <span>· empty: not recorded</span>}
      </div>
      <div
        className={[layoutCss.scroll, css.heat, dense && css.dense, series.lines.length >= SMALL && css.small]
          .filter(Boolean)
          .join(' ')}
        data-testid="heat"
        style={widths}
        tabIndex={0}
      >
        <table className={plainTableCss.table} aria-label={`${series.title} (${scale.symbol || unit})`}>
          <thead>
            <tr>
              <th scope="col" className={textCss.left}>
                {row}
              </th>
              {named[0]?.at > 0 && <td colSpan={named[0].at} />}
              {named.map(({ at, isEnd }, i) => (
                // Without room for all names, one stands for the columns up to the next.
                <th
                  scope="col"
                  key={String(series.x[at])}
                  className={written ? undefined : isEnd ? css.end : textCss.left}
                  colSpan={(named[i + 1]?.at ?? series.x.length) - at}
                  title={`${series.x_metric.title} ${series.x[at]}`.trim()}
                >
                  <span>
                    {written && series.x_metric.title} {series.x[at]}
                  </span>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {series.lines.map((line, at) => (
              <tr key={line.metric.key}>
                <th scope="row" className={textCss.left} title={line.metric.title}>
                  {names[at]}
                </th>
                {line.values.map((value, i) => {
                  const color = shade(categories?.[i] ?? line.category, most > 0 ? (value ?? 0) / most : 0)
                  const text = `${line.metric.title}, ${series.x_metric.title} ${series.x[i]}: ${format(value, unit)}`
                  return (
                    <Tooltip key={String(series.x[i])} label={text}>
                      <td style={value === null ? undefined : { background: color, color: inkOn(color) }}>
                        {written ? formatNumber(value, scale) : ''}
                      </td>
                    </Tooltip>
                  )
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  )
}
