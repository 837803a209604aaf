// The change between two totals, as chart or table.
import { useMemo } from 'react'
import type { Breakdown } from '../api/payloads'
import { categoryColor } from '../lib/color'
import { MetricName, Swatch, useTheme, Value } from './basics'
import { PlotFrame, usePlot } from './plot'
import { describeWaterfall, waterfallBars, waterfallOption, waterfallScale } from './waterfallOption'
import layoutCss from './layout.module.css'
import plainTableCss from './plainTable.module.css'
import textCss from './text.module.css'

export function Waterfall({ payload, height }: { payload: Breakdown; height: number | string }) {
  const theme = useTheme()
  const option = useMemo(() => waterfallOption(payload, theme), [payload, theme])
  const { frame, drawn } = usePlot(option)
  return <PlotFrame frame={frame} drawn={drawn} height={height} label={describeWaterfall(payload)} />
}

export function WaterfallTable({ payload }: { payload: Breakdown }) {
  const scale = waterfallScale(payload)
  return (
    <div className={layoutCss.scroll} tabIndex={0}>
      <table className={plainTableCss.table}>
        <thead>
          <tr>
            <th scope="col">Category</th>
            <th scope="col">Change{scale.symbol && ` (${scale.symbol})`}</th>
            <th scope="col">Share of baseline (%)</th>
            <th scope="col">Step after this change{scale.symbol && ` (${scale.symbol})`}</th>
          </tr>
        </thead>
        <tbody>
          {waterfallBars(payload).map(({ title, metric, category, value, to }) => (
            <tr key={metric?.key ?? title}>
              <th scope="row" className={metric ? undefined : textCss.strong}>
                {metric && <Swatch color={categoryColor(category)} />}
                {metric ? <MetricName metric={metric} /> : title}
              </th>
              <td>{metric && <Value value={value} unit={payload.unit} scale={scale} bare change />}</td>
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
