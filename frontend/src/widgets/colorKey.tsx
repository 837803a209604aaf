// Colour key of a tree's chart, by self time.
import { useMemo } from 'react'
import type { Tree } from '../api/payloads'
import { categoryColor } from '../lib/color'
import type { Row } from '../lib/tableRows'
import { Swatch } from './basics'
import css from './colorKey.module.css'

const MOST = 10

export function ColorKey(props: {
  tree: Tree
  value: string
  categoryOf: (row: Row, value: string) => string
  labelOf: (row: Row) => string
}) {
  const { tree, value, categoryOf, labelOf } = props
  const entries = useMemo(() => {
    const own = tree.rows.map((row) => Number(row[value] ?? 0))
    const whole = [...own]
    tree.parent.forEach((parent, i) => {
      if (parent >= 0) own[parent] -= whole[i]
    })
    const found = new Map<string, { color: string; time: number }>()
    tree.rows.forEach((row, i) => {
      const label = labelOf(row)
      const before = found.get(label) ?? { color: categoryColor(categoryOf(row, value)), time: 0 }
      found.set(label, { ...before, time: before.time + own[i] })
    })
    return [...found].sort(([, one], [, other]) => other.time - one.time)
  }, [tree, value, categoryOf, labelOf])
  const left = entries.length - MOST
  return (
    <ul className={css.key} aria-label="Colours">
      {entries.slice(0, MOST).map(([label, { color }]) => (
        <li key={label}>
          <Swatch color={color} />
          {label}
        </li>
      ))}
      {left > 0 && <li>and {left} more</li>}
    </ul>
  )
}
