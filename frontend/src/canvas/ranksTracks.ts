// The tracks of an open section: which there are, and how high they stand.
import { type Layout, layout, tracksOf as timelineTracks } from './timelineLayout'
import type { Lane, TimelineModel } from './timelineModel'

/** Which tracks an open section has: those of devices, a thin lane each, or all of them. */
export type Detail = 'streams' | 'all'

/** Names a track of a section, for clicks on its title. A section itself is its key alone. */
export const trackId = (rank: string, track: string) => `${encodeURIComponent(rank)} ${track}`
/** Whether a lane of a device holds its work, and not notes about it. */
export const works = ({ id, isDevice }: Lane) => isDevice && id.endsWith('/work')

/** `turned` names tracks that are not as high as `detail` makes them. */
export function tracksOf(
  rank: string,
  model: TimelineModel,
  { detail, turned }: { detail: Detail; turned: ReadonlySet<string> },
): Layout {
  const tracks = timelineTracks(model.lanes, [])
  const some = detail === 'streams' && model.lanes.some(works)
  const order = tracks.flatMap((track, i) =>
    some && track.kind === 'lane' && !works(model.lanes[track.lane]) ? [] : [i],
  )
  const thin = tracks.filter((track) => (detail === 'streams') !== turned.has(trackId(rank, track.id)))
  return layout(tracks, order, 0, new Set(thin.map(({ id }) => id)), 0)
}
