// The engine of the active-memory timeline. A frame only copies tile pictures, which layout.ts paints once per vertical
// scale.
import type { Bands } from '../../api/payloads'
import { clamp } from '../../lib/axisTicks'
import { fitCanvas as sharpen, type Theme } from '../surface'
import type { Move } from '../timeline/input'
import type { Range } from '../timeline/model'
import { areasOf, type BlockColoring, BlockColors, type ColorKeyEntry, isPlaceholder } from './colors'
import { type DrawnTile, drawBlocks } from './draw'
import { type BlocksEvents, BlocksInput } from './input'
import { adjacentBlock, blockAt, columnsOf, type Heights, indexOfBlock } from './layout'
import {
  type BlockSpot,
  type BlocksScene,
  boundHeights,
  fullHeights,
  type HistoryAxis,
  type HistoryLayer,
  type HistoryMarks,
  LEFT,
  levelFor,
  plotHeight,
  plotWidth,
  tilesIn,
  tileWidth,
  toBytes,
  toUnit,
  toX,
} from './scene'
import type { BlockTileStore, TilePicture } from './tileStore'

/** Units of the closest zoom. */
const NARROWEST: Record<HistoryAxis, number> = { events: 8, time: 1000 }
/** Milliseconds per frame for painting tiles. Unpainted tiles show an older or coarser picture. */
const PAINT_MS = 7

/** Facts about the history, from the first tile. */
export interface BlocksModel {
  axis: HistoryAxis
  layer: HistoryLayer
  head: Bands
  store: BlockTileStore
}

export class BlocksEngine {
  private readonly canvas: HTMLCanvasElement
  private readonly model: BlocksModel
  private readonly events: BlocksEvents
  private readonly hands: BlocksInput
  private readonly observer: ResizeObserver
  readonly scene: BlocksScene
  private frame = 0

  constructor(canvas: HTMLCanvasElement, model: BlocksModel, theme: Theme, view: Range, events: BlocksEvents) {
    this.canvas = canvas
    this.model = model
    this.events = events
    const { axis, layer, head } = model
    this.scene = {
      axis,
      layer,
      extent: head.extent,
      levels: head.levels,
      peak: head.peak_bytes,
      view,
      heights: fullHeights(head.peak_bytes),
      level: 0,
      width: 0,
      height: 0,
      theme,
      colors: new BlockColors('stack', theme, head),
      selected: null,
      hovered: null,
      cursor: null,
      marks: { steps: [], ooms: [], moment: null },
    }
    this.observer = new ResizeObserver(() => this.redraw())
    this.observer.observe(canvas)
    this.hands = new BlocksInput(canvas, this, events)
  }

  destroy(): void {
    this.hands.destroy()
    this.observer.disconnect()
    cancelAnimationFrame(this.frame)
  }

  setLook(theme: Theme, by: BlockColoring): void {
    this.scene.theme = theme
    this.scene.colors = new BlockColors(by, theme, this.model.head)
    this.redraw()
  }

  setMarks(marks: HistoryMarks): void {
    this.scene.marks = marks
    this.redraw()
  }

  setSelected(row: number | null): void {
    this.scene.selected = row
    this.redraw()
  }

  /** Moves the window without telling anyone: the URL already knows. */
  setView(view: Range): void {
    this.scene.view = view
    this.redraw()
  }

  zoom(factor: number, at = 0.5): void {
    const { start, end } = this.scene.view
    const span = (end - start) * factor
    this.move(start + (end - start - span) * at, span, 'zoom')
  }

  pan(fraction: number): void {
    const { start, end } = this.scene.view
    this.move(start + (end - start) * fraction, end - start, 'pan')
  }

  isWhole(): boolean {
    const { view, extent } = this.scene
    return view.start <= 0 && view.end >= extent
  }

  /** Everything, in both directions. */
  reset(): void {
    this.setHeights(fullHeights(this.scene.peak))
    this.move(0, this.scene.extent)
  }

