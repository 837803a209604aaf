// What lies between two totals, as a chart or as a table.
import { useMemo } from 'react'
import type { Breakdown } from '../api/payloads'
import { categoryColor } from '../lib/color'
import { MetricName, Swatch, useTheme, Value } from './basics'
import { PlotFrame, usePlot } from './plot'
import { describeWaterfall, waterfallBars, waterfallOption, waterfallScale } from './waterfallOption'

export function Waterfall({ payload, height }: { payload: Breakdown; height: number | string }) {
  const theme = useTheme()
  const option = useMemo(() => waterfallOption(payload, theme), [payload, theme])
  const { frame, drawn } = usePlot(option)
  return <PlotFrame frame={frame} drawn={drawn} height={height} label={describeWaterfall(payload)} />
}

export function WaterfallTable({ payload }: { payload: Breakdown }) {
  const scale = waterfallScale(payload)
  return (
    <div className="tt-scroll" tabIndex={0}>
      <table className="tt-table">
        <thead>
          <tr>
            <th scope="col">Category</th>
            <th scope="col">Change{scale.symbol && ` (${scale.symbol})`}</th>
            <th scope="col">Of the baseline (%)</th>
            <th scope="col">Step after it{scale.symbol && ` (${scale.symbol})`}</th>
          </tr>
        </thead>
        <tbody>
          {waterfallBars(payload).map(({ title, metric, category, value, to }) => (
            <tr key={metric?.key ?? title}>
              <th scope="row" className={metric ? undefined : 'tt-strong'}>
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
              <td className={metric ? undefined : 'tt-strong'}>
                <Value value={to} unit={payload.unit} scale={scale} bare />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
