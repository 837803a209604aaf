// Speed against size: measured dots and fitted lines.

import type { EChartsCoreOption } from 'echarts/core'
import { useMemo } from 'react'
import type { Line, Series } from '../api/payloads'
import type { Theme } from '../canvas/surface'
import { categoryColor } from '../lib/color'
import { columnScale, format, formatNumber } from '../lib/format'
import { useTheme } from './basics'
import { axisLook, lineLook, type TipRow, tipNode, withUnit } from './chartOption'
import { Plot } from './plot'
import { DotsKey, dotFrame, dotsLook } from './scatter'
import css from './scatter.module.css'

export function SizePlot({ series, height }: { series: Series; height: number }) {
  const theme = useTheme()
  const option = useMemo(() => sizePlotOption(series, theme), [series, theme])
  return (
    <figure className={css.scatter}>
      <Plot option={option} height={height} label={sizePlotText(series)} />
      <DotsKey
        entries={pairsOf(series).map(({ measured: { metric, category }, fit }) => ({
          title: `${metric.title}${fit ? ' (line: fit)' : ''}`,
          category,
        }))}
      />
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

const label = (formatter: (value: number) => string) => ({ hideOverlap: true, formatter })

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
      ...axisLook(
        theme,
        series.x_metric.title,
        26,
        label((value) => format(value, series.x_metric.unit)),
      ),
      logBase: 2,
      splitNumber: 6,
    },
    yAxis: {
      type: 'log',
      ...axisLook(
        theme,
        withUnit('Bus bandwidth', y),
        46,
        label((value) => formatNumber(value * y.factor, y)),
      ),
    },
    series: pairsOf(series).flatMap(({ measured, fit }, i) => {
      const dots = {
        ...dotsLook(i, measured.category, 0.8),
        name: measured.metric.title,
        data: points(measured),
      }
      if (!fit) return [dots]
      const line = lineLook(categoryColor(measured.category), points(fit))
      return [{ ...line, name: fit.metric.title, silent: true }, dots]
    }),
  }
}

export function sizePlotText(series: Series): string {
  const told = pairsOf(series).map(({ measured, fit }) => {
    const known = measured.values.flatMap((value) => (value === null ? [] : [value]))
    const most = format(Math.max(...known), measured.metric.unit)
    return `${measured.metric.title}: ${known.length} sizes, at most ${most}${fit ? ', with a fit' : ''}`
  })
  return `${series.title}. ${told.join('; ')}.`
}
