// ECharts options of the spread of ranks.
import type { EChartsCoreOption } from 'echarts/core'
import { useMemo } from 'react'
import type { Series } from '../api/payloads'
import type { Theme } from '../canvas/surface'
import { categoryColor, mix } from '../lib/color'
import { columnScale, format, type Scale } from '../lib/format'
import { Swatch, useTheme } from './basics'
import { axisLook, axisNumber, CHART, lineLook, type TipRow, tipNode, tipOption, withUnit } from './chartOption'
import { Plot } from './plot'
import breakdownCss from './breakdown.module.css'

/** Quantiles that bound the areas, the outer one first; and how much of the colour each has. */
const AREAS: readonly (readonly [string, string, number])[] = [
  ['rank_min_ns', 'rank_max_ns', 0.14],
  ['rank_p5_ns', 'rank_p95_ns', 0.32],
  ['rank_p25_ns', 'rank_p75_ns', 0.55],
]
const AREA_TITLES = ['smallest to largest', '5 to 95 %', '25 to 75 %']
const MEDIAN = 'rank_median_ns'

export const spreadScale = (series: Series): Scale =>
  columnScale(
    series.lines[0]?.metric.unit ?? 'ns',
    series.lines.flatMap((line) => line.values),
  )

const areaColors = (category: string, theme: Theme) =>
  AREAS.map(([, , strength]) => mix(categoryColor(category), theme.panel, strength))

/** Ratio of maximum to 95th percentile that makes the axis logarithmic. */
const FAR = 8
/** Range of a logarithmic axis below the 95th percentile. */
const DEEP = 100

/** Start of a logarithmic axis; null if linear. */
export function footOf(series: Series): number | null {
  const most = (key: string) => valuesOf(series, key).reduce<number>((max, value) => Math.max(max, value ?? 0), 0)
  const [largest, usual] = [most('rank_max_ns'), most('rank_p95_ns')]
  if (usual <= 0 || largest <= FAR * usual) return null
  const known = series.lines.flatMap((line) => line.values.filter((value): value is number => (value ?? 0) > 0))
  return Math.max(usual / DEEP, Math.min(...known))
}

const valuesOf = (series: Series, key: string) => series.lines.find((line) => line.metric.key === key)?.values ?? []

/** `worst`: the largest rank per x, '' if unknown. */
export function spreadOption(
  series: Series,
  category: string,
  worst: readonly string[],
  theme: Theme,
): EChartsCoreOption {
  const foot = footOf(series)
  const scale = spreadScale(series)
  const scaled = (values: readonly (number | null)[]) =>
    values.map((value) => (value === null ? null : Math.max(value, foot ?? value) / scale.factor))
  const colors = areaColors(category, theme)
  const hidden = { type: 'line', showSymbol: false, silent: true, lineStyle: { width: 0 } }
  const known = series.lines.flatMap((line) => line.values.filter((value): value is number => value !== null))
  const [least, most] = [Math.min(...known), Math.max(...known)]
  return {
    ...CHART,
    grid: { left: 58, right: 14, top: 14, bottom: 42 },
    tooltip: tipOption(theme, 'line', (index) =>
      tipNode(`${series.x_metric.title} ${series.x[index]}`, spreadRows(series, worst, index, spreadScale(series))),
    ),
    xAxis: {
      type: 'category',
      data: series.x.map(String),
      boundaryGap: false,
      ...axisLook(theme, series.x_metric.title, 26, { hideOverlap: true }),
    },
    yAxis: {
      type: foot === null ? 'value' : 'log',
      // The lower end is no power of ten.
      ...axisLook(theme, withUnit('time', scale), 44, { showMinLabel: foot === null, formatter: axisNumber }),
      splitNumber: 4,
      ...(foot === null ? {} : { min: foot / scale.factor }),
      // Close values far above 0 would look like one line.
      scale: known.length > 0 && least > most / 2,
    },
    series: [
      ...AREAS.flatMap(([from, to], i) => {
        const [low, high] = [scaled(valuesOf(series, from)), scaled(valuesOf(series, to))]
        const stack = { ...hidden, stack: from, stackStrategy: 'all' }
        const span = high.map((value, at) => (value === null ? null : value - (low[at] ?? 0)))
        return [
          { ...stack, data: low },
          { ...stack, data: span, areaStyle: { color: colors[i], opacity: 1 } },
        ]
      }),
      lineLook(theme.ink, scaled(valuesOf(series, MEDIAN))),
    ],
  }
}

export const spreadRows = (series: Series, worst: readonly string[], index: number, scale: Scale): TipRow[] =>
  series.lines.map((line) => ({
    name: line.metric.title,
    color: null,
    value: format(line.values[index] ?? null, line.metric.unit, scale),
    note: line.metric.key === 'rank_max_ns' ? worst[index] : '',
    strong: line.metric.key === MEDIAN,
  }))

export function spreadText(series: Series, worst: readonly string[]): string {
  const medians = valuesOf(series, MEDIAN)
  const largest = valuesOf(series, 'rank_max_ns')
  const [first, last] = [series.x[0], series.x[series.x.length - 1]]
  let at = 0
  largest.forEach((value, i) => {
    if ((value ?? Number.NEGATIVE_INFINITY) > (largest[at] ?? Number.NEGATIVE_INFINITY)) at = i
  })
  const unit = series.lines[0]?.metric.unit ?? 'ns'
  const median = (i: number) => format(medians[i] ?? null, unit)
  return (
    `${series.title}, ${series.subtitle}: median ${median(0)} at step ${first}, ${median(medians.length - 1)} at step ${last}; ` +
    `largest ${format(largest[at] ?? null, unit)} at step ${series.x[at]}${worst[at] ? `, ${worst[at]}` : ''}.`
  )
}

export function Spread(props: { series: Series; category: string; worst: readonly string[]; height: number }) {
  const { series, category, worst, height } = props
  const theme = useTheme()
  const option = useMemo(() => spreadOption(series, category, worst, theme), [series, category, worst, theme])
  const colors = areaColors(category, theme)
  return (
    <>
      <ul className={breakdownCss.key}>
        <li>
          <Swatch color={theme.ink} />
          median
        </li>
        {[2, 1, 0].map((at) => (
          <li key={AREA_TITLES[at]}>
            <Swatch color={colors[at]} />
            {AREA_TITLES[at]}
          </li>
        ))}
        {footOf(series) !== null && <li>logarithmic scale</li>}
      </ul>
      <Plot option={option} height={height} label={spreadText(series, worst)} />
    </>
  )
}
