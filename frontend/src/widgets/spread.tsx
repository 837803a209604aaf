// Spread of ranks per step.
import { useMemo } from 'react'
import type { Series } from '../api/payloads'
import { Swatch, useTheme } from './basics'
import { PlotFrame, usePlot } from './plot'
import { AREA_TITLES, areaColors, footOf, spreadOption, spreadText } from './spreadOption'
import breakdownCss from './breakdown.module.css'

export function Spread(props: { series: Series; category: string; worst: readonly string[]; height: number }) {
  const { series, category, worst, height } = props
  const theme = useTheme()
  const option = useMemo(() => spreadOption(series, category, worst, theme), [series, category, worst, theme])
  const { frame, drawn } = usePlot(option)
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
      <PlotFrame frame={frame} drawn={drawn} height={height} label={spreadText(series, worst)} />
    </>
  )
}
