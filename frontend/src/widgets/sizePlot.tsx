// Speed against size: measured dots and fitted lines.

import type { EChartsCoreOption } from 'echarts/core'
import { useMemo } from 'react'
import type { Line, Series } from '../api/payloads'
import type { Theme } from '../canvas/surface'
import { categoryColor } from '../lib/color'
import { columnScale, format, formatNumber, type Scale } from '../lib/format'
import { useTheme } from './basics'
import { type TipRow, tipNode } from './chartOption'
import { PlotFrame, usePlot } from './plot'
import { dotAxis, dotFrame, OUTLINES, SHAPES } from './scatter'
import css from './scatter.module.css'

export function SizePlot({ series, height }: { series: Series; height: number }) {
  const theme = useTheme()
  const option = useMemo(() => sizePlotOption(series, theme), [series, theme])
  const { frame, drawn } = usePlot(option)
  return (
    <figure className={css.scatter}>
      <PlotFrame frame={frame} drawn={drawn} height={height} label={sizePlotText(series)} />
      <figcaption className={css.key}>
        {pairsOf(series).map(({ measured, fit }, i) => (
          <span key={measured.category}>
            <svg viewBox="0 0 10 10" width="10" height="10" aria-hidden="true">
              <path d={OUTLINES[SHAPES[i % SHAPES.length]]} fill={categoryColor(measured.category)} />
            </svg>
            {measured.metric.title}
            {fit ? ' (line: fit)' : ''}
          </span>
        ))}
      </figcaption>
    </figure>
  )
}

const isFit = (line: Line): boolean => line.metric.key === 'fitted_bus_bandwidth'

export function pairsOf(series: Series): { measured: Line; fit: Line | null }[] {
  return series.lines.flatMap((measured) =>
    isFit(measured)
      ? []
      : [{ measured, fit: series.lines.find((line) => isFit(line) && line.category === measured.category) ?? null }],
  )
}

function sizeTip(series: Series, at: number): HTMLElement {
  const rows: TipRow[] = series.lines.flatMap((line) => {
    const value = line.values[at] ?? null
    if (value === null) return []
    return [{ name: line.metric.title, color: categoryColor(line.category), value: format(value, line.metric.unit) }]
  })
  return tipNode(`${series.x_metric.title} ${format(series.x[at], series.x_metric.unit)}`, rows)
}

function sizePlotOption(series: Series, theme: Theme): EChartsCoreOption {
  const y = columnScale(
    series.lines[0]?.metric.unit ?? 'number',
    series.lines.flatMap((line) => line.values),
  )
  const points = (line: Line) =>
    series.x.flatMap((x, i) => {
      const value = line.values[i] ?? null
      return value === null || value <= 0 ? [] : [[Number(x), value / y.factor, i]]
    })
  return {
    ...dotFrame(theme, 62, ({ value }: { value: number[] }) => sizeTip(series, value[2])),
    // Sizes use powers of two.
    xAxis: {
      type: 'log',
      ...dotAxis(theme, series.x_metric.title, 26, (value) => format(value, series.x_metric.unit)),
      logBase: 2,
      splitNumber: 6,
    },
    yAxis: { type: 'log', ...dotAxis(theme, axisTitle(series, y), 46, (value) => formatNumber(value * y.factor, y)) },
    series: pairsOf(series).flatMap(({ measured, fit }, i) => {
      const color = categoryColor(measured.category)
      const dots = {
        type: 'scatter',
        name: measured.metric.title,
        symbol: SHAPES[i % SHAPES.length],
        symbolSize: 8,
        itemStyle: { color, opacity: 0.8 },
        data: points(measured),
      }
      if (!fit) return [dots]
      const line = { type: 'line', name: fit.metric.title, showSymbol: false, silent: true, data: points(fit) }
      return [{ ...line, lineStyle: { width: 1.5, color }, itemStyle: { color } }, dots]
    }),
  }
}

const axisTitle = (series: Series, y: Scale) => {
  const title = 'Bus bandwidth'
  return series.lines.length > 0 && y.symbol ? `${title} (${y.symbol})` : title
}

export function sizePlotText(series: Series): string {
  const told = pairsOf(series).map(({ measured, fit }) => {
    const known = measured.values.flatMap((value) => (value === null ? [] : [value]))
    const most = format(Math.max(...known), measured.metric.unit)
    return `${measured.metric.title}: ${known.length} sizes, at most ${most}${fit ? ', with a fit' : ''}`
  })
  return `${series.title}. ${told.join('; ')}.`
}
