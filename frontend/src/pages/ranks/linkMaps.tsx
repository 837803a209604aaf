// Maps of traffic between ranks.

import { useMemo, useState } from 'react'
import type { Series } from '../../api/payloads'
import { columnScale, format } from '../../lib/format'
import type { Matrix } from '../../lib/rankMatrix'
import { setRoute, useRoute } from '../../state/urlState'
import { Card } from '../../widgets/basics'
import { Switch } from '../../widgets/choice'
import { HeatMap } from '../../widgets/heat'
import { type CellTooltip, MatrixPicture } from '../../widgets/matrix'
import layoutCss from '../../widgets/layout.module.css'

/** Maximum number of ranks without a height limit of the map. */
const FEW = 16
const HEIGHT = 360

export function LinkMaps({ maps }: { maps: Series[] }) {
  const route = useRoute()
  const shown = maps.find((series) => series.name === route.links) ?? maps[0]
  const unit = columnScale(
    shown.lines[0]?.metric.unit ?? 'number',
    shown.lines.flatMap((line) => line.values),
  )
  return (
    <Card
      className={layoutCss.span12}
      title={`${shown.title} (${unit.symbol})`}
      subtitle={shown.subtitle}
      actions={
        maps.length > 1 && (
          <Switch
            value={shown.name}
            onChange={(next) => setRoute({ links: next === maps[0].name ? '' : next })}
            label="Value of the link map"
            options={maps.map((series) => ({ value: series.name, label: series.title }))}
          />
        )
      }
    >
      {shown.lines.length > FEW ? <Picture series={shown} /> : <HeatMap series={shown} row="From" />}
    </Card>
  )
}

function Picture({ series }: { series: Series }) {
  const matrix = useMemo<Matrix>(() => matrixOf(series), [series])
  const [kept, keep] = useState(-1)
  const unit = series.lines[0].metric.unit
  const tell = (cell: number): CellTooltip => ({
    title: `${matrix.rows[Math.floor(cell / matrix.columns.length)]} to ${matrix.columns[cell % matrix.columns.length]}`,
    lines: [[series.title, format(matrix.values[cell], unit)]],
  })
  return (
    <MatrixPicture
      matrix={matrix}
      unit={unit}
      category={series.lines[0].category}
      label={`${series.title}, ${series.subtitle}`}
      noun="rows"
      height={HEIGHT}
      selected={kept < matrix.values.length ? kept : -1}
      onSelect={keep}
      tell={tell}
      axis="From / to"
      empty="nothing recorded"
    />
  )
}

const matrixOf = (series: Series): Matrix => ({
  rows: series.lines.map((line) => line.metric.title),
  columns: series.x.map(String),
  values: series.lines.flatMap((line) => line.values),
  rowBands: [],
  columnBands: [],
  rowMarks: [],
  columnMarks: [],
  marked: [],
  labelFirst: [],
  rankOf: () => -1,
})
