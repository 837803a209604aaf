// Stacked bars per rank, also as map or table.

import { useMemo, useState } from 'react'
import type { Series } from '../../api/payloads'
import { categoryColor } from '../../lib/color'
import { withoutShared } from '../../lib/names'
import { Card, MetricName, Swatch } from '../../widgets/basics'
import { Chart, SeriesTable } from '../../widgets/chart'
import { Switch } from '../../widgets/choice'
import { HeatMap } from '../../widgets/heat'
import layoutCss from '../../widgets/layout.module.css'
import css from './rankBars.module.css'

/** From this many bars on the heat map is the default. */
const MANY = 16

export function RankBarsCard({ series, wide }: { series: Series; wide: boolean }) {
  const many = series.x.length >= MANY
  const isOne = series.x.length === 1
  const [form, setForm] = useState('')
  const shown = form || (many ? 'map' : 'chart')
  const bars = useMemo(() => ({ ...series, x: withoutShared(series.x.map(String)) }), [series])
  return (
    <Card
      className={`${wide ? layoutCss.span12 : layoutCss.span6} ${css.bars}`}
      title={series.title}
      subtitle={series.subtitle}
      actions={
        <Switch
          value={shown}
          onChange={setForm}
          label={`View of ${series.title}`}
          options={{ chart: 'Bars', map: 'Map', table: 'Table' }}
        />
      }
    >
      <div className={css.legend} hidden={shown !== 'chart' || isOne}>
        {series.lines.map((line) => (
          <span key={line.metric.key}>
            <Swatch color={categoryColor(line.category)} /> <MetricName metric={line.metric} />
          </span>
        ))}
      </div>
      {shown === 'chart' && <Chart series={bars} height={280} compact />}
      {shown === 'map' && (
        <HeatMap
          series={turned(series)}
          row={series.x_metric.title}
          dense={!wide}
          categories={series.lines.map((line) => line.category)}
        />
      )}
      {shown === 'table' && <SeriesTable series={series} />}
    </Card>
  )
}

function turned(series: Series): Series {
  return {
    ...series,
    x: series.lines.map((line) => line.metric.title),
    x_metric: { ...series.x_metric, title: '' },
    lines: series.x.map((x, i) => ({
      metric: { ...series.x_metric, key: String(x), title: String(x), unit: 'ns' },
      category: 'communication',
      values: series.lines.map((line) => line.values[i] ?? null),
    })),
  }
}
