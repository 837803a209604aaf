// Small bars in a table cell.
import { categoryColor } from '../lib/color'
import { format } from '../lib/format'
import css from './bars.module.css'

const HEIGHT = 18

export function Bars(props: {
  values: readonly number[]
  /** Of the bars, as `labels` of a step or several. */
  labels: readonly string[]
  noun: string
  category: string
  width: number
}) {
  const { values, labels, noun, category, width } = props
  const top = Math.max(...values, 0)
  const low = values.length > 0 ? Math.min(...values) : 0
  const each = Math.min(16, width / Math.max(values.length, 1))
  const text = `${format(low, 'ns')} to ${format(top, 'ns')} per ${noun}`
  return (
    <svg data-testid="bars" className={css.bars} width={width} height={HEIGHT} role="img" aria-label={text}>
      <title>{text}</title>
      {top > 0 &&
        values.map((value, i) => {
          const height = Math.max(value > 0 ? 1 : 0, (value / top) * (HEIGHT - 1))
          return (
            <rect
              key={labels[i]}
              x={i * each}
              y={HEIGHT - height}
              width={Math.max(1, each - 2)}
              height={height}
              fill={categoryColor(category)}
            >
              <title>{`${noun} ${labels[i]}: ${format(value, 'ns')}`}</title>
            </rect>
          )
        })}
    </svg>
  )
}
