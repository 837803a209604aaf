// What a picture of several ranks on one axis is made from: each rank is a section with a scene of its own.
import { fromAxis, type Placement, SAME } from '../../lib/rankAxis'
import type { TimelineModel } from '../timeline/model'
import type { HeadStage, Scene } from '../timeline/scene'
import type { PlacedSection } from './layout'
import type { Link } from './links'

/** A rank, as far as it is known. */
export interface RankSection {
  key: string
  title: string
  /** How it is aligned, where it ran. */
  subtitle: string
  /** What is said instead of events; '' where there are some. */
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
  /** What its tiles were asked for last; null = they rest. */
  requested: readonly unknown[] | null
}

/** What was drawn, and from the second picture of the same on its pixels: of a window that moves nothing is drawn twice. */
export interface DrawnSection {
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
  /** Its start less the median of all ranks, by corrected clocks; null where these cannot tell. */
  lateness: number | null
}

/** One collective on several of the ranks. */
export interface Collective {
  match: number
  name: string
  /** Key of the rank that came last; '' = nobody knows, or it is not shown. */
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
  /** The collectives by sections. */
  links: readonly Link[]
  /** By rank and event, else by rank and begin: what links an event to its partners. */
  partners: ReadonlyMap<string, Collective>
  /** Whose event is selected, and which. */
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

/** The collective of an event of a rank; its start is on the axis where a placement is given, else in the rank's own time. */
export function collectiveOf(
  { partners }: Pick<RanksScene, 'partners'>,
  rank: string,
  event: number,
  start: number,
  placement: Placement = SAME,
): Collective | undefined {
  return partners.get(byEvent(rank, event)) ?? partners.get(byStart(rank, Math.round(fromAxis(placement, start))))
}

/** The window as a rank's own times. */
export const rankView = ({ view }: Pick<HeadStage, 'view'>, placement: Placement) => ({
  start: fromAxis(placement, view.start),
  end: fromAxis(placement, view.end),
})
