// A scatter plot with groups.

import type { EChartsCoreOption } from 'echarts/core'
import { type ReactNode, useMemo, useRef } from 'react'
import type { Limit, Scatter } from '../api/payloads'
import type { Theme } from '../canvas/surface'
import { categoryColor } from '../lib/color'
import { dotsOutside, logRange } from '../lib/dots'
import { columnScale, counted, format, formatNumber, type Scale } from '../lib/format'
import { rowIdText } from '../lib/tableRows'
import { useTheme } from './basics'
import { axisLook, CHART, type TipRow, tipBox, tipNode, withUnit } from './chartOption'
import { Plot } from './plot'
import css from './scatter.module.css'

const OUTLINES: Record<(typeof SHAPES)[number], string> = {
  circle: 'M5 1a4 4 0 1 0 .01 0Z',
  rect: 'M1 1h8v8H1Z',
  triangle: 'M5 1 9 9H1Z',
  diamond: 'M5 0 10 5 5 10 0 5Z',
  pin: 'M5 10 2 4a3 3 0 1 1 6 0Z',
  arrow: 'M5 0 9 10 5 7 1 10Z',
}

export function ScatterPlot(props: {
  scatter: Scatter
  height: number | string
  /** Axes start near the dots, not at 0. */
  isFitted?: boolean
  onDot?: (label: string) => void
  /** The meaning of the dots' area. */
  area?: string
}) {
  const { scatter, height, isFitted, onDot, area } = props
  const theme = useTheme()
  const now = useRef({ scatter, onDot })
  now.current = { scatter, onDot }
  const option = useMemo(() => scatterOption(scatter, theme, isFitted), [scatter, theme, isFitted])
  const outside = useMemo(() => (scatter.is_log ? outsideText(scatter, area) : ''), [scatter, area])
  return (
    <figure className={css.scatter}>
      <Plot
        option={option}
        height={height}
        label={scatterText(scatter)}
        onReady={(instance) =>
          instance.on('click', (at) => {
            const label = now.current.scatter.groups[at.seriesIndex ?? -1]?.label[at.dataIndex]
            if (label !== undefined) now.current.onDot?.(label)
          })
        }
      />
      <DotsKey entries={scatter.groups}>{outside && <span>{outside}</span>}</DotsKey>
    </figure>
  )
}

/** Says how many dots are not drawn; empty if all are. */
export function outsideText(scatter: Scatter, area?: string): string {
  const { count, share } = dotsOutside(scatter)
  if (count === 0) return ''
  const ratio = area ? ` (${format(share, 'ratio')} of the drawn ${area})` : ''
  return `${counted(count, 'dot')} below the axes ${count === 1 ? 'is' : 'are'} not drawn${ratio}.`
}

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

function dotTip(scatter: Scatter, group: number, dot: number): HTMLElement {
  const { title, category, label, x, y } = scatter.groups[group]
  const rows: TipRow[] = [
    { name: title, color: categoryColor(category), value: '' },
    { name: scatter.y_metric.title, color: null, value: format(y[dot], scatter.y_metric.unit) },
    { name: scatter.x_metric.title, color: null, value: format(x[dot], scatter.x_metric.unit) },
  ]
  return tipNode([scatter.noun, rowIdText(label[dot])].filter(Boolean).join(' '), rows)
}

export const dotFrame = (theme: Theme, left: number, formatter: (at: never) => HTMLElement) => ({
  ...CHART,
  grid: { left, right: 14, top: 14, bottom: 42 },
  tooltip: tipBox(theme, 'item', formatter),
})

/** Dots in the shape of their place among the groups. */
export const dotsLook = (place: number, category: string, opacity: number) => ({
  type: 'scatter',
  symbol: SHAPES[place % SHAPES.length],
  symbolSize: 8,
  itemStyle: { color: categoryColor(category), opacity },
})

export const DotsKey = (props: { entries: readonly { title: string; category: string }[]; children?: ReactNode }) => (
  <figcaption className={css.key}>
    {props.entries.map(({ title, category }, i) => (
      <span key={category}>
        <svg viewBox="0 0 10 10" width="10" height="10" aria-hidden="true">
          <path d={OUTLINES[SHAPES[i % SHAPES.length]]} fill={categoryColor(category)} />
        </svg>
        {title}
      </span>
    ))}
    {props.children}
  </figcaption>
)

