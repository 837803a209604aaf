// A scatter plot with groups.

import type { EChartsCoreOption } from 'echarts/core'
import { useMemo, useRef } from 'react'
import type { Scatter } from '../api/payloads'
import type { Theme } from '../canvas/surface'
import { categoryColor } from '../lib/color'
import { columnScale, format, formatNumber, type Scale } from '../lib/format'
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
}) {
  const { scatter, height, isFitted, onDot } = props
  const theme = useTheme()
  const now = useRef({ scatter, onDot })
  now.current = { scatter, onDot }
  const option = useMemo(() => scatterOption(scatter, theme, isFitted), [scatter, theme, isFitted])
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
      <DotsKey entries={scatter.groups} />
    </figure>
  )
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

export const DotsKey = ({ entries }: { entries: readonly { title: string; category: string }[] }) => (
  <figcaption className={css.key}>
    {entries.map(({ title, category }, i) => (
      <span key={category}>
        <svg viewBox="0 0 10 10" width="10" height="10" aria-hidden="true">
          <path d={OUTLINES[SHAPES[i % SHAPES.length]]} fill={categoryColor(category)} />
        </svg>
        {title}
      </span>
    ))}
  </figcaption>
)

export function scatterOption(scatter: Scatter, theme: Theme, isFitted = false): EChartsCoreOption {
  const { x, y } = scalesOf(scatter)
  const axis = (name: string, scale: Scale, nameGap: number, whole: boolean) => ({
    type: scatter.is_log ? 'log' : 'value',
    scale: isFitted,
    minInterval: whole ? 1 : undefined,
    ...axisLook(theme, name, nameGap, {
      hideOverlap: true,
      formatter: (value: number) =>
        // Powers of ten have few digits.
        scatter.is_log
          ? value.toLocaleString('en-US', { maximumFractionDigits: 9 })
          : formatNumber(value * scale.factor, scale),
    }),
  })
  return {
    ...dotFrame(theme, 58, (at: { seriesIndex: number; dataIndex: number }) =>
      dotTip(scatter, at.seriesIndex, at.dataIndex),
    ),
    xAxis: axis(withUnit(scatter.x_metric.title, x), x, 26, scatter.x_metric.unit === 'count'),
    yAxis: axis(withUnit(scatter.y_metric.title, y), y, 44, false),
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
        lineStyle: { color: theme.mute, width: 1, type: 'dashed' },
        endLabel: {
          show: true,
          formatter: limit.title,
          color: theme.mute,
          align: 'right',
          verticalAlign: 'bottom',
          offset: [0, -3],
        },
        data: limit.x.map((value, j) => [value / x.factor, limit.y[j] / y.factor]),
      })),
    ],
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
