// ECharts options of a step curve over time.
import type { EChartsCoreOption } from 'echarts/core'
import type { Series } from '../api/payloads'
import type { Theme } from '../canvas/surface'
import { categoryColor } from '../lib/color'
import { columnScale, format, type Scale, scaleFor } from '../lib/format'
import {
  axisLook,
  axisNumber,
  axisText,
  CHART,
  lineLook,
  tipLook,
  tooltipNode,
  totalsOf,
  withUnit,
} from './chartOption'

export interface Band {
  label: string
  start: number
  end: number
}

export interface CurveMarks {
  bands: readonly Band[]
  peak: { x: number; y: number; label: string } | null
  /** Requests for memory that failed; the first one has a label. */
  failures?: readonly { x: number; label: string }[]
  moment: number | null
  /** The x range; default: all points. */
  window?: readonly [number, number]
  /** The y axis title; default: the first line. */
  axis?: string
}

/** Margins in pixels, shared with overlays. */
export const GRID = { left: 62, right: 18, top: 30, bottom: 42 }
/** Without x labels: the chart below has the same axis. */
const BARE = { ...GRID, top: 8, bottom: 6 }

export function windowOf(series: Series): [number, number] {
  return [Number(series.x[0] ?? 0), Number(series.x[series.x.length - 1] ?? 1)]
}

export const axisRange = (series: Series, { window }: CurveMarks): [number, number] =>
  window ? [window[0], window[1]] : windowOf(series)

/** Bands cut to the window; names only if they fit. */
export function visibleBands(bands: readonly Band[], [start, end]: [number, number]): Band[] {
  const room = (end - start) / 40
  return bands.flatMap((band) => {
    const low = Math.max(band.start, start)
    const high = Math.min(band.end, end)
    return high > low ? [{ label: high - low > room ? band.label : '', start: low, end: high }] : []
  })
}

export function gapsOf(series: Series): Band[] {
  const isEmpty = series.x.map(
    (_, i) => series.lines.length > 0 && series.lines.every((line) => (line.values[i] ?? null) === null),
  )
  return series.x.flatMap((x, i) =>
    i > 0 && isEmpty[i] && isEmpty[i - 1] ? [{ label: '', start: Number(series.x[i - 1]), end: Number(x) }] : [],
  )
}

export function indexAt(x: readonly (number | string)[], at: number): number {
  let low = 0
  let high = x.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (Number(x[middle]) <= at) low = middle + 1
    else high = middle
  }
  return Math.max(0, low - 1)
}

/**
 * Part of a step series, with values held to both ends. Cutting avoids drawing invisible dashes, which takes seconds.
 */
export function cutSeries(series: Series, start: number, end: number): Series {
  if (series.x.length === 0) return series
  const [low, high] = [indexAt(series.x, start), indexAt(series.x, end)]
  const places = series.x.slice(low, high + 1).map((x) => Math.min(end, Math.max(start, Number(x))))
  const lines = series.lines.map((line) => {
    const values = line.values.slice(low, high + 1)
    return { ...line, values: [...values, values[values.length - 1] ?? null] }
  })
  return { ...series, x: [...places, end], lines }
}

export function axisScale(series: Series): Scale {
  let most = 0
  if (isStacked(series)) for (const total of totalsOf(series)) most = Math.max(most, total)
  else for (const line of series.lines) for (const value of line.values) most = Math.max(most, Math.abs(value ?? 0))
  return scaleFor(series.lines[0]?.metric.unit ?? 'number', most)
}

/** In the unit of the axis: its ticks are round there. */
const scaled = (value: number | null, scale: Scale) => (value === null ? null : value / scale.factor)

/** `isBare`: without words at the axis of x. */
export function curveOption(series: Series, theme: Theme, marks: CurveMarks, isBare = false): EChartsCoreOption {
  const scale = axisScale(series)
  const window = axisRange(series, marks)
  const xScale = columnScale(series.x_metric.unit, [window[1] - window[0] || 1])
  const text = axisText(theme)
  return {
    ...CHART,
    // Overlays and the chart below share the axis: labels must not move it.
    grid: { ...(isBare ? BARE : GRID), outerBoundsMode: 'none' },
    tooltip: tooltip(series, scale, theme),
    xAxis: {
      type: 'value',
      min: window[0],
      max: window[1],
      ...axisLook(theme, isBare ? '' : withUnit(series.x_metric.title, xScale), 26, {
        show: !isBare,
        hideOverlap: true,
        showMinLabel: false,
        showMaxLabel: false,
        formatter: (value: number) => {
          const label = axisNumber(value / xScale.factor)
          // A long name would be cut at the edge.
          const isNear = window[1] - value < (window[1] - window[0]) * 0.02
          return isNear && label.length > 6 ? '' : label
        },
      }),
      splitLine: { show: false },
    },
    yAxis: {
      type: 'value',
      ...axisLook(
        theme,
        withUnit(marks.axis ?? (isStacked(series) ? 'Memory' : (series.lines[0]?.metric.title ?? '')), scale),
        48,
        { formatter: axisNumber },
      ),
      // Room for the label above the peak.
      boundaryGap: marks.peak ? [0, '14%'] : undefined,
      splitNumber: isBare ? 3 : 4,
      // The x axis may start before 0.
      axisLine: { onZero: false },
      axisTick: {},
    },
    series: isStacked(series)
      ? stackedAreas(series, scale.factor, {
          markArea: { ...areas(series, marks, theme, text), z: 5 },
          markPoint: points(series, marks, scale, theme),
        })
      : series.lines.map((line, i) => ({
          ...lineLook(
            categoryColor(line.category),
            series.x.map((x, at) => [x, scaled(line.values[at] ?? null, scale)]),
          ),
          name: line.metric.title,
          step: 'end',
          lineStyle: { width: 1.5, color: categoryColor(line.category), type: i === 0 ? 'solid' : [5, 3] },
          areaStyle: i === 0 ? { color: categoryColor(line.category), opacity: 0.15 } : undefined,
          emphasis: { disabled: true },
          ...(i === 0
            ? { markArea: areas(series, marks, theme, text), markPoint: points(series, marks, scale, theme) }
            : {}),
        })),
  }
}

