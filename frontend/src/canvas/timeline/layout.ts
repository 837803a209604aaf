// Vertical positions of timeline tracks, pinned ones first.
import { clamp } from '../../lib/axisTicks'
import type { CounterSeries } from './counters'
import type { Lane } from './model'

export const GUTTER = 236
export const GUTTERS = { narrowest: 60, widest: 520 }
/** Canvas widths at which the names get their full width, and a small one. */
const WIDE = 1150
const SMALL_SCREEN = 900
const SMALL_GUTTER = 120

/** Width of the names of tracks: the wish (0 = none), within limits of the canvas. */
export function gutterOf(wish: number, width: number): number {
  const usual =
    width < SMALL_SCREEN
      ? (SMALL_GUTTER * width) / SMALL_SCREEN
      : SMALL_GUTTER + ((GUTTER - SMALL_GUTTER) * (width - SMALL_SCREEN)) / (WIDE - SMALL_SCREEN)
  const most = Math.max(GUTTERS.narrowest, Math.min(GUTTERS.widest, width / 2))
  return Math.round(clamp(wish || Math.min(usual, GUTTER), GUTTERS.narrowest, most))
}

export const STRIP = 38
export const AXIS = 62
export const HEAD = 80
export const ROW = 17
export const BAR = 15
const PAD = 6
const SMALL = 24
const CHART = 40

type Track = { id: string; title: string; subtitle: string } & (
  | { kind: 'lane'; lane: number; rows: number }
  | { kind: 'counter'; counter: number }
)

export interface Placed {
  track: Track
  /** Pixels from the top of its region: of the pinned tracks, or of those that scroll. */
  top: number
  height: number
  rows: number
  small: boolean
}

export interface Layout {
  pinned: Placed[]
  rest: Placed[]
  /** Pixels that the pinned tracks take, and that the others would. */
  fixed: number
  content: number
  lanes: ReadonlyMap<number, { placed: Placed; pinned: boolean }>
}

/** Index at which a dragged track is dropped: `y` is the pointer's place in the region. */
export function dropIndex(placed: readonly Pick<Placed, 'top' | 'height'>[], y: number): number {
  const at = placed.findIndex(({ top, height }) => y < top + height / 2)
  return at < 0 ? placed.length : at
}

/** Counters come before the first lane of their device, or before the first thread. */
export function tracksOf(lanes: readonly Lane[], counters: readonly CounterSeries[]): Track[] {
  const tracks: Track[] = []
  const placed = new Set<number>()
  const put = (belongs: (counter: CounterSeries) => boolean) =>
    counters.forEach((counter, i) => {
      if (placed.has(i) || !belongs(counter)) return
      placed.add(i)
      tracks.push({
        kind: 'counter',
        counter: i,
        id: `counter/${counter.key}`,
        title: counter.title,
        subtitle: counter.subtitle,
      })
    })
  lanes.forEach((lane, i) => {
    if (lane.isDevice) put((counter) => counter.device !== null && lane.id.startsWith(`${counter.device}/`))
    else put((counter) => counter.device === null)
    tracks.push({ kind: 'lane', lane: i, id: lane.id, title: lane.title, subtitle: lane.subtitle, rows: lane.rows })
  })
  put(() => true)
  return tracks
}

/** Pinned tracks that do not fit into `room` pixels scroll with the others, or none of those could be seen. */
export function layoutTracks(
  tracks: readonly Track[],
  order: readonly number[],
  pinned: number,
  collapsed: ReadonlySet<string>,
  room: number,
): Layout {
  const lanes = new Map<number, { placed: Placed; pinned: boolean }>()
  const above: Placed[] = []
  const below: Placed[] = []
  let [fixed, content] = [0, 0]
  order.forEach((i, at) => {
    const track = tracks[i]
    const small = collapsed.has(track.id)
    const rows = track.kind === 'counter' ? 0 : small ? 1 : track.rows
    const tall = track.kind === 'counter' ? CHART : Math.max(track.subtitle ? 42 : 28, rows * ROW + PAD * 2)
    const height = small ? SMALL : tall
    const isPinned = at < pinned && below.length === 0 && fixed + height <= room
    const placed = { track, top: isPinned ? fixed : content, height, rows, small }
    if (isPinned) fixed += height
    else content += height
    const region = isPinned ? above : below
    region.push(placed)
    if (track.kind === 'lane') lanes.set(track.lane, { placed, pinned: isPinned })
  })
  return { pinned: above, rest: below, fixed, content, lanes }
}

const padding = (placed: Placed) => (placed.small ? 4 : PAD)
export const rowTop = (placed: Placed, row: number) => placed.top + padding(placed) + row * ROW
export const rowAt = (placed: Placed, y: number) =>
  Math.max(0, Math.min(placed.rows - 1, Math.floor((y - placed.top - padding(placed)) / ROW)))
