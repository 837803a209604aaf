// The change between two totals, as chart or table.

import type { EChartsCoreOption, EChartsType } from 'echarts/core'
import { useCallback, useMemo, useRef } from 'react'
import type { Breakdown, Interval, Link, Metric } from '../api/payloads'
import type { Theme } from '../canvas/surface'
import { categoryColor, isWithinNoise, trendOf } from '../lib/color'
import { columnScale, format, formatNumber, type Scale, signed } from '../lib/format'
import { TREND } from '../lib/tokens'
import { LinkOrText, MetricName, Swatch, useTheme, Value } from './basics'
import { axisLook, axisNumber, CHART, type TipRow, tipNode, tipOption } from './chartOption'
import { Plot } from './plot'
import layoutCss from './layout.module.css'
import plainTableCss from './plainTable.module.css'
import textCss from './text.module.css'

/** `onLink`: opens the rows of a part. */
interface Props {
  payload: Breakdown
  onLink: (link: Link) => void
}

/** Changes below this share of the baseline are not coloured. */
const LEAST_SHARE = 0.01
/** Changes below this share of the baseline share one bar. */
const TINY_SHARE = 0.001
/** Names of more bars would overlap; the smallest share one bar. */
const MOST_PARTS = 10

export function Waterfall({ payload, height, onLink }: Props & { height: number | string }) {
  const theme = useTheme()
  const shown = useMemo(() => withoutTinyParts(payload), [payload])
  const option = useMemo(() => waterfallOption(shown, theme), [shown, theme])
  const latest = useRef({ payload: shown, onLink })
  latest.current = { payload: shown, onLink }
  const onReady = useCallback((chart: EChartsType) => {
    // The full column of a bar is the target, for small changes are thin bars.
    const linkAt = (x: number) => {
      const at = chart.convertFromPixel({ xAxisIndex: 0 }, x)
      return typeof at === 'number' ? waterfallBars(latest.current.payload)[at]?.link : null
    }
    chart.getZr().on('click', ({ offsetX }: { offsetX: number }) => {
      const link = linkAt(offsetX)
      if (link) latest.current.onLink(link)
    })
    chart
      .getZr()
      .on('mousemove', ({ offsetX }: { offsetX: number }) =>
        chart.getZr().setCursorStyle(linkAt(offsetX) ? 'pointer' : 'default'),
      )
  }, [])
  return <Plot option={option} height={height} label={describeWaterfall(payload)} onReady={onReady} />
}

/** The payload with parts that barely changed as one; the table shows them all. */
export function withoutTinyParts(payload: Breakdown): Breakdown {
  const sizes = payload.parts.map(({ value }) => Math.abs(value)).sort((a, b) => b - a)
  const least = Math.max(TINY_SHARE * payload.start, sizes[MOST_PARTS - 1] ?? 0)
  const isTiny = ({ value }: { value: number }) => Math.abs(value) < least
  const tiny = payload.parts.filter(isTiny)
  if (tiny.length < 2) return payload
  const metric: Metric = {
    ...tiny[0].metric,
    key: 'tiny_parts',
    title: `${tiny.length} others`,
    definition: tiny.map((part) => part.metric.title).join(', '),
  }
  const value = tiny.reduce((sum, part) => sum + part.value, 0)
  const rest = { metric, category: '', value, link: null, interval: null }
  return { ...payload, parts: [...payload.parts.filter((part) => !isTiny(part)), rest] }
}

