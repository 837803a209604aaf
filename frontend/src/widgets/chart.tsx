// A series as chart or table.
import { type ReactNode, useMemo, useRef } from 'react'
import type { Series } from '../api/payloads'
import { categoryColor } from '../lib/color'
import { formatNumber } from '../lib/format'
import { useTheme, Value } from './basics'
import { BreakdownBar } from './breakdown'
import { chartOption, chartScale, partAt, totalsOf, xLabels } from './chartOption'
import { PlotFrame, usePlot } from './plot'
import layoutCss from './layout.module.css'
import plainTableCss from './plainTable.module.css'

interface ChartProps {
  series: Series
  height: number | string
  selected?: ReadonlySet<string>
  compact?: boolean
  onBar?: (x: string, category: string | null) => void
}

/** Shows one step as a breakdown instead of one column. */
export const Chart = (props: ChartProps) =>
  props.series.style === 'stacked_bars' && props.series.x.length === 1 ? (
    <SingleBar series={props.series} />
  ) : (
    <Plotted {...props} />
  )

const NO_LINK = () => undefined

function SingleBar({ series: { name, title, lines } }: { series: Series }) {
  const parts = lines.flatMap(({ metric, category, values: [value] }) =>
    value ? [{ metric, category, value, link: null, interval: null }] : [],
  )
  const total = parts.reduce((sum, { value }) => sum + value, 0)
  const unit = lines[0]?.metric.unit ?? 'number'
  const payload = {
    kind: 'breakdown',
    name,
    title,
    subtitle: '',
    unit,
    total,
    parts,
    style: 'bar',
    start: 0,
    interval: null,
  } as const
  return <BreakdownBar payload={{ ...payload, parts: [...parts] }} onLink={NO_LINK} />
}

function Plotted(props: ChartProps) {
  const { series, height, selected, compact = false, onBar } = props
  const theme = useTheme()
  const handler = useRef(onBar)
  handler.current = onBar
  const seriesNow = useRef(series)
  seriesNow.current = series
  const option = useMemo(
    () => chartOption(series, { theme, selected: selected ?? new Set(), compact }),
    [series, theme, selected, compact],
  )
  const { frame, drawn } = usePlot(option, (instance, node) => {
    // The bar's full column is the target.
    instance.getZr().on('click', (event: { offsetX: number; offsetY: number }) => {
      const point = [event.offsetX, event.offsetY]
      if (!handler.current || event.offsetY > node.clientHeight - 20) return
      const at = instance.convertFromPixel({ xAxisIndex: 0 }, event.offsetX)
      const inside = instance.containPixel({ gridIndex: 0 }, point) || event.offsetY > node.clientHeight - 44
      if (!inside || typeof at !== 'number') return
      const value = instance.convertFromPixel({ yAxisIndex: 0 }, event.offsetY)
      // The axis has its own unit.
      const { factor } = chartScale(seriesNow.current)
      handler.current(String(at), typeof value === 'number' ? partAt(seriesNow.current, at, value * factor) : null)
    })
  })

  const keys = series.lines.map(({ metric, category }): [string, string] => [metric.title, categoryColor(category)])
  return (
    <PlotFrame
      frame={frame}
      drawn={drawn}
      height={height}
      label={summary(series)}
      keys={keys.length > 1 ? keys : undefined}
    />
  )
}

function summary(series: Series): string {
  const scale = chartScale(series)
  const values = series.style === 'stacked_bars' ? totalsOf(series) : (series.lines[0]?.values ?? [])
  const { labels } = xLabels(series)
  const list = values.slice(0, 12).map((value, i) => `${labels[i]}: ${formatNumber(value, scale)} ${scale.symbol}`)
  const more = values.length > 12 ? `, and ${values.length - 12} more` : ''
  return `${series.title} by ${series.x_metric.title}: ${list.join(', ')}${more}.`
}

export function SeriesTable({ series }: { series: Series }): ReactNode {
  const scale = chartScale(series)
  const { labels, scale: xScale } = xLabels(series)
  const totals = totalsOf(series)
  const stacked = series.style === 'stacked_bars'
  return (
    <div className={layoutCss.scroll} tabIndex={0}>
      <table className={plainTableCss.table}>
        <thead>
          <tr>
            <th scope="col">
              {series.x_metric.title}
              {xScale.symbol && ` (${xScale.symbol})`}
            </th>
            {series.lines.map((line) => (
              <th scope="col" key={line.metric.key}>
                {line.metric.title}
                {scale.symbol && ` (${scale.symbol})`}
              </th>
            ))}
            {stacked && <th scope="col">Total</th>}
          </tr>
        </thead>
        <tbody>
          {labels.map((label, i) => (
            <tr key={label}>
              <th scope="row">{label}</th>
              {series.lines.map((line) => (
                <td key={line.metric.key}>
                  <Value value={line.values[i] ?? null} unit={line.metric.unit} scale={scale} bare />
                </td>
              ))}
              {stacked && (
                <td>
                  <b>
                    <Value value={totals[i]} unit={scale.unit} scale={scale} bare />
                  </b>
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