  move(start: number, span: number, how: Move = 'jump'): void {
    const { extent, axis } = this.scene
    const wide = clamp(span, Math.min(extent, NARROWEST[axis]), extent)
    const from = clamp(start, 0, extent - wide)
    // Round to whole units only at rest, so that slow drags move.
    const view = { start: from, end: from + wide }
    this.setView(view)
    const first = Math.floor(view.start)
    this.events.onView({ start: first, end: Math.max(first + 1, Math.round(view.end)) }, how)
  }

  setHeights(heights: Heights): void {
    this.scene.heights = boundHeights(heights, this.scene.peak)
    this.redraw()
  }

  /** Closer to the bytes at a height, or further; 0.5 is the middle. */
  zoomBytes(factor: number, at = 0.5): void {
    const { low, high } = this.scene.heights
    const tall = (high - low) * factor
    const from = low + (high - low - tall) * at
    this.setHeights({ low: from, high: from + tall })
  }

  redraw(): void {
    if (this.frame) return
    this.frame = requestAnimationFrame(() => {
      this.frame = 0
      if (!this.measure()) return
      const { scene } = this
      this.hands.look()
      const context = sharpen(this.canvas, scene.width, scene.height)
      const ratio = window.devicePixelRatio || 1
      if (context) drawBlocks(context, scene, this.drawn(Math.round(plotHeight(scene) * ratio)))
      this.want()
    })
  }

  /** Measures the canvas and its level; false if it has no room. */
  private measure(): boolean {
    const { scene } = this
    scene.width = this.canvas.clientWidth
    scene.height = this.canvas.clientHeight
    const pixels = plotWidth(scene) * (window.devicePixelRatio || 1)
    scene.level = levelFor((scene.view.end - scene.view.start) / pixels, scene.levels)
    return scene.width >= LEFT + 50 && scene.height >= 60
  }

  /** Visible tiles with pictures. Tiles that this frame has no time to paint show an older or coarser picture. */
  private drawn(height: number): DrawnTile[] {
    const { scene, model } = this
    const found: DrawnTile[] = []
    const until = performance.now() + PAINT_MS
    let isLate = false
    let painted = 0
    for (const [number, part] of this.parts()) {
      for (const tile of this.finest(number)) {
        let picture = model.store.pictureOf(tile)
        if (!picture || !this.fits(picture, height)) {
          if (painted === 0 || performance.now() < until) {
            picture = model.store.paint(tile, height, scene.heights, scene.colors)
            painted++
          } else isLate = true
        }
        if (!picture) continue
        found.push({ tile, picture, part })
        break
      }
    }
    if (isLate) this.redraw()
    return found
  }

  private fits({ canvas, heights, colors }: TilePicture, height: number): boolean {
    const { low, high } = this.scene.heights
    return colors === this.scene.colors && canvas.height === height && heights.low === low && heights.high === high
  }

  /** Numbers of the tiles of the level that is shown, and the part of the axis that each covers. */
  private parts(): [number, Range][] {
    const { scene } = this
    const wide = tileWidth(scene.level)
    return tilesIn(scene.level, scene.view, scene.extent).map((number) => [
      number,
      { start: number * wide, end: (number + 1) * wide },
    ])
  }

  /** Loaded tiles that cover `number`, finest first. */
  private *finest(number: number): Generator<Bands> {
    const { level, levels } = this.scene
    for (let coarse = level; coarse < levels; coarse++) {
      const tile = this.model.store.get(coarse, 0, Math.floor(number / 2 ** (coarse - level)))
      if (tile) yield tile
    }
  }

  private best(number: number): Bands | undefined {
    for (const tile of this.finest(number)) return tile
    return undefined
  }

  /** Visible parts of the tiles on screen. */
  private shown(): [Bands, Range][] {
    return this.parts().flatMap(([number, part]) => {
      const tile = this.best(number)
      return tile ? [[tile, part] as [Bands, Range]] : []
    })
  }

