// React wrapper of the multi-rank timeline.
import { useEffect, useMemo, useRef } from 'react'
import { type RankSpot, RanksEngine, type SectionStack } from '../canvas/ranks/engine'
import { SECTION } from '../canvas/ranks/layout'
import { hoveredCollective, linkedRanksText } from '../canvas/ranks/links'
import type { Collective, RanksScene } from '../canvas/ranks/scene'
import type { Placing } from '../canvas/ranks/tracks'
import { trackKind } from '../canvas/timeline/model'
import type { Bookmark, Step } from '../canvas/timeline/scene'
import { format } from '../lib/format'
import {
  CANVAS,
  type Hover,
  HoverTip,
  type TimelineCanvasProps,
  useTimelineEngine,
  useTrackStack,
} from './timelineCanvas'
import { TrackMap, type TrackPart } from './trackMap'
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
  const { box, stack, onTracks, thumb, scrollNow } = useTrackStack<SectionStack>()
  const parts = useMemo(() => (stack ? partsOf(stack.layout) : []), [stack])
  const { canvas, hover } = useTimelineEngine(
    props,
    ONE,
    (on, theme, events) => {
      const more = { onTracks, onOpen: () => {}, onSight: (keys: readonly string[]) => onSight.current(keys) }
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
    <div ref={box} data-testid="timeline" className={css.timeline}>
      <canvas
        id={CANVAS}
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-label="Timelines of several ranks. W and S zoom, A and D or the arrow keys move. 0 shows everything, Z undoes the last zoom, B sets a bookmark. A click on the name of a rank opens or closes its tracks. With an event selected, the arrow keys select its neighbors, F zooms to it and M marks its time."
      />
      {stack && (
        <TrackMap
          canvas={CANVAS}
          parts={parts}
          content={stack.layout.content}
          room={stack.room}
          scroll={stack.scroll}
          scrollNow={scrollNow}
          thumb={thumb}
          onScroll={(to) => engine.current?.scrollTo(to)}
        />
      )}
      {hover && <HoverTip hover={hover} more={engine.current ? sectionTexts(engine.current.scene, hover) : []} />}
    </div>
  )
}

/** The head of each rank, and the tracks of those that are open. */
const partsOf = ({ sections, places }: SectionStack['layout']): TrackPart[] =>
  sections.flatMap(({ isOpen, scene }, i) => {
    const { top } = places[i]
    const tracks = isOpen && scene ? scene.layout.rest : []
    return [
      { top, height: SECTION, kind: 'step' },
      ...tracks.map(({ track, top: inside, height }) => ({
        top: top + SECTION + inside,
        height,
        kind: trackKind(track.id),
      })),
    ]
  })

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
