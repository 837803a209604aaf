// The line below the timelines of several ranks: how much is in sight, how their times were laid beside each other, what is linked.
import type { RankSection } from '../../canvas/ranksScene'
import type { Range } from '../../canvas/timelineModel'
import { categoryColor } from '../../lib/color'
import { counted, format } from '../../lib/format'
import type { Way } from '../../lib/rankAxis'
import { Swatch } from '../../widgets/basics'
import type { Clocks, Met } from './useMeetings'
import css from './timelineFoot.module.css'

const KINDS: [string, string][] = [
  ['kernel', 'kernel'],
  ['communication', 'communication'],
  ['memcpy', 'copy'],
]

export function RanksFoot(props: {
  view: Range
  /** Whose times the axis, steps, ranges and bookmarks are. */
  axis: string
  /** Null where nobody asked for them. */
  clocks: Clocks | null
  wish: Way
  sections: readonly RankSection[]
  met: Met | null
  colors: 'kind' | 'name'
}) {
  const { view, axis, clocks, wish, sections, met, colors } = props
  return (
    <footer data-testid="timeline-foot" className={css.foot}>
      <span className={css.now}>
        {format(view.end - view.start, 'ns')} in sight
        {met && ` · ${linksText(met)}`}
        {` · ${alignmentText(sections, wish, clocks)} · times of ${axis}`}
      </span>
      <span className={css.key} data-testid="timeline-key">
        {met && met.linked > 0 && <span>bands have the colour of the rank that came last</span>}
        {colors === 'kind' &&
          KINDS.map(([kind, label]) => (
            <span key={kind}>
              <Swatch color={categoryColor(kind)} /> {label}
            </span>
          ))}
      </span>
    </footer>
  )
}

const TEXT: Record<Way, string> = {
  clocks: 'by corrected clocks',
  wall: 'by wall clocks',
  start: 'from the first step of each',
}

/** How the ranks that are there were aligned; of several ways each with its ranks. */
function alignmentText(sections: readonly RankSection[], wish: Way, clocks: Clocks | null): string {
  const there = sections.filter(({ key, model }) => key !== '' && model)
  const ways = (['clocks', 'wall', 'start'] as const).flatMap((way) => {
    const count = there.filter(({ placement }) => placement.way === way).length
    return count > 0 ? [{ way, count }] : []
  })
  const text =
    ways.length === 1
      ? `aligned ${TEXT[ways[0].way]}`
      : ways.map(({ way, count }) => `${counted(count, 'rank')} ${TEXT[way]}`).join(', ')
  if (wish !== 'clocks' || !ways.some(({ way }) => way === 'wall')) return text || 'no other rank is there yet'
  if (clocks?.busy) {
    const read = clocks.fraction === null ? '' : `, ${format(clocks.fraction, 'ratio')}`
    return `${text} until the clocks are compared${read}`
  }
  return clocks ? `${text}, none could be corrected` : text
}

function linksText({ linked, calls, problem }: Met): string {
  if (problem) return `nothing is linked: ${problem.what}`
  if (linked > 0) return `${counted(linked, 'collective')} linked`
  return calls > 0
    ? `${counted(calls, 'call')} of collectives: zoom in to see them linked`
    : 'no collective in sight is linked'
}
