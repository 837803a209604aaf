// ECharts options of a waterfall.
import type { EChartsCoreOption } from 'echarts/core'
import type { Breakdown, Metric } from '../api/payloads'
import type { Theme } from '../canvas/surface'
import { trendOf } from '../lib/color'
import { columnScale, format, formatNumber, type Scale, signed } from '../lib/format'
import { SANS, TREND } from '../lib/tokens'
import { axisNumber, tipNode, tipOption } from './chartOption'

interface WaterfallBar {
  title: string
  /** Of a part; the ends are no change. */
  metric: Metric | null
  category: string
  value: number
  from: number
  to: number
}

/** Bars from left to right: baseline, parts, experiment. */
export function waterfallBars(payload: Breakdown): WaterfallBar[] {
  const end = (title: string, value: number): WaterfallBar => ({
    title,
    metric: null,
    category: '',
    value,
    from: 0,
    to: value,
  })
  let at = payload.start
  const parts = payload.parts.map(({ metric, category, value }) => {
    const from = at
    at += value
    return { title: metric.title, metric, category, value, from, to: at }
  })
  return [end('Baseline', payload.start), ...parts, end('Experiment', at)]
}

export const waterfallScale = (payload: Breakdown): Scale =>
  columnScale(payload.unit, [payload.start, payload.start + payload.total])

const colorOf = (bar: WaterfallBar, position: number, theme: Theme) =>
  bar.metric ? TREND[trendOf(bar.value)] : position === 0 ? theme.base : theme.exp

const valueText = (bar: WaterfallBar, scale: Scale) =>
  bar.metric ? signed(formatNumber(bar.value, scale), bar.value) : formatNumber(bar.value, scale)

export function waterfallOption(payload: Breakdown, theme: Theme): EChartsCoreOption {
  const bars = waterfallBars(payload)
  const scale = waterfallScale(payload)
  const text = { color: theme.mute, fontSize: 11, fontFamily: SANS }
  return {
    animation: false,
    textStyle: { fontFamily: SANS },
    grid: { left: 58, right: 14, top: 24, bottom: 26 },
    tooltip: tipOption(theme, 'shadow', (index) => tip(payload, bars[index] ?? bars[0], scale, theme)),
    xAxis: {
      type: 'category',
      data: bars.map((bar) => bar.title),
      axisLine: { lineStyle: { color: theme.line } },
      axisTick: { show: false },
      axisLabel: { ...text, color: theme.ink, fontSize: bars.length > 9 ? 11 : 12, interval: 0 },
    },
    yAxis: {
      type: 'value',
      name: scale.symbol ? `time (${scale.symbol})` : '',
      nameLocation: 'middle',
      nameGap: 44,
      nameTextStyle: text,
      splitNumber: 4,
      axisLabel: { ...text, formatter: (value: number) => axisNumber(value / scale.factor) },
      splitLine: { lineStyle: { color: theme.line } },
    },
    series: [
      {
        // From each bar's end to the next bar's start.
        type: 'line',
        step: 'end',
        data: bars.map((bar) => bar.to),
        symbol: 'none',
        silent: true,
        lineStyle: { color: theme.mute, width: 1, type: 'dotted' },
        z: 1,
      },
      {
        type: 'bar',
        stack: 'all',
        silent: true,
        barMaxWidth: 72,
        data: bars.map((bar) => Math.min(bar.from, bar.to)),
        itemStyle: { color: 'transparent' },
      },
      {
        type: 'bar',
        stack: 'all',
        barMaxWidth: 72,
        barMinHeight: 2,
        z: 3,
        data: bars.map((bar, i) => ({
          value: Math.abs(bar.to - bar.from),
          itemStyle: { color: colorOf(bar, i, theme) },
        })),
        emphasis: { disabled: true },
        label: {
          show: true,
          position: 'top',
          color: theme.ink,
          fontSize: 12,
          formatter: (item: { dataIndex: number }) => valueText(bars[item.dataIndex], scale),
        },
      },
    ],
  }
}

function tip(payload: Breakdown, bar: WaterfallBar, scale: Scale, theme: Theme): HTMLElement {
  const value = `${valueText(bar, scale)} ${scale.symbol}`
  if (!bar.metric) return tipNode(bar.title, [{ name: 'Step', color: null, value }])
  const share = payload.start > 0 ? bar.value / payload.start : null
  return tipNode(bar.title, [
    { name: 'Change', color: colorOf(bar, 1, theme), value },
    { name: 'Share of baseline', color: null, value: signed(format(share, 'ratio'), share) },
    { name: 'Step after this change', color: null, value: format(bar.to, payload.unit, scale) },
  ])
}

/** The chart in words. */
export function describeWaterfall(payload: Breakdown): string {
  const scale = waterfallScale(payload)
  const [first, ...rest] = waterfallBars(payload).map((bar) => `${bar.title} ${valueText(bar, scale)} ${scale.symbol}`)
  return `${payload.title}: ${first}; ${rest.join('; ')}.`
}
