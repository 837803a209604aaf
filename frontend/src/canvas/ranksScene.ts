// What a picture of several ranks on one axis is made from: each rank is a section with a scene of its own.
import { fromAxis, type Placement } from '../lib/rankAxis'
import type { Placed } from './ranksLayout'
import type { TimelineModel } from './timelineModel'
import type { HeadStage, Scene } from './timelineScene'

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
export interface Shown {
  section: RankSection
  isOpen: boolean
  scene: Scene | null
  /** Lanes that the head of the section sums up. */
  overview: readonly number[]
}

/** The call of one rank in a collective, in the rank's own time. */
export interface Call {
  rank: string
  start: number
  end: number
}

/** One collective on several of the ranks. */
export interface Meeting {
  match: number
  collective: string
  /** Key of the rank that came last; '' = nobody knows, or it is not shown. */
  last: string
  calls: readonly Call[]
}

export interface RanksScene extends HeadStage {
  sections: readonly Shown[]
  places: readonly Placed[]
  content: number
  meetings: readonly Meeting[]
  /** By rank and begin: what links an event to its partners. */
  partners: ReadonlyMap<string, Meeting>
  /** Whose event is selected. */
  rank: string
}

export const callKey = (rank: string, start: number) => `${rank} ${start}`

export function partnersOf(meetings: readonly Meeting[]): Map<string, Meeting> {
  const found = new Map<string, Meeting>()
  for (const meeting of meetings) for (const { rank, start } of meeting.calls) found.set(callKey(rank, start), meeting)
  return found
}

/** The window as a rank's own times. */
export const ownView = ({ view }: Pick<HeadStage, 'view'>, placement: Placement) => ({
  start: fromAxis(placement, view.start),
  end: fromAxis(placement, view.end),
})
