// React wrapper of the multi-rank timeline.
import { useEffect, useRef, useState } from 'react'
import { type RankSpot, RanksEngine, type RanksEvents } from '../canvas/ranks/engine'
import { hoveredCollective, linkedRanksText } from '../canvas/ranks/links'
import type { Collective, RanksScene } from '../canvas/ranks/scene'
import type { Placing } from '../canvas/ranks/tracks'
import type { ColorBy } from '../canvas/timeline/colors'
import { GUTTER } from '../canvas/timeline/layout'
import type { Bookmark, Step } from '../canvas/timeline/scene'
import type { Range } from '../canvas/viewport'
import { format } from '../lib/format'
import type { KernelClasses } from '../lib/kernelClasses'
import { useTheme } from './basics'
import { eventsOf, type Hover, HoverTip } from './timelineCanvas'
import { useEngine, type Windowed } from './useEngine'
import css from './timelineCanvas.module.css'

interface RanksProps extends Windowed<RanksEngine>, Omit<RanksEvents, 'onHover' | 'onOpen'> {
  placing: Placing
  collectives: readonly Collective[]
  matches: ((name: string) => boolean) | null
  colors: ColorBy
  classes: KernelClasses | null
  selected: RankSpot | null
  range: Range | null
  steps: readonly Step[]
  bookmarks: readonly Bookmark[]
  /** Pixels of the names; 0 = as at first. */
  gutter: number
  /** Windows whose keys are handled. */
  keysFrom: readonly Window[]
}

/** One engine, whatever ranks it shows. */
const ONE = {}

export function RanksCanvas(props: RanksProps) {
  const { placing, collectives, matches, colors, classes, selected, range, steps, bookmarks, gutter, engine } = props
  const theme = useTheme()
  const canvas = useRef<HTMLCanvasElement>(null)
  const [hover, setHover] = useState<Hover | null>(null)
  const latest = useRef(props)
  latest.current = props

  useEngine(canvas, ONE, props, (on) => {
    const events: RanksEvents = {
      ...eventsOf(
        latest,
        (item) => made.scene.sections.find(({ section }) => section.key === item.rank)?.scene?.colors.of(item) ?? '',
        setHover,
      ),
      onOpen: () => {},
      onSight: (keys) => latest.current.onSight(keys),
    }
    const made = new RanksEngine(on, theme, latest.current.view, events, latest.current.keysFrom)
    return made
  })
  // biome-ignore-start lint/correctness/useExhaustiveDependencies: a ref is no dependency, and a range is its two ends
  useEffect(() => engine.current?.setTheme(theme), [theme])
  useEffect(() => engine.current?.setColors(colors, classes), [colors, classes])
  useEffect(() => engine.current?.setGutter(gutter || GUTTER), [gutter])
  useEffect(() => engine.current?.setSearch(matches), [matches])
  useEffect(() => engine.current?.setPlacing(placing), [placing])
  useEffect(() => engine.current?.setCollectives(collectives), [collectives])
  useEffect(() => engine.current?.setSelected(selected), [selected])
  useEffect(() => engine.current?.setRange(range), [range?.start, range?.end])
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

/** Tooltip rows: rank, collective and its last rank. */
function sectionTexts(scene: RanksScene, { item }: Hover): [string, string][] {
  const title = (key: string) => scene.sections.find(({ section }) => section.key === key)?.section.title
  const said: [string, string][] = [['Rank', title(item?.rank ?? '') ?? '']]
  const collective = item?.rank === undefined ? undefined : hoveredCollective(scene)
  if (collective)
    said.push(['Collective', `${collective.name}, ${linkedRanksText(scene.sections, collective.calls.length)}`])
  const last = collective && title(collective.last)
  if (last) said.push(['Last to arrive', last])
  const late = collective?.calls.find(({ rank }) => rank === item?.rank)?.lateness ?? null
  if (late !== null) said.push(['Start', `${format(Math.abs(late), 'ns')} ${late < 0 ? 'before' : 'after'} the median`])
  return said
}
