// The state of an active-memory picture, and its coordinates.
import type { Bands, BandsEnvelope } from '../../api/payloads'
import { clamp } from '../../lib/axisTicks'
import type { Theme } from '../surface'
import type { Range } from '../viewport'
import type { BlockColors } from './colors'
import type { Heights } from './layout'
import { COLUMNS } from './tileStore'

/** Room around the bands in pixels; left and right as around the curves above them. */
export const LEFT = 62
export const RIGHT = 18
export const TOP = 18
export const BOTTOM = 22

/** The unit of x: states (0 is before the first event) or nanoseconds. */
export type HistoryAxis = 'events' | 'time'

/** Blocks, blocks with private pools apart, or segments. */
export type HistoryLayer = '' | 'pools' | 'segments'

interface Mark {
  at: number
  label: string
}

interface Span {
  label: string
  start: number
  end: number
}

export interface HistoryMarks {
  steps: readonly Span[]
  ooms: readonly Mark[]
  moment: number | null
}

export interface BlockSpot {
  tile: Bands
  column: number
  block: number | 'rest' | BandsEnvelope | null
}

export interface BlocksScene {
  axis: HistoryAxis
  layer: HistoryLayer
  extent: number
  levels: number
  peak: number
  view: Range
  heights: Heights
  level: number
  width: number
  height: number
  theme: Theme
  colors: BlockColors
  selected: number | null
  hovered: number | null
  cursor: { x: number; y: number } | null
  marks: HistoryMarks
}

export const plotWidth = (scene: BlocksScene) => Math.max(50, scene.width - LEFT - RIGHT)
export const plotHeight = (scene: BlocksScene) => Math.max(20, scene.height - TOP - BOTTOM)

export function toX(scene: BlocksScene, at: number): number {
  const { start, end } = scene.view
  return LEFT + ((at - start) / (end - start)) * plotWidth(scene)
}

export function toUnit(scene: BlocksScene, x: number): number {
  const { start, end } = scene.view
  return start + ((x - LEFT) / plotWidth(scene)) * (end - start)
}

export function toY(scene: BlocksScene, bytes: number): number {
  const { low, high } = scene.heights
  return TOP + plotHeight(scene) * (1 - (bytes - low) / (high - low))
}

export function toBytes(scene: BlocksScene, y: number): number {
  const { low, high } = scene.heights
  return low + (1 - (y - TOP) / plotHeight(scene)) * (high - low)
}

/** The finest level whose columns are at least one pixel wide. */
export function levelFor(unitsPerPixel: number, levels: number): number {
  return clamp(Math.ceil(Math.log2(Math.max(unitsPerPixel, 1e-9))), 0, levels - 1)
}

export const tileWidth = (level: number) => COLUMNS * 2 ** level

export function tilesIn(level: number, range: Range, extent: number): number[] {
  const wide = tileWidth(level)
  const first = Math.max(0, Math.floor(range.start / wide))
  const last = Math.min(Math.floor((extent - 1) / wide), Math.ceil(range.end / wide) - 1)
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => first + i)
}

/** Heights that hold everything, with a little room above. */
export const fullHeights = (peak: number): Heights => ({ low: 0, high: Math.ceil(peak * 1.04) + 1 })

/** Heights clamped to the content; at least one memory page apart. */
export function boundHeights({ low, high }: Heights, peak: number): Heights {
  const most = fullHeights(peak).high
  // Whole bytes, so that painted tiles can be reused.
  const tall = Math.round(clamp(high - low, Math.min(most, 4096), most))
  const from = Math.round(clamp(low, 0, most - tall))
  return { low: from, high: from + tall }
}

/** At most `most` round ticks between two heights, and their distance. `factor`: bytes per display unit. */
export function byteTicks({ low, high }: Heights, factor: number, most: number): { ticks: number[]; step: number } {
  const rough = (high - low) / factor / Math.max(1, most)
  const power = 10 ** Math.floor(Math.log10(rough))
  const unit = [1, 2, 5, 10].find((one) => one * power >= rough) ?? 10
  const step = unit * power
  const ticks: number[] = []
  for (let i = Math.ceil(low / factor / step); i * step * factor <= high; i++) ticks.push(i * step * factor)
  return { ticks, step }
}
