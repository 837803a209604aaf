// ECharts options of a series. Texts are never set as markup.
import type { EChartsCoreOption } from 'echarts/core'
import type { Line, Series } from '../api/payloads'
import type { Theme } from '../canvas/surface'
import { categoryColor } from '../lib/color'
import { columnScale, format, formatNumber, type Scale } from '../lib/format'
import { SANS } from '../lib/tokens'
import basicsCss from './basics.module.css'
import textCss from './text.module.css'
import tipCss from './tip.module.css'

export const CHART = { animation: false, textStyle: { fontFamily: SANS } }

export const axisText = (theme: Theme) => ({ color: theme.mute, fontSize: 11, fontFamily: SANS })

/** An axis with its title, lines and labels. */
export const axisLook = (theme: Theme, name: string, nameGap: number, label: object) => ({
  name,
  nameLocation: 'middle',
  nameGap,
  nameTextStyle: axisText(theme),
  axisLine: { lineStyle: { color: theme.line } },
  axisTick: { show: false },
  splitLine: { lineStyle: { color: theme.line } },
  axisLabel: { ...axisText(theme), ...label },
})

export const lineLook = (color: string, data: readonly unknown[], width = 1.5) => ({
  type: 'line',
  data,
  showSymbol: false,
  lineStyle: { width, color },
  itemStyle: { color },
})

export const withUnit = (title: string, scale: Scale) => (scale.symbol ? `${title} (${scale.symbol})` : title)

interface ChartLook {
  theme: Theme
  selected: ReadonlySet<string>
  compact: boolean
}

export const totalsOf = (series: Series): number[] =>
  series.x.map((_, i) => series.lines.reduce((sum, line) => sum + (line.values[i] ?? 0), 0))

export function chartScale(series: Series): Scale {
  const unit = series.lines[0]?.metric.unit ?? 'number'
  const values = series.style === 'stacked_bars' ? totalsOf(series) : series.lines.flatMap((line) => line.values)
  return columnScale(unit, values)
}

/** Labels of x in one unit; a histogram's bins are named by their lower edge. */
export function xLabels(series: Series): { labels: string[]; scale: Scale } {
  const scale = columnScale(
    series.x_metric.unit,
    series.x.map((x) => (typeof x === 'number' ? x : null)),
  )
  const { unit } = series.x_metric
  const sizes = series.x.flatMap((x) => (typeof x === 'number' && x > 0 ? x : []))
  // Bins over several powers of ten: each edge in its own unit.
  if (sizes.length > 1 && Math.max(...sizes) / Math.min(...sizes) > 500) {
    return { labels: series.x.map((x) => format(x, unit)), scale: { unit, factor: 1, symbol: '' } }
  }
  const labels = series.x.map((x) => formatNumber(x, scale))
  if (typeof series.x[0] !== 'number' || new Set(labels).size === labels.length) return { labels, scale }
  // Enough decimals to distinguish close edges.
  for (let decimals = 1; decimals <= 7; decimals++) {
    const finer = series.x.map((x) =>
      (Number(x) / scale.factor).toLocaleString('en-US', {
        minimumFractionDigits: decimals,
        maximumFractionDigits: decimals,
      }),
    )
    if (new Set(finer).size === finer.length || decimals === 7) return { labels: finer, scale }
  }
  return { labels, scale }
}

/** More labels than that are thinned out. */
const SLANTED = 16

export interface TipRow {
  name: string
  /** null: no swatch. */
  color: string | null
  value: string
  /** A second number, dimmed. */
  note?: string
  strong?: boolean
}

function cell(row: HTMLElement, text: string, className: string): void {
  const item = document.createElement('span')
  item.className = className
  item.textContent = text
  row.append(item)
}

/** Tooltip content as nodes, because ECharts parses strings as markup. */
export function tipNode(title: string, rows: readonly TipRow[]): HTMLElement {
  const root = document.createElement('div')
  root.className = tipCss.tip
  const head = document.createElement('div')
  head.className = tipCss.head
  head.textContent = title
  root.append(head)
  for (const { name, color, value, note, strong } of rows) {
    const line = document.createElement('div')
    line.className = strong ? `${tipCss.row} ${textCss.strong}` : tipCss.row
    const swatch = document.createElement('i')
    swatch.className = basicsCss.swatch
    if (color) swatch.style.background = color
    else swatch.style.visibility = 'hidden'
    line.append(swatch)
    cell(line, name, tipCss.name)
    cell(line, value, textCss.num)
    if (note !== undefined) cell(line, note, `${textCss.num} ${textCss.mute} ${tipCss.note}`)
    root.append(line)
  }
  return root
}

/** A tooltip's frame. */
export const tipBox = (theme: Theme, trigger: 'axis' | 'item', formatter: (at: never) => HTMLElement) => ({
  trigger,
  confine: true,
  transitionDuration: 0,
  backgroundColor: theme.panel,
  borderColor: theme.line,
  padding: 0,
  formatter,
})

/** Tooltip options; `node` renders the content for the first line's `key`. */
export const tipLook = (theme: Theme, key: string, node: (value: number) => HTMLElement) =>
  tipBox(theme, 'axis', (params: unknown) => {
    const first: unknown = Array.isArray(params) ? params[0] : params
    return node(typeof first === 'object' && first !== null ? Number(Reflect.get(first, key) ?? 0) : 0)
  })

export const tipOption = (theme: Theme, pointer: 'line' | 'shadow', node: (index: number) => HTMLElement) => ({
  ...tipLook(theme, 'dataIndex', node),
  axisPointer: { type: pointer, shadowStyle: { opacity: 0.25 } },
})