  /** Requests visible tiles, then neighbours and coarser substitutes. */
  private want(): void {
    const { view, level, levels, extent } = this.scene
    const span = view.end - view.start
    const around = { start: view.start - span / 2, end: view.end + span / 2 }
    const coarser = Math.min(level + 1, levels - 1)
    const keys = (at: number, range: Range) =>
      tilesIn(at, range, extent).map((number) => ({ level: at, group: 0, number }))
    this.model.store.want([
      ...keys(level, view),
      ...keys(coarser, around),
      ...keys(level, around),
      ...keys(levels - 1, view),
    ])
  }

  /** The block at a point; null outside the blocks. */
  hit(x: number, y: number): BlockSpot | null {
    const { scene } = this
    const unit = toUnit(scene, x)
    if (x < LEFT || x > LEFT + plotWidth(scene) || unit < 0 || unit >= scene.extent) return null
    const tile = this.best(Math.floor(unit / tileWidth(scene.level)))
    if (!tile) return null
    const column = Math.floor((unit - tile.tile * tileWidth(tile.level)) / tile.width)
    if (column < 0 || column >= columnsOf(tile)) return null
    const bytes = toBytes(scene, y)
    return { tile, column, block: bytes < 0 ? null : blockAt(tile, column, bytes) }
  }

  /** The block above, below, before or after the selected one; null if there is none. */
  walk(key: string): number | null {
    const { scene } = this
    if (scene.selected === null) return null
    for (const [tile] of this.shown()) {
      const place = indexOfBlock(tile, scene.selected)
      if (place < 0) continue
      if (key === 'ArrowLeft' || key === 'ArrowRight') return tile.block[place + (key === 'ArrowLeft' ? -1 : 1)] ?? null
      const start = tile.tile * tileWidth(tile.level)
      const column = (at: number) => Math.floor((at - start) / tile.width)
      const low = Math.max(tile.first[place], column(scene.view.start))
      const high = Math.min(tile.end[place] - 1, column(scene.view.end - 1))
      if (high < low) continue
      const next = adjacentBlock(tile, Math.floor((low + high) / 2), place, key === 'ArrowUp' ? 1 : -1)
      return next === null ? null : tile.block[next]
    }
    return null
  }

  /** Visible colours, most bytes over time first. */
  legend(most: number): ColorKeyEntry[] {
    const { view, colors } = this.scene
    if (!this.measure()) return []
    const found = new Map<string, { color: string; area: number; largest: number }>()
    for (const [tile, part] of this.shown()) {
      const start = tile.tile * tileWidth(tile.level)
      const low = Math.max(0, (Math.max(part.start, view.start) - start) / tile.width)
      const high = (Math.min(part.end, view.end) - start) / tile.width
      for (const { label, area, block } of areasOf(colors, tile, low, high)) {
        const entry = found.get(label) ?? { color: '', area: 0, largest: 0 }
        entry.area += area
        if (area > entry.largest) Object.assign(entry, { largest: area, color: colors.cssOf(tile, block) })
        found.set(label, entry)
      }
    }
    const entries = [...found].sort(([, one], [, other]) => other.area - one.area)
    return entries.slice(0, most).map(([label, { color }]) => ({ label, color, isNothing: isPlaceholder(label) }))
  }

  /** The event after which the state is that a place of the axis shows. */
  eventAt(unit: number): number | null {
    const spot = this.hit(toX(this.scene, unit), this.scene.height / 2)
    return spot ? spot.tile.event[spot.column] : null
  }

  /** The state that a person points at: under the pointer, else in the middle of the window. */
  pointed(): number | null {
    const { scene } = this
    const spot = this.hit(scene.cursor?.x ?? LEFT + plotWidth(scene) / 2, scene.height / 2)
    return spot ? spot.tile.event[spot.column] : null
  }
}
