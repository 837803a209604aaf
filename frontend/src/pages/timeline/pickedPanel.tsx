// Summary of several events, selected with Ctrl or Cmd.
import type { Item } from '../../canvas/timeline/model'
import type { Range } from '../../canvas/viewport'
import { counted, format, precise } from '../../lib/format'
import { shortenMiddle, shortKernel } from '../../lib/names'
import { Card, LinkButton, SmallButton } from '../../widgets/basics'
import plainTableCss from '../../widgets/plainTable.module.css'
import textCss from '../../widgets/text.module.css'
import css from './pickedPanel.module.css'

interface PickedTotals extends Range {
  count: number
  sum: number
  /** Busy time: overlaps count once. */
  covered: number
}

export function pickedTotals(items: readonly Pick<Item, 'start' | 'dur'>[]): PickedTotals {
  const inOrder = [...items].sort((a, b) => a.start - b.start)
  const start = inOrder[0]?.start ?? 0
  let [end, sum, covered] = [start, 0, 0]
  for (const item of inOrder) {
    const last = item.start + item.dur
    sum += item.dur
    covered += Math.max(0, last - Math.max(end, item.start))
    end = Math.max(end, last)
  }
  return { count: items.length, sum, covered, start, end }
}

/** The selection with an event added, or removed if it was in it. */
export function togglePicked(picked: readonly Item[], item: Item): Item[] {
  const rest = picked.filter(({ event }) => event !== item.event)
  return rest.length < picked.length ? rest : [...rest, item]
}

/** Maximum number of listed events, first in time. */
const LISTED = 100

export function PickedPanel(props: {
  items: readonly Item[]
  onGo: (item: Item) => void
  onMark: (range: Range) => void
  onClear: () => void
}) {
  const { items, onGo, onMark, onClear } = props
  const totals = pickedTotals(items)
  const { count, sum, covered, start, end } = totals
  const figures: [string, string, string][] = [
    ['Sum', format(sum, 'ns'), 'Sum of the durations, including overlaps.'],
    ['First start to last end', format(end - start, 'ns'), `${precise(start, 'ns')} to ${precise(end, 'ns')}`],
    ['Gaps', format(end - start - covered, 'ns'), 'Time in which none of these events runs.'],
    ['Mean', format(sum / count, 'ns'), 'Sum divided by the number of events.'],
  ]
  const inOrder = [...items].sort((a, b) => a.start - b.start)
  return (
    <Card
      className={css.panel}
      title={`${counted(count, 'event')} selected`}
      actions={
        <span className={textCss.row}>
          <SmallButton onClick={() => onMark(totals)}>Mark range</SmallButton>
          <SmallButton onClick={onClear}>Clear</SmallButton>
        </span>
      }
    >
      <div role="status">
        <dl className={css.figures}>
          {figures.map(([name, value, title]) => (
            <div key={name} title={title}>
              <dt>{name}</dt>
              <dd className={textCss.num}>{value}</dd>
            </div>
          ))}
        </dl>
      </div>
      <table className={plainTableCss.table}>
        <thead>
          <tr>
            <th>Name</th>
            <th>Start</th>
            <th>Duration</th>
          </tr>
        </thead>
        <tbody>
          {inOrder.slice(0, LISTED).map((item) => (
            <tr key={item.event}>
              <th scope="row" title={item.name}>
                <LinkButton onClick={() => onGo(item)}>{shortenMiddle(shortKernel(item.name), 60)}</LinkButton>
              </th>
              <td className={textCss.num}>{precise(item.start, 'ns')}</td>
              <td className={textCss.num}>{format(item.dur, 'ns')}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  )
}
