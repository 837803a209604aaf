// The state of a picture of several ranks.
import { fromAxis, type Placement, SAME } from '../../lib/rankAxis'
import type { TimelineModel } from '../timeline/model'
import type { HeadStage, Scene } from '../timeline/scene'
import type { PlacedSection } from './layout'
import type { Link } from './links'

export interface RankSection {
  key: string
  title: string
  subtitle: string
  /** Text in place of events; '' if there are events. */
  note: string
  isFailed: boolean
  model: TimelineModel | null
  placement: Placement
}

/** A section as it is drawn: its scene shows the window in the rank's own time. */
export interface VisibleSection {
  section: RankSection
  isOpen: boolean
  scene: Scene | null
  /** Lanes that the head of the section sums up. */
  overview: readonly number[]
  /** The bars of its head as they were drawn last; null = not all of them was there. */
  drawn: DrawnSection | null
  /** The last tile request; null if idle. */
  requested: readonly unknown[] | null
}

/** The last drawing and, from its second use, its pixels: an unmoved window is not drawn twice. */
interface DrawnSection {
  of: readonly unknown[]
  pixels: Uint32Array | null
}

export const isEqualList = (one: readonly unknown[], other: readonly unknown[]) =>
  one.length === other.length && one.every((value, i) => Object.is(value, other[i]))

/** The call of one rank in a collective, in the rank's own time. */
export interface Call {
  rank: string
  start: number
  end: number
  /** Row of its event in the rank's trace table; -1 = not known. */
  event: number
  /** Start minus the median of all ranks, on corrected clocks; null if unknown. */
  lateness: number | null
}

/** One collective on several of the ranks. */
export interface Collective {
  match: number
  name: string
  /** Key of the last rank; '' if unknown or hidden. */
  last: string
  /** How late that one was, whether or not its call is among these; 0 = not known. */
  lateness: number
  calls: readonly Call[]
}

export interface RanksScene extends HeadStage {
  sections: readonly VisibleSection[]
  places: readonly PlacedSection[]
  content: number
  collectives: readonly Collective[]
  links: readonly Link[]
  /** Collectives by rank and event, else by rank and start. */
  partners: ReadonlyMap<string, Collective>
  rank: string
  event: number
}

const byEvent = (rank: string, event: number) => `${rank} ${event}`
const byStart = (rank: string, start: number) => `${rank} @${start}`

export function collectivesByCall(collectives: readonly Collective[]): Map<string, Collective> {
  const found = new Map<string, Collective>()
  for (const collective of collectives)
    for (const { rank, event, start } of collective.calls)
      found.set(event < 0 ? byStart(rank, start) : byEvent(rank, event), collective)
  return found
}

/** The collective of an event. `start` is on the axis if a placement is given, else in the rank's own time. */
export function collectiveOf(
  { partners }: Pick<RanksScene, 'partners'>,
  rank: string,
  event: number,
  start: number,
  placement: Placement = SAME,
): Collective | undefined {
  return partners.get(byEvent(rank, event)) ?? partners.get(byStart(rank, Math.round(fromAxis(placement, start))))
}

export const rankView = ({ view }: Pick<HeadStage, 'view'>, placement: Placement) => ({
  start: fromAxis(placement, view.start),
  end: fromAxis(placement, view.end),
})
