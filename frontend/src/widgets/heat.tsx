// A heat map: one row a line, one column an x, darker is more. For many workers, where bars are too thin to read.
import { Tooltip } from '@mantine/core'
import type { Series } from '../api/payloads'
import { categoryColor, inkOn, mix, SURFACE } from '../lib/color'
import { columnScale, format, formatNumber } from '../lib/format'
import { useTheme } from './basics'

/** Numbers are written into the cells up to so many columns; hover shows them always. */
const WRITTEN = 14

/** From so many rows on they are set small, so that all of them are seen at once. */
const SMALL = 16

export function HeatMap(props: { series: Series; row: string; categories?: readonly string[] }) {
  const { series, row, categories } = props
  const theme = useTheme()
  const values = series.lines.flatMap((line) => line.values)
  const unit = series.lines[0]?.metric.unit ?? 'number'
  const scale = columnScale(unit, values)
  const most = Math.max(...values.map((value) => value ?? 0), 1e-9)
  const surface = theme.dark ? SURFACE.dark : SURFACE.light
  return (
    <div
      className={series.lines.length >= SMALL ? 'tt-scroll tt-heat tt-heat-small' : 'tt-scroll tt-heat'}
      tabIndex={0}
    >
      <table className="tt-table" aria-label={`${series.title} (${scale.symbol || unit})`}>
        <thead>
          <tr>
            <th scope="col" className="tt-left">
              {row}
            </th>
            {series.x.map((x) => (
              <th scope="col" key={String(x)}>
                {series.x_metric.title} {x}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {series.lines.map((line) => (
            <tr key={line.metric.key}>
              <th scope="row" className="tt-left">
                {line.metric.title}
              </th>
              {line.values.map((value, i) => {
                const color = mix(
                  categoryColor(categories?.[i] ?? line.category),
                  surface,
                  0.06 + (0.94 * (value ?? 0)) / most,
                )
                const text = `${line.metric.title}, ${series.x_metric.title} ${series.x[i]}: ${format(value, unit)}`
                return (
                  <Tooltip key={String(series.x[i])} label={text}>
                    <td style={value === null ? undefined : { background: color, color: inkOn(color) }}>
                      {series.x.length <= WRITTEN ? formatNumber(value, scale) : ''}
                    </td>
                  </Tooltip>
                )
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
