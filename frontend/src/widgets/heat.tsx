// A heat map: one row a line, one column an x, stronger is more. For many workers, where bars are too thin to read.
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

/** Numbers are written into the cells up to so many columns, and below names of several words, which need the room: the
 * map scrolls then. Hover shows them always. */
const WRITTEN = 14

/** From so many rows on they are set small, so that all of them are seen at once. */
const SMALL = 16

/** Opacity of nothing: a cell with a value is never quite the surface. */
const FAINT = 0.06

/** With more columns than numbers fit, so many of them are named. */
const NAMED = 12

/** Characters of a name at most: the middle of a longer one goes. */
const LONGEST = 48

/** Kernels by their readable names; names that are alike go on where they differ. */
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
              {series.x.map((x, i) =>
                // Where there is no room for all of them, one name stands above its own column and those up to the next.
                i % every > 0 ? null : (
                  <th
                    scope="col"
                    key={String(x)}
                    className={written ? undefined : textCss.left}
                    colSpan={Math.min(every, series.x.length - i)}
                    title={`${series.x_metric.title} ${x}`.trim()}
                  >
                    {written && series.x_metric.title} {x}
                  </th>
                ),
              )}
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