export function WaterfallTable({ payload, onLink }: Props) {
  const scale = waterfallScale(payload)
  return (
    <div className={layoutCss.scroll} tabIndex={0}>
      <table className={plainTableCss.table}>
        <thead>
          <tr>
            <th scope="col">Category</th>
            <th scope="col">Change{scale.symbol && ` (${scale.symbol})`}</th>
            {payload.interval && <th scope="col">95 % interval{scale.symbol && ` (${scale.symbol})`}</th>}
            <th scope="col">Share of baseline (%)</th>
            <th scope="col">Step after this change{scale.symbol && ` (${scale.symbol})`}</th>
          </tr>
        </thead>
        <tbody>
          {waterfallBars(payload).map(({ title, metric, category, value, interval, link, to }) => (
            <tr key={metric?.key ?? title}>
              <th scope="row" className={metric ? undefined : textCss.strong}>
                {metric && <Swatch color={categoryColor(category)} />}
                <LinkOrText go={link && (() => onLink(link))}>
                  {metric ? <MetricName metric={metric} /> : title}
                </LinkOrText>
              </th>
              <td>
                {metric && (
                  <Value
                    value={value}
                    unit={payload.unit}
                    scale={scale}
                    bare
                    change
                    isNoise={isSmall(payload, value) || isWithinNoise(interval)}
                  />
                )}
              </td>
              {payload.interval && <td>{interval && intervalText(interval, scale)}</td>}
              <td>
                {metric && payload.start > 0 && (
                  <Value
                    value={value / payload.start}
                    unit="ratio"
                    scale={{ unit: 'ratio', factor: 0.01, symbol: '%' }}
                    bare
                    change
                  />
                )}
              </td>
              <td className={metric ? undefined : textCss.strong}>
                <Value value={to} unit={payload.unit} scale={scale} bare />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

interface WaterfallBar {
  title: string
  /** Metric of a part; null for the totals at both ends. */
  metric: Metric | null
  category: string
  value: number
  /** To the rows of the part. */
  link: Link | null
  /** null: noise is unknown. */
  interval: Interval | null
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
    link: null,
    interval: null,
    from: 0,
    to: value,
  })
  let at = payload.start
  const parts = payload.parts.map(({ metric, category, value, link, interval }) => {
    const from = at
    at += value
    return { title: metric.title, metric, category, value, link, interval, from, to: at }
  })
  return [end('Baseline', payload.start), ...parts, end('Experiment', at)]
}

const waterfallScale = (payload: Breakdown): Scale =>
  columnScale(payload.unit, [payload.start, payload.start + payload.total])

export const isSmall = ({ start }: Breakdown, value: number) => Math.abs(value) < LEAST_SHARE * start

function colorOf(payload: Breakdown, bar: WaterfallBar, position: number, theme: Theme): string {
  if (!bar.metric) return position === 0 ? theme.base : theme.exp
  return isSmall(payload, bar.value) ? TREND.same : TREND[trendOf(bar.value, bar.interval)]
}

const intervalText = ({ low, high }: Interval, scale: Scale) =>
  [low, high].map((value) => signed(formatNumber(value, scale), value)).join(' to ')

const valueText = (bar: WaterfallBar, scale: Scale) =>
  bar.metric ? signed(formatNumber(bar.value, scale), bar.value) : formatNumber(bar.value, scale)

export function waterfallOption(payload: Breakdown, theme: Theme): EChartsCoreOption {
  const bars = waterfallBars(payload)
  const scale = waterfallScale(payload)
  return {
    ...CHART,
    grid: { left: 58, right: 14, top: 24, bottom: 40 },
    tooltip: tipOption(theme, 'shadow', (index) => tip(payload, bars[index] ?? bars[0], scale, theme)),
    xAxis: {
      type: 'category',
      data: bars.map((bar) => bar.title.replace(/ (?=\S+$)/, '\n')),
      ...axisLook(theme, '', 26, {
        color: theme.ink,
        fontSize: bars.length > 11 ? 10 : bars.length > 7 ? 11 : 12,
        interval: 0,
      }),
    },
    yAxis: {
      type: 'value',
      ...axisLook(theme, scale.symbol ? `time (${scale.symbol})` : '', 44, {
        formatter: (value: number) => axisNumber(value / scale.factor),
      }),
      splitNumber: 4,
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
          itemStyle: { color: colorOf(payload, bar, i, theme) },
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

const intervalRow = (interval: Interval, scale: Scale): TipRow => ({
  name: isWithinNoise(interval) ? '95 % interval, within noise' : '95 % interval',
  color: null,
  value: `${intervalText(interval, scale)} ${scale.symbol}`,
})

function tip(payload: Breakdown, bar: WaterfallBar, scale: Scale, theme: Theme): HTMLElement {
  const value = `${valueText(bar, scale)} ${scale.symbol}`
  if (!bar.metric) return tipNode(bar.title, [{ name: 'Step', color: null, value }])
  const share = payload.start > 0 ? bar.value / payload.start : null
  const title = bar.metric.key === 'tiny_parts' ? bar.metric.definition : bar.title
  return tipNode(title, [
    { name: 'Change', color: colorOf(payload, bar, 1, theme), value },
    ...(bar.interval ? [intervalRow(bar.interval, scale)] : []),
    { name: 'Share of baseline', color: null, value: signed(format(share, 'ratio'), share) },
    { name: 'Step after this change', color: null, value: format(bar.to, payload.unit, scale) },
    ...(bar.link ? [{ name: 'Click to see the rows', color: null, value: '' }] : []),
  ])
}

export function describeWaterfall(payload: Breakdown): string {
  const scale = waterfallScale(payload)
  const [first, ...rest] = waterfallBars(payload).map(
    (bar) =>
      `${bar.title} ${valueText(bar, scale)} ${scale.symbol}${isWithinNoise(bar.interval) ? ' (within noise)' : ''}`,
  )
  return `${payload.title}: ${first}; ${rest.join('; ')}.`
}
