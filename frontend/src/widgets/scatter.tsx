// A scatter plot with groups.
import { useMemo, useRef } from 'react'
import type { Scatter } from '../api/payloads'
import { categoryColor } from '../lib/color'
import { useTheme } from './basics'
import { PlotFrame, usePlot } from './plot'
import { SHAPES, scatterOption, scatterText } from './scatterOption'
import css from './scatter.module.css'

export const OUTLINES: Record<(typeof SHAPES)[number], string> = {
  circle: 'M5 1a4 4 0 1 0 .01 0Z',
  rect: 'M1 1h8v8H1Z',
  triangle: 'M5 1 9 9H1Z',
  diamond: 'M5 0 10 5 5 10 0 5Z',
  pin: 'M5 10 2 4a3 3 0 1 1 6 0Z',
  arrow: 'M5 0 9 10 5 7 1 10Z',
}

export function ScatterPlot(props: {
  scatter: Scatter
  height: number | string
  /** The clicked dot's label. */
  onDot?: (label: string) => void
}) {
  const { scatter, height, onDot } = props
  const theme = useTheme()
  const now = useRef({ scatter, onDot })
  now.current = { scatter, onDot }
  const option = useMemo(() => scatterOption(scatter, theme), [scatter, theme])
  const { frame, drawn } = usePlot(option, (instance) => {
    instance.on('click', (at) => {
      const label = now.current.scatter.groups[at.seriesIndex ?? -1]?.label[at.dataIndex]
      if (label !== undefined) now.current.onDot?.(label)
    })
  })
  return (
    <figure className={css.scatter}>
      <PlotFrame frame={frame} drawn={drawn} height={height} label={scatterText(scatter)} />
      <figcaption className={css.key}>
        {scatter.groups.map((group, i) => (
          <span key={group.category}>
            <svg viewBox="0 0 10 10" width="10" height="10" aria-hidden="true">
              <path d={OUTLINES[SHAPES[i % SHAPES.length]]} fill={categoryColor(group.category)} />
            </svg>
            {group.title}
          </span>
        ))}
      </figcaption>
    </figure>
  )
}
