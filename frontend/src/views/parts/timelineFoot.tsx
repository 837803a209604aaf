// The line below the timeline: how much is in sight, what was found, and what the colours mean.
import type { ColorBy } from '../../canvas/timelineColors'
import type { LegendEntry } from '../../canvas/timelineLegend'
import type { Range } from '../../canvas/timelineModel'
import { categoryColor } from '../../lib/color'
import { format } from '../../lib/format'
import { shortenMiddle, shortKernel } from '../../lib/names'
import { Swatch } from '../../widgets/basics'
import type { TimelineExtras } from './timelineExtras'
import css from './timelineFoot.module.css'

const KINDS: [string, string][] = [
  ['kernel', 'kernel'],
  ['communication', 'communication'],
  ['memcpy', 'copy'],
  ['operator', 'operator'],
  ['runtime', 'runtime'],
  ['python', 'Python'],
  ['module', 'module'],
  ['annotation', 'annotation'],
]

export function TimelineFoot(props: {
  view: Range
  busy: boolean
  notes: readonly string[]
  found: TimelineExtras['found']
  colors: ColorBy
  legend: readonly LegendEntry[]
}) {
  const { view, busy, notes, found, colors, legend } = props
  return (
    <footer data-testid="timeline-foot" className={css.foot}>
      <span className={css.now}>
        {format(view.end - view.start, 'ns')} in sight
        {found && !found.problem && <Found found={found} />}
        {notes.map((note) => ` · ${note}`)}
        {busy && ' · loading…'}
      </span>
      <span className={css.key} data-testid="timeline-key">
        {colors === 'kind' ? (
          <Kinds />
        ) : (
          legend.map(({ label, color }) => (
            <span key={label} title={label}>
              <Swatch color={color} /> {shortenMiddle(shortKernel(label), 26)}
            </span>
          ))
        )}
      </span>
    </footer>
  )
}

/** How much was found; which of them is chosen stands in the search field. */
function Found({ found }: { found: NonNullable<TimelineExtras['found']> }) {
  const { total, inSight, totalNs } = found
  const mean = total ? ` · mean ${format(totalNs / total, 'ns')}` : ''
  return (
    <span data-testid="found">{` · ${count(total)} found · ${count(inSight)} in sight · ${format(totalNs, 'ns')}${mean}`}</span>
  )
}

export const count = (value: number | null) => (value === null ? '…' : value.toLocaleString('en-US'))

function Kinds() {
  return (
    <>
      {KINDS.map(([kind, label]) => (
        <span key={kind}>
          <Swatch color={categoryColor(kind)} /> {label}
        </span>
      ))}
      <span title="The corner of kernels that use matrix units (Tensor Cores, Matrix Cores, XMX), by their name">
        ◥ matrix units
      </span>
    </>
  )
}
