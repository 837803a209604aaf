// A timeline payload made ready for drawing and hit-testing: typed columns, and where each row's events lie.
import type { Timeline } from '../api/payloads'
import { shortKernel } from '../lib/names'

export interface TrackModel {
  title: string
  subtitle: string
  isDevice: boolean
  rows: number
}

export interface TimelineModel {
  start: Float64Array
  dur: Float64Array
  name: Int32Array
  category: Int32Array
  event: Float64Array
  count: Float64Array
  busy: Float64Array
  names: string[]
  labels: string[]
  categories: string[]
  tracks: TrackModel[]
  /** First position of row r of track t is `ranges[offset[t] + r]`; the next entry is its end. */
  ranges: Int32Array
  offset: Int32Array
  windowStart: number
  windowEnd: number
  loadedStart: number
  loadedEnd: number
  resolution: number
  total: number
}

/** Only device code is shortened: names of operators and Python calls read well as they are. */
function labelsOf(payload: Timeline): string[] {
  const device = new Set(['kernel', 'communication', 'compute', 'matrix'])
  const labels = payload.names.slice()
  payload.name.forEach((name, i) => {
    if (device.has(payload.categories[payload.category[i]])) labels[name] = shortKernel(payload.names[name])
  })
  return labels
}

export function prepare(payload: Timeline): TimelineModel {
  const tracks = payload.tracks.map((track) => ({
    title: track.title,
    subtitle: track.subtitle,
    isDevice: track.is_device,
    rows: Math.max(1, track.rows),
  }))
  const offset = new Int32Array(tracks.length + 1)
  for (let t = 0; t < tracks.length; t++) offset[t + 1] = offset[t] + tracks[t].rows
  const lanes = offset[tracks.length]
  const ranges = new Int32Array(lanes + 1)
  for (let i = 0; i < payload.start.length; i++) {
    const lane = offset[payload.track[i]] + payload.row[i]
    if (lane < lanes) ranges[lane + 1]++
  }
  for (let lane = 0; lane < lanes; lane++) ranges[lane + 1] += ranges[lane]
  return {
    start: Float64Array.from(payload.start),
    dur: Float64Array.from(payload.dur),
    name: Int32Array.from(payload.name),
    category: Int32Array.from(payload.category),
    event: Float64Array.from(payload.event),
    count: Float64Array.from(payload.count),
    busy: Float64Array.from(payload.busy_ns),
    names: payload.names,
    labels: labelsOf(payload),
    categories: payload.categories,
    tracks,
    ranges,
    offset,
    windowStart: payload.window_start_ns,
    windowEnd: Math.max(payload.window_end_ns, payload.window_start_ns + 1),
    loadedStart: payload.start_ns,
    loadedEnd: payload.end_ns,
    resolution: payload.resolution_ns,
    total: payload.total_events,
  }
}

/** First position in [from, to) whose event ends after `time`; rows hold no overlaps. */
export function firstEndingAfter(model: TimelineModel, from: number, to: number, time: number): number {
  let [low, high] = [from, to]
  while (low < high) {
    const mid = (low + high) >> 1
    if (model.start[mid] + model.dur[mid] <= time) low = mid + 1
    else high = mid
  }
  return low
}

/** The event of a row at a time, within a tolerance; -1 = none. */
export function eventAt(model: TimelineModel, track: number, row: number, time: number, slack: number): number {
  const lane = model.offset[track] + row
  const [from, to] = [model.ranges[lane], model.ranges[lane + 1]]
  let best = -1
  let distance = slack
  for (let i = firstEndingAfter(model, from, to, time - slack); i < to && model.start[i] <= time + slack; i++) {
    const away = Math.max(0, model.start[i] - time, time - model.start[i] - model.dur[i])
    if (away <= distance) {
      best = i
      distance = away
      if (away === 0) break
    }
  }
  return best
}

/** Where an arrow key leads from an event: along its row, to what lies around it, or to the first one in it; -1 = nowhere. */
export function neighbour(model: TimelineModel, index: number, key: string): number {
  const lane = laneOf(model, index)
  const [from, to] = [model.ranges[lane], model.ranges[lane + 1]]
  if (key === 'ArrowLeft') return index > from ? index - 1 : -1
  if (key === 'ArrowRight') return index + 1 < to ? index + 1 : -1
  const track = trackOf(model, lane)
  const next = key === 'ArrowUp' ? lane - 1 : lane + 1
  if (next < model.offset[track] || next >= model.offset[track + 1]) return -1
  const [first, last] = [model.ranges[next], model.ranges[next + 1]]
  const found = firstEndingAfter(model, first, last, model.start[index])
  return found < last && model.start[found] <= model.start[index] + model.dur[index] ? found : -1
}

/** The position of an event by its number; -1 where it is not loaded, or merged. */
export const positionOf = (model: TimelineModel, event: number | null) =>
  event === null || event < 0 ? -1 : model.event.indexOf(event)

function laneOf(model: TimelineModel, index: number): number {
  let lane = 0
  while (model.ranges[lane + 1] <= index) lane++
  return lane
}

function trackOf(model: TimelineModel, lane: number): number {
  let track = 0
  while (model.offset[track + 1] <= lane) track++
  return track
}

/** Busy share of `count` equal slices of the whole trace: of the busiest device stream, else of the busiest host row. */
export function overview(model: TimelineModel, count: number): { bins: Float32Array; device: boolean } {
  const bins = new Float32Array(count)
  const filled = (t: number) => model.ranges[model.offset[t + 1]] > model.ranges[model.offset[t]]
  const device = model.tracks.some((track, t) => track.isDevice && filled(t))
  model.tracks.forEach((track, t) => {
    if (track.isDevice !== device) return
    for (let lane = model.offset[t]; lane < model.offset[t + 1]; lane++) {
      const own = laneBusy(model, lane, count, device)
      for (let b = 0; b < count; b++) bins[b] = Math.max(bins[b], Math.min(1, own[b]))
    }
  })
  return { bins, device }
}

/** Ranges that only name what happens keep nothing busy. */
const NAMES_ONLY = new Set(['annotation', 'device_annotation', 'python', 'module', 'window', 'overhead'])

function laneBusy(model: TimelineModel, lane: number, count: number, device: boolean): Float32Array {
  const bins = new Float32Array(count)
  const scale = count / (model.windowEnd - model.windowStart)
  for (let i = model.ranges[lane]; i < model.ranges[lane + 1]; i++) {
    const category = model.categories[model.category[i]]
    if (NAMES_ONLY.has(category) || (device && category === 'sync')) continue
    const fill = model.dur[i] > 0 ? model.busy[i] / model.dur[i] : 0
    const from = (model.start[i] - model.windowStart) * scale
    const to = from + model.dur[i] * scale
    for (let b = Math.max(0, Math.floor(from)); b < Math.min(count, Math.ceil(to)); b++) {
      bins[b] += (Math.min(b + 1, to) - Math.max(b, from)) * fill
    }
  }
  return bins
}
