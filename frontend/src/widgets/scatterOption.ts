// ECharts options of a scatter plot. Texts are never set as markup.
import type { EChartsCoreOption } from 'echarts/core'
import type { Scatter } from '../api/payloads'
import type { Theme } from '../canvas/surface'
import { categoryColor } from '../lib/color'
import { columnScale, format, formatNumber, type Scale } from '../lib/format'
import { SANS } from '../lib/tokens'
import { type TipRow, tipNode } from './chartOption'

/** Groups differ in shape as well as in colour. */
export const SHAPES = ['circle', 'rect', 'triangle', 'diamond', 'pin', 'arrow'] as const

export const scalesOf = (scatter: Scatter): { x: Scale; y: Scale } => ({
  x: columnScale(
    scatter.x_metric.unit,
    scatter.groups.flatMap((group) => group.x),
  ),
  y: columnScale(
    scatter.y_metric.unit,
    scatter.groups.flatMap((group) => group.y),
  ),
})

const axisTitle = (title: string, scale: Scale) => (scale.symbol ? `${title} (${scale.symbol})` : title)

function dotTip(scatter: Scatter, group: number, dot: number): HTMLElement {
  const { title, category, label, x, y } = scatter.groups[group]
  const rows: TipRow[] = [
    { name: title, color: categoryColor(category), value: '' },
    { name: scatter.y_metric.title, color: null, value: format(y[dot], scatter.y_metric.unit) },
    { name: scatter.x_metric.title, color: null, value: format(x[dot], scatter.x_metric.unit) },
  ]
  return tipNode(`Step ${label[dot]}`, rows)
}

const textOf = (theme: Theme) => ({ color: theme.mute, fontSize: 11, fontFamily: SANS })

/** An axis of dots; `formatter` writes its numbers. */
export const dotAxis = (theme: Theme, name: string, nameGap: number, formatter: (value: number) => string) => ({
  name,
  nameLocation: 'middle',
  nameGap,
  nameTextStyle: textOf(theme),
  axisLabel: { ...textOf(theme), hideOverlap: true, formatter },
  axisLine: { lineStyle: { color: theme.line } },
  axisTick: { show: false },
  splitLine: { lineStyle: { color: theme.line } },
})

export const dotFrame = (theme: Theme, left: number, formatter: (at: never) => HTMLElement) => ({
  animation: false,
  textStyle: { fontFamily: SANS },
  grid: { left, right: 14, top: 14, bottom: 42 },
  tooltip: {
    trigger: 'item',
    confine: true,
    transitionDuration: 0,
    backgroundColor: theme.panel,
    borderColor: theme.line,
    padding: 0,
    formatter,
  },
})

export function scatterOption(scatter: Scatter, theme: Theme): EChartsCoreOption {
  const { x, y } = scalesOf(scatter)
  const axis = (name: string, scale: Scale, nameGap: number, whole: boolean) => ({
    type: 'value',
    scale: false,
    minInterval: whole ? 1 : undefined,
    ...dotAxis(theme, name, nameGap, (value) => formatNumber(value * scale.factor, scale)),
  })
  return {
    ...dotFrame(theme, 58, (at: { seriesIndex: number; dataIndex: number }) =>
      dotTip(scatter, at.seriesIndex, at.dataIndex),
    ),
    xAxis: axis(axisTitle(scatter.x_metric.title, x), x, 26, scatter.x_metric.unit === 'count'),
    yAxis: axis(axisTitle(scatter.y_metric.title, y), y, 44, false),
    series: scatter.groups.map((group, i) => ({
      type: 'scatter',
      name: group.title,
      symbol: SHAPES[i % SHAPES.length],
      symbolSize: 8,
      itemStyle: { color: categoryColor(group.category), opacity: 0.75 },
      data: group.x.map((value, j) => [value / x.factor, group.y[j] / y.factor]),
    })),
  }
}

/** Screen reader summary. */
export function scatterText(scatter: Scatter): string {
  const range = (values: readonly number[], unit: Scatter['x_metric']['unit']) => {
    const [low, high] = [Math.min(...values), Math.max(...values)]
    return low === high ? format(low, unit) : `${format(low, unit)} to ${format(high, unit)}`
  }
  const groups = scatter.groups.map(
    ({ title, x, y }) =>
      `${title}: ${x.length} at ${scatter.x_metric.title} ${range(x, scatter.x_metric.unit)}, ` +
      `${scatter.y_metric.title} ${range(y, scatter.y_metric.unit)}`,
  )
  return `${scatter.title}. ${groups.join('; ')}.`
}
