// Speed against size: measured dots and fitted lines.
import { useMemo } from 'react'
import type { Series } from '../api/payloads'
import { categoryColor } from '../lib/color'
import { useTheme } from './basics'
import { PlotFrame, usePlot } from './plot'
import { OUTLINES } from './scatter'
import { SHAPES } from './scatterOption'
import { pairsOf, sizePlotOption, sizePlotText } from './sizePlotOption'
import css from './scatter.module.css'

export function SizePlot({ series, height }: { series: Series; height: number }) {
  const theme = useTheme()
  const option = useMemo(() => sizePlotOption(series, theme), [series, theme])
  const { frame, drawn } = usePlot(option)
  return (
    <figure className={css.scatter}>
      <PlotFrame frame={frame} drawn={drawn} height={height} label={sizePlotText(series)} />
      <figcaption className={css.key}>
        {pairsOf(series).map(({ measured, fit }, i) => (
          <span key={measured.category}>
            <svg viewBox="0 0 10 10" width="10" height="10" aria-hidden="true">
              <path d={OUTLINES[SHAPES[i % SHAPES.length]]} fill={categoryColor(measured.category)} />
            </svg>
            {measured.metric.title}
            {fit ? ' (line: fit)' : ''}
          </span>
        ))}
      </figcaption>
    </figure>
  )
}
