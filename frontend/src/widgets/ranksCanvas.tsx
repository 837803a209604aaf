// React wrapper of the multi-rank timeline.
import { useEffect, useRef } from 'react'
import { type RankSpot, RanksEngine } from '../canvas/ranks/engine'
import { hoveredCollective, linkedRanksText } from '../canvas/ranks/links'
import type { Collective, RanksScene } from '../canvas/ranks/scene'
import type { Placing } from '../canvas/ranks/tracks'
import type { Bookmark, Step } from '../canvas/timeline/scene'
import { format } from '../lib/format'
import { type Hover, HoverTip, type TimelineCanvasProps, useTimelineEngine } from './timelineCanvas'
import css from './timelineCanvas.module.css'

/** One engine, whatever ranks it shows. */
const ONE = {}

export function RanksCanvas(
  props: TimelineCanvasProps<RanksEngine> & {
    placing: Placing
    collectives: readonly Collective[]
    selected: RankSpot | null
    steps: readonly Step[]
    bookmarks: readonly Bookmark[]
    onSight: (keys: readonly string[]) => void
  },
) {
  const { engine, view, keysFrom, placing, collectives, selected, steps, bookmarks } = props
  const onSight = useRef(props.onSight)
  onSight.current = props.onSight
  const { canvas, hover } = useTimelineEngine(
    props,
    ONE,
    (on, theme, events) => {
      const more = { onOpen: () => {}, onSight: (keys: readonly string[]) => onSight.current(keys) }
      return new RanksEngine(on, theme, view, { ...events, ...more }, keysFrom)
    },
    ({ scene }, item) => scene.sections.find(({ section }) => section.key === item.rank)?.scene?.colors.of(item) ?? '',
  )
  // biome-ignore-start lint/correctness/useExhaustiveDependencies: a ref is no dependency
  useEffect(() => engine.current?.setPlacing(placing), [placing])
  useEffect(() => engine.current?.setCollectives(collectives), [collectives])
  useEffect(() => engine.current?.setSelected(selected), [selected])
  useEffect(() => engine.current?.setNotes(steps, bookmarks), [steps, bookmarks])
  // biome-ignore-end lint/correctness/useExhaustiveDependencies: see above
  return (
    <div data-testid="timeline" className={css.timeline}>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-label="Timelines of several ranks. W and S zoom, A and D or the arrow keys move. 0 shows everything, Z undoes the last zoom, B sets a bookmark. A click on the name of a rank opens or closes its tracks. With an event selected, the arrow keys select its neighbours, F zooms to it and M marks its time."
      />
      {hover && <HoverTip hover={hover} more={engine.current ? sectionTexts(engine.current.scene, hover) : []} />}
    </div>
  )
}

function sectionTexts(scene: RanksScene, { item }: Hover): string[] {
  const title = (key: string) => scene.sections.find(({ section }) => section.key === key)?.section.title
  const rank = title(item?.rank ?? '') ?? ''
  const collective = item?.rank === undefined ? undefined : hoveredCollective(scene)
  if (!collective) return rank ? [rank] : []
  const last = title(collective.last)
  const late = collective.calls.find(({ rank }) => rank === item?.rank)?.lateness ?? null
  const times = [
    last ? `last to arrive: ${last}` : '',
    late === null ? '' : `starts ${format(Math.abs(late), 'ns')} ${late < 0 ? 'before' : 'after'} the median`,
  ].filter(Boolean)
  return [
    [rank, collective.name, linkedRanksText(scene.sections, collective.calls.length)].filter(Boolean).join(' · '),
    ...(times.length > 0 ? [times.join(' · ')] : []),
  ]
}