/** The category at a y value of a stacked bar; null outside. */
export function partAt(series: Series, index: number, value: number): string | null {
  let reach = 0
  if (series.style !== 'stacked_bars' || value < 0) return null
  for (const line of series.lines) {
    reach += line.values[index] ?? 0
    if (value < reach) return line.category
  }
  return null
}

/** The hover table of one x: every part, largest first as stacked, and the total. */
export function tooltipNode(series: Series, index: number, scale: Scale): HTMLElement {
  const { labels, scale: xScale } = xLabels(series)
  const unit = xScale.symbol ? ` ${xScale.symbol}` : ''
  const title =
    series.style === 'histogram' && index + 1 < labels.length
      ? `${labels[index]} to ${labels[index + 1]}${unit}`
      : `${series.x_metric.title} ${labels[index]}${unit}`
  const total = totalsOf(series)[index]
  const stacked = series.style === 'stacked_bars' || series.style === 'stacked_area'
  const row = (name: string, color: string | null, value: number | null): TipRow => ({
    name,
    color,
    value: format(value, scale.unit, scale),
    note: stacked ? (total > 0 && value !== null ? format(value / total, 'ratio') : '') : undefined,
  })
  const lines = stacked ? [...series.lines].reverse() : series.lines
  const rows = lines.map((line) => row(line.metric.title, categoryColor(line.category), line.values[index] ?? null))
  if (stacked) rows.push({ ...row('Total', null, total), strong: true })
  return tipNode(title, rows)
}

export function chartOption(series: Series, look: ChartLook): EChartsCoreOption {
  const { theme, compact } = look
  const scale = chartScale(series)
  const { labels, scale: xScale } = xLabels(series)
  const many = series.x.length > 60
  const stacked = series.style === 'stacked_bars'
  const unit = series.lines[0]?.metric.unit
  const whole = unit === 'bytes' ? 'memory' : unit === 'ratio' ? 'share' : 'time'
  const yTitle =
    series.lines.length > 1 || (series.style === 'stacked_bars' && unit !== 'number')
      ? whole
      : (series.lines[0]?.metric.title ?? '')
  // Longer labels are slanted, so that none is dropped.
  const isSlanted = stacked && labels.length <= SLANTED && labels.some((text) => text.includes(' ('))
  return {
    ...CHART,
    grid: {
      left: compact ? 46 : 58,
      right: 14,
      top: series.style === 'stacked_bars' ? 26 : 14,
      bottom: many ? 62 : isSlanted ? 84 : 42,
    },
    tooltip: tipOption(theme, series.style === 'lines' ? 'line' : 'shadow', (index) =>
      tooltipNode(series, index, scale),
    ),
    xAxis: {
      type: 'category',
      data: labels,
      ...axisLook(theme, withUnit(series.x_metric.title, xScale), isSlanted ? 68 : 26, {
        hideOverlap: true,
        ...(isSlanted ? { interval: 0, hideOverlap: false, rotate: 38 } : {}),
      }),
      triggerEvent: series.style === 'stacked_bars',
    },
    yAxis: {
      type: 'value',
      ...axisLook(theme, withUnit(yTitle, scale), compact ? 34 : 44, { formatter: axisNumber }),
      splitNumber: compact ? 3 : 4,
      // Shares end at 1.
      ...(unit === 'ratio' && series.style === 'stacked_bars'
        ? { max: 1 / scale.factor, interval: 0.25 / scale.factor }
        : {}),
      // Counts have no fractions.
      minInterval: series.lines[0]?.metric.unit === 'count' ? 1 : undefined,
    },
    dataZoom: many
      ? [
          { type: 'inside', zoomOnMouseWheel: 'ctrl', moveOnMouseWheel: false },
          {
            type: 'slider',
            height: 16,
            bottom: 6,
            borderColor: theme.line,
            textStyle: axisText(theme),
            brushSelect: false,
            showDetail: false,
          },
        ]
      : undefined,
    series: series.lines.map((line, i) => oneSeries(series, line, i, scale, look)),
  }
}

export const axisNumber = (value: number) => value.toLocaleString('en-US', { maximumFractionDigits: 3 })

function oneSeries(series: Series, line: Line, position: number, scale: Scale, look: ChartLook) {
  const color = categoryColor(line.category)
  // In the axis unit, for round ticks.
  const values = line.values.map((value) => (value === null ? null : value / scale.factor))
  if (series.style === 'lines') return { name: line.metric.title, ...lineLook(color, values) }
  const last = position === series.lines.length - 1
  const stacked = series.style === 'stacked_bars'
  const totals = totalsOf(series)
  const dimmed = (i: number) => look.selected.size > 0 && !look.selected.has(String(series.x[i]))
  return {
    type: 'bar',
    name: line.metric.title,
    stack: stacked ? 'all' : undefined,
    barCategoryGap: stacked ? '32%' : '4%',
    barMaxWidth: stacked ? 96 : undefined,
    cursor: stacked ? 'pointer' : 'default',
    data: values.map((value, i) => ({ value, itemStyle: { color, opacity: dimmed(i) ? 0.35 : 1 } })),
    emphasis: { disabled: true },
    // The top part shows the total, except for shares, where it is always 1.
    label:
      stacked && last && line.metric.unit !== 'ratio' && series.x.length <= 24
        ? {
            show: true,
            position: 'top',
            color: look.theme.ink,
            fontSize: 12,
            // Grid lines would strike the numbers.
            backgroundColor: look.theme.panel,
            padding: [1, 3],
            formatter: (item: { dataIndex: number }) => formatNumber(totals[item.dataIndex], scale),
          }
        : undefined,
  }
}