function areas(series: Series, marks: CurveMarks, theme: Theme, text: object) {
  const window = axisRange(series, marks)
  const bands = visibleBands(marks.bands, window).map((band, i) => [
    {
      xAxis: band.start,
      name: band.label,
      itemStyle: { color: theme.mute, opacity: i % 2 === 0 ? 0.1 : 0.04 },
      label: { ...text, position: 'insideTop', distance: -16 },
    },
    { xAxis: band.end },
  ])
  const thin = (window[1] - window[0]) / 500
  const moment = marks.moment === null ? [] : [{ label: '', start: marks.moment, end: marks.moment + thin }]
  const failures = (marks.failures ?? []).map(({ x }) => ({ label: '', start: x, end: x + thin / 2 }))
  return {
    silent: true,
    data: [
      ...bands,
      ...gapsOf(series).map((gap) => [
        { xAxis: gap.start, name: '', itemStyle: { color: theme.mute, opacity: 0.18 } },
        { xAxis: gap.end },
      ]),
      ...lines(visibleBands(moment, window), theme.mark),
      ...lines(visibleBands(failures, window), theme.highEdge),
    ],
  }
}

/** Moments as areas that are as narrow as a line. */
const lines = (bands: readonly Band[], color: string) =>
  bands.map((band) => [
    { xAxis: band.start, name: '', itemStyle: { color, opacity: 0.28, borderColor: color, borderWidth: 1 } },
    { xAxis: band.end },
  ])

/** Marks of the peak and, halfway below, of failed requests. */
function points(series: Series, marks: CurveMarks, scale: Scale, theme: Theme) {
  const window = axisRange(series, marks)
  const failures = (marks.failures ?? []).filter(({ x }) => x >= window[0] && x <= window[1])
  const { peak } = marks
  if (!peak && failures.length === 0) return undefined
  const point = (x: number, y: number, symbol: string, color: string, label: string) => ({
    coord: [x, scaled(y, scale)],
    symbol,
    itemStyle: { color, borderColor: theme.panel, borderWidth: 1.5 },
    label: {
      show: label !== '',
      position: symbol === 'circle' ? 'top' : x > (window[0] + window[1]) / 2 ? 'left' : 'right',
      align: symbol !== 'circle' ? undefined : x > (window[0] + window[1]) / 2 ? 'right' : 'left',
      distance: 6,
      color: theme.ink,
      fontSize: 11.5,
      formatter: label,
      backgroundColor: theme.panel,
      padding: [1, 3],
    },
  })
  return {
    symbolSize: 9,
    silent: true,
    data: [
      ...(peak ? [point(peak.x, peak.y, 'circle', theme.mark, peak.label)] : []),
      ...failures.map(({ x, label }, i) => {
        const level = series.lines[0]?.values[indexAt(series.x, x)] ?? 0
        return point(x, level / 2, 'diamond', theme.highEdge, i === 0 ? label : '')
      }),
    ],
  }
}

function tooltip(series: Series, scale: Scale, theme: Theme) {
  return {
    axisPointer: { type: 'line', snap: false },
    ...tipLook(theme, 'axisValue', (at) => {
      const index = indexAt(series.x, at)
      const { title, unit } = series.x_metric
      const text = { ...series.x_metric, unit: 'text' as const }
      const x = Number(series.x[index])
      const node = tooltipNode(
        {
          ...series,
          style: 'lines',
          x_metric: text,
          x: [unit === 'ns' ? format(x, unit) : `${title} ${format(x, unit)}`],
          lines: [],
        },
        0,
        scale,
      )
      const rows = tooltipNode(
        {
          ...series,
          x: [0],
          lines: series.lines.map((line) => ({ ...line, values: [line.values[index] ?? null] })),
        },
        0,
        scale,
      )
      node.append(...Array.from(rows.children).slice(1))
      return node
    }),
  }
}

const isStacked = (series: Series) => series.style === 'stacked_area'

export function edgesOf(series: Series): number[][] {
  const edges: number[][] = []
  for (const line of series.lines) {
    const below = edges[edges.length - 1]
    edges.push(series.x.map((_, at) => (below?.[at] ?? 0) + (line.values[at] ?? 0)))
  }
  return edges
}

/** From top to bottom; `marks` are on the last-drawn area. */
export function stackedAreas(series: Series, factor: number, marks: object): object[] {
  const edges = edgesOf(series)
  return series.lines
    .map((line, i) => ({
      // Narrower than a pixel: only the line is visible.
      ...lineLook(
        categoryColor(line.category),
        series.x.map((x, at) => [x, edges[i][at] / factor]),
        1,
      ),
      name: line.metric.title,
      step: 'end',
      areaStyle: { color: categoryColor(line.category), opacity: 1 },
      emphasis: { disabled: true },
      z: 2,
      ...(i === 0 ? marks : {}),
    }))
    .reverse()
}
