// How far ranks lie apart, step by step.
import { useMemo } from 'react'
import type { Series } from '../api/payloads'
import { format } from '../lib/format'
import { Swatch, useTheme } from './basics'
import { PlotFrame, usePlot } from './plot'
import { AREA_TITLES, areaColors, spreadOption, spreadText, topOf } from './spreadOption'
import breakdownCss from './breakdown.module.css'

export function Spread(props: { series: Series; category: string; worst: readonly string[]; height: number }) {
  const { series, category, worst, height } = props
  const theme = useTheme()
  const option = useMemo(() => spreadOption(series, category, worst, theme), [series, category, worst, theme])
  const { frame, drawn } = usePlot(option)
  const { beyond } = topOf(series)
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
        {beyond !== null && <li>the largest, up to {format(beyond, 'ns')}, lie beyond the axis</li>}
      </ul>
      <PlotFrame frame={frame} drawn={drawn} height={height} label={spreadText(series, worst)} />
    </>
  )
}
