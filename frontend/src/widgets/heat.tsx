// A heat map: one row a line, one column an x, stronger is more. For many workers, where bars are too thin to read.
import { Tooltip } from '@mantine/core'
import type { CSSProperties } from 'react'
import type { Series } from '../api/payloads'
import { categoryColor, inkOn, mix, SURFACE } from '../lib/color'
import { columnScale, format, formatNumber } from '../lib/format'
import { useTheme } from './basics'

/** Numbers are written into the cells up to so many columns; hover shows them always. */
const WRITTEN = 14

/** From so many rows on they are set small, so that all of them are seen at once. */
const SMALL = 16

/** Opacity of nothing: a cell with a value is never quite the surface. */
const FAINT = 0.06

/** With more columns than numbers fit, so many of them are named. */
const NAMED = 12

export function HeatMap(props: { series: Series; row: string; categories?: readonly string[] }) {
  const { series, row, categories } = props
  const theme = useTheme()
  const values = series.lines.flatMap((line) => line.values)
  const unit = series.lines[0]?.metric.unit ?? 'number'
  const scale = columnScale(unit, values)
  const most = Math.max(...values.map((value) => value ?? 0), 0)
  const surface = theme.dark ? SURFACE.dark : SURFACE.light
  const shade = (category: string, part: number) => mix(categoryColor(category), surface, FAINT + (1 - FAINT) * part)
  const written = series.x.length <= WRITTEN
  const every = written ? 1 : Math.ceil(series.x.length / NAMED)
  const longest = Math.max(row.length, ...series.lines.map((line) => line.metric.title.length))
  const words = series.x.flatMap((x) => String(x).split(' '))
  const widths = {
    '--tt-heat-name': `${Math.min(longest, 32) + 3}ch`,
    '--tt-heat-columns': series.x.length,
    '--tt-heat-cell': written ? `${Math.max(64, 8 + 6 * Math.max(...words.map((word) => word.length)))}px` : '9px',
  } as CSSProperties
  return (
    <>
      <div className="tt-heat-legend">
        <span>0</span>
        {[...new Set(categories ?? [series.lines[0]?.category ?? ''])].map((category) => (
          <i
            key={category}
            style={{ background: `linear-gradient(to right, ${shade(category, 0)}, ${shade(category, 1)})` }}
          />
        ))}
        <span>{format(most, unit)}</span>
        {values.includes(null) && <span>· empty: not recorded</span>}
      </div>
      <div
        className={series.lines.length >= SMALL ? 'tt-scroll tt-heat tt-heat-small' : 'tt-scroll tt-heat'}
        style={widths}
        tabIndex={0}
      >
        <table className="tt-table" aria-label={`${series.title} (${scale.symbol || unit})`}>
          <thead>
            <tr>
              <th scope="col" className="tt-left">
                {row}
              </th>
              {series.x.map((x, i) => (
                <th scope="col" key={String(x)} title={`${series.x_metric.title} ${x}`.trim()}>
                  {written && series.x_metric.title} {i % every === 0 ? x : ''}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {series.lines.map((line) => (
              <tr key={line.metric.key}>
                <th scope="row" className="tt-left" title={line.metric.title}>
                  {line.metric.title}
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
