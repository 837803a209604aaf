// Stacked areas over time.
import type { Series } from '../api/payloads'
import { categoryColor } from '../lib/color'

export const isStacked = (series: Series) => series.style === 'stacked_area'

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
      type: 'line',
      name: line.metric.title,
      step: 'end',
      data: series.x.map((x, at) => [x, edges[i][at] / factor]),
      showSymbol: false,
      // Narrower than a pixel: only the line is visible.
      lineStyle: { width: 1, color: categoryColor(line.category) },
      itemStyle: { color: categoryColor(line.category) },
      areaStyle: { color: categoryColor(line.category), opacity: 1 },
      emphasis: { disabled: true },
      z: 2,
      ...(i === 0 ? marks : {}),
    }))
    .reverse()
}
