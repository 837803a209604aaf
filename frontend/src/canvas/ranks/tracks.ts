// Tracks of an open section.

import { type Layout, layoutTracks, tracksOf as timelineTracks } from '../timeline/layout'
import type { Lane, TimelineModel } from '../timeline/model'
import type { Range } from '../viewport'
import type { RankSection } from './scene'

/** Tracks of an open section: device tracks, all tracks with one lane each, or all tracks in full. */
export type Detail = 'streams' | 'thin' | 'all'

/** Names a track of a section, for clicks on its title. A section itself is its key alone. */
export const trackId = (rank: string, track: string) => `${encodeURIComponent(rank)} ${track}`
export const isTrackId = (id: string) => id.includes(' ')
/** Whether a device lane has work rather than annotations. */
export const isWorkLane = ({ id, isDevice }: Lane) => isDevice && id.endsWith('/work')

/** `turned` names tracks that are not as high as `detail` makes them. */
export function tracksOf(
  rank: string,
  model: TimelineModel,
  { detail, turned }: { detail: Detail; turned: ReadonlySet<string> },
): Layout {
  const tracks = timelineTracks(model.lanes, [])
  const some = detail === 'streams' && model.lanes.some(isWorkLane)
  const order = tracks.flatMap((track, i) =>
    some && track.kind === 'lane' && !isWorkLane(model.lanes[track.lane]) ? [] : [i],
  )
  const thin = tracks.filter((track) => (detail !== 'all') !== turned.has(trackId(rank, track.id)))
  return layoutTracks(tracks, order, 0, new Set(thin.map(({ id }) => id)), 0)
}

export interface Placing {
  sections: readonly RankSection[]
  open: ReadonlySet<string>
  detail: Detail
  /** Tracks that are not as high as `detail` makes them: `trackId` of each. */
  turned: ReadonlySet<string>
  /** Everything there is to see, on the axis. */
  whole: Range
  /** How busy the devices are, over the whole. */
  busy: { busy: number[]; busy_is_device: boolean }
}

export const NO_PLACING: Placing = {
  sections: [],
  open: new Set(),
  detail: 'streams',
  turned: new Set(),
  whole: { start: 0, end: 1 },
  busy: { busy: [], busy_is_device: true },
}