export function scatterOption(scatter: Scatter, theme: Theme, isFitted = false): EChartsCoreOption {
  const { x, y } = scalesOf(scatter)
  const [xRange, yRange] = (['x', 'y'] as const).map((each) => (scatter.is_log ? logRange(scatter, each) : null))
  const axis = (name: string, scale: Scale, nameGap: number, whole: boolean, range: [number, number] | null) => ({
    type: scatter.is_log ? 'log' : 'value',
    min: range && range[0] / scale.factor,
    max: range && range[1] / scale.factor,
    // One label for each decade.
    interval: range ? 1 : undefined,
    scale: isFitted,
    minInterval: whole ? 1 : undefined,
    ...axisLook(theme, name, nameGap, {
      hideOverlap: true,
      formatter: (value: number) => (scatter.is_log ? powerOfTen(value) : formatNumber(value * scale.factor, scale)),
    }),
  })
  return {
    ...dotFrame(theme, 58, (at: { seriesIndex: number; dataIndex: number }) =>
      dotTip(scatter, at.seriesIndex, at.dataIndex),
    ),
    xAxis: axis(withUnit(scatter.x_metric.title, x), x, 26, scatter.x_metric.unit === 'count', xRange),
    yAxis: axis(withUnit(scatter.y_metric.title, y), y, 44, false, yRange),
    series: [
      ...scatter.groups.map((group, i) => ({
        ...dotsLook(i, group.category, 0.75),
        ...(group.share.length
          ? { symbolSize: (_: unknown, at: { dataIndex: number }) => dotSize(group.share[at.dataIndex]) }
          : {}),
        name: group.title,
        data: group.x.map((value, j) => [value / x.factor, group.y[j] / y.factor]),
      })),
      ...scatter.limits.map((limit) => ({
        type: 'line',
        name: limit.title,
        silent: true,
        symbol: 'none',
        // Below the dots.
        z: 1,
        lineStyle: { color: theme.mute, width: 1, type: 'dashed' },
        data: limit.x.map((value, j) => [value / x.factor, limit.y[j] / y.factor]),
      })),
      ...scatter.limits.map((limit) => limitTitle(limit, x, y, theme)),
    ],
  }
}

const powerOfTen = (value: number) =>
  Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-6
    ? value.toLocaleString('en-US', { maximumFractionDigits: 9 })
    : ''

/** The title of a limit, left of the point at which the limit becomes flat: dots are below the limit. */
function limitTitle(limit: Limit, x: Scale, y: Scale, theme: Theme) {
  const top = Math.max(...limit.y) * (1 - 1e-6)
  const at = limit.y.findIndex((value) => value >= top)
  return {
    type: 'scatter',
    silent: true,
    symbolSize: 1,
    z: 1,
    itemStyle: { color: theme.mute, opacity: 1 },
    label: {
      show: true,
      formatter: () => limit.title,
      position: 'left',
      distance: 6,
      offset: [0, -1],
      verticalAlign: 'bottom',
      fontSize: 11,
      color: theme.mute,
      backgroundColor: theme.panel,
      padding: [0, 3],
    },
    data: [[limit.x[at] / x.factor, limit.y[at] / y.factor]],
  }
}

/** Diameter in pixels of a dot whose area is a share of the largest. */
const dotSize = (share: number) => Math.max(5, 26 * Math.sqrt(share))

export function scatterText(scatter: Scatter): string {
  const range = (values: readonly number[], unit: Scatter['x_metric']['unit']) => {
    const [low, high] = [Math.min(...values), Math.max(...values)]
    return low === high ? format(low, unit) : `${format(low, unit)} to ${format(high, unit)}`
  }
  const groups = scatter.groups
    .filter(({ x }) => x.length > 0)
    .map(
      ({ title, x, y }) =>
        `${title}: ${x.length} at ${scatter.x_metric.title} ${range(x, scatter.x_metric.unit)}, ` +
        `${scatter.y_metric.title} ${range(y, scatter.y_metric.unit)}`,
    )
  return `${scatter.title}. ${groups.join('; ')}.`
}
