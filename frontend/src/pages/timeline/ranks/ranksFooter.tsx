// The footer of a multi-rank timeline.
import type { CSSProperties, ReactNode } from 'react'
import type { Timeline } from '../../../api/payloads'
import { lateRanks, OTHER_RANKS } from '../../../canvas/ranks/links'
import type { Collective, RankSection } from '../../../canvas/ranks/scene'
import type { Detail } from '../../../canvas/ranks/tracks'
import type { ColorBy } from '../../../canvas/timeline/colors'
import type { Range } from '../../../canvas/viewport'
import { categoryColor } from '../../../lib/color'
import { counted, format } from '../../../lib/format'
import type { KernelClasses } from '../../../lib/kernelClasses'
import type { Way } from '../../../lib/rankAxis'
import { type Hiding, KINDS, LegendEntries, type RecordedKinds, recordedKinds } from '../footer'
import type { Clocks, LinkedCollectives } from './useCollectives'
import css from '../footer.module.css'

const OF_STREAMS = new Set(['kernel', 'communication', 'memcpy'])

/** Kinds that sections which are read can show: without a device one has all of its tracks, and its calls in its head. */
export function kindsOf(heads: readonly Timeline[], detail: Detail): [string, string][] {
  const holds = heads.map(recordedKinds)
  const isAll = detail !== 'streams' || holds.some(({ device }) => !device)
  const isHeld = (needs: keyof RecordedKinds | undefined) => !needs || holds.some((one) => one[needs])
  return KINDS.filter(
    ({ kind, needs }) => kind === 'communication' || (isHeld(needs) && (isAll || OF_STREAMS.has(kind))),
  ).map(({ kind, label }) => [kind, label])
}

export function RanksFooter(props: {
  view: Range
  /** The rank whose times the axis shows. */
  axis: string
  clocks: Clocks | null
  wish: Way
  sections: readonly RankSection[]
  linkedCalls: LinkedCollectives | null
  detail: Detail
  colors: ColorBy
  classes: KernelClasses | null
  hiding: Hiding
  hint: ReactNode
}) {
  const { hint, view, axis, clocks, wish, sections, linkedCalls, detail, colors, classes, hiding } = props
  const lasts = linkedCalls && linkedCalls.linked > 0 ? lateRankEntries(linkedCalls.collectives, sections) : []
  const kinds: [string, string][] =
    colors === 'class'
      ? [...new Map([...(classes?.values() ?? [])].map(({ key, title }) => [key, title]))]
      : colors === 'kind' || colors === 'kernel'
        ? kindsOf(
            sections.flatMap(({ model }) => (model ? [model.head] : [])),
            detail,
          )
        : []
  return (
    <footer data-testid="timeline-foot" className={`${css.foot} ${css.whole}`}>
      {hint || (
        <span className={css.now}>
          {format(view.end - view.start, 'ns')} visible
          {linkedCalls && ` · ${linksText(linkedCalls)}`}
          {` · ${alignmentText(sections, wish, clocks)} · times of ${axis}`}
        </span>
      )}
      <span className={css.key} data-testid="timeline-key">
        {lasts.length > 0 && <span title="Bands have the color of the last rank to arrive">last to arrive:</span>}
        {lasts.map(({ title, kind, count, lateness }) => (
          <span key={title} title={lastText(count, lateness)}>
            <i className={css.band} style={{ '--band': categoryColor(kind) } as CSSProperties} /> {title}
          </span>
        ))}
        {lasts.length > 0 && kinds.length > 0 && <span>bars:</span>}
        <LegendEntries entries={kinds.map(([key, label]) => ({ key, label, color: categoryColor(key) }))} {...hiding} />
      </span>
    </footer>
  )
}

const lastText = (count: number, lateness: number) =>
  `last to arrive at ${counted(count, 'visible collective')}${lateness > 0 ? `, in total ${format(lateness, 'ns')} later than the median rank` : ''}`

/** Visible collectives' last ranks and their colours; the rest share one. */
function lateRankEntries(collectives: readonly Collective[], sections: readonly RankSection[]) {
  const titles = new Map(sections.map(({ key, title }) => [key, title]))
  const keys = sections.map(({ key }) => key)
  const all = lateRanks(keys, collectives).map(({ key, ...last }) => ({ title: titles.get(key) ?? key, ...last }))
  const shown = all.filter(({ kind }) => kind !== OTHER_RANKS)
  const rest = collectives.length - shown.reduce((sum, { count }) => sum + count, 0)
  if (rest === 0) return shown
  const title = all.length > shown.length ? 'any other rank' : 'unknown or hidden rank'
  return [...shown, { title, kind: OTHER_RANKS, count: rest, lateness: 0 }]
}

const TEXT: Record<Way, string> = {
  clocks: 'by corrected clocks',
  wall: 'by wall clocks',
  start: 'by step',
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
  if (wish !== 'clocks' || !ways.some(({ way }) => way === 'wall')) return text || 'no other rank loaded yet'
  if (clocks?.busy) {
    const read = clocks.fraction === null ? '' : `, ${format(clocks.fraction, 'ratio')}`
    return `${text} until clocks are corrected${read}`
  }
  return clocks ? `${text}, no clock could be corrected` : text
}

function linksText({ linked, calls, problem }: LinkedCollectives): string {
  if (problem) return `no links: ${problem.what}`
  if (linked > 0) return `${counted(linked, 'collective')} linked`
  return calls > 0
    ? `${counted(calls, 'call')} of collectives: zoom in to link them`
    : 'no visible collective is linked'
}
