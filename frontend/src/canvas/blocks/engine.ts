// The engine of the active-memory timeline. A frame only copies tile pictures, which layout.ts paints once per vertical
// scale.
import type { Bands } from '../../api/payloads'
import { clamp } from '../../lib/axisTicks'
import { type Limits, MovableViewport, type Move, wheelFactor } from '../movableViewport'
import type { Theme } from '../surface'
import type { Point, Range } from '../viewport'
import { areasOf, type BlockColoring, BlockColors, type ColorKeyEntry, isPlaceholder } from './colors'
import { type DrawnTile, drawBlocks } from './draw'
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
  TOP,
  tilesIn,
  tileWidth,
  toBytes,
  toUnit,
  toX,
} from './scene'
import type { BlockTileStore, TilePicture } from './tileStore'

const NARROWEST: Record<HistoryAxis, number> = { events: 8, time: 1000 }
/** Milliseconds per frame for painting tiles. Unpainted tiles show an older or coarser picture. */
const PAINT_MS = 7

export interface BlocksEvents {
  /** The window moved (already clamped, in whole units); called on every change. */
  onView(view: Range, move: Move): void
  /** A click or a key chose the block of a row; null = nothing. */
  onPick(row: number | null): void
  /** `at`: the pointer in the window. */
  onHover(spot: BlockSpot | null, at: Point): void
  /** Everything is to be seen after an event, -1 = before the first one. */
  onMoment(event: number): void
  /** Back to the window before the last zoom or jump. */
  onUndo(): void
}

export interface BlocksModel {
  axis: HistoryAxis
  layer: HistoryLayer
  head: Bands
  store: BlockTileStore
}

export class BlocksEngine extends MovableViewport<BlockSpot> {
  private readonly model: BlocksModel
  private readonly events: BlocksEvents
  readonly scene: BlocksScene

  constructor(canvas: HTMLCanvasElement, model: BlocksModel, theme: Theme, view: Range, events: BlocksEvents) {
    super(canvas)
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

  protected get limits(): Limits {
    const { extent, axis } = this.scene
    return { start: 0, end: extent, narrowest: NARROWEST[axis] }
  }

  protected get plot() {
    return { left: LEFT, width: plotWidth(this.scene) }
  }

  protected onView(view: Range, move: Move): void {
    this.events.onView(view, move)
  }

  override reset(): void {
    this.setHeights(fullHeights(this.scene.peak))
    super.reset()
  }

  private setHeights(heights: Heights): void {
    this.scene.heights = boundHeights(heights, this.scene.peak)
    this.redraw()
  }

  protected dragDown(pixels: number): void {
    const { low, high } = this.scene.heights
    const bytes = (pixels / plotHeight(this.scene)) * (high - low)
    this.setHeights({ low: low + bytes, high: high + bytes })
  }

  /** Zooms the bytes, around those at a height; without one the lower end stays. */
  protected moveAcross(pixels: number, at: Point | null): boolean {
    const { low, high } = this.scene.heights
    const held = at ? 1 - clamp((at.y - TOP) / plotHeight(this.scene), 0, 1) : 0
    const tall = (high - low) * wheelFactor(pixels)
    const from = low + (high - low - tall) * held
    this.setHeights({ low: from, high: from + tall })
    return true
  }

  protected draw(context: CanvasRenderingContext2D): void {
    const pixels = Math.round(plotHeight(this.scene) * (window.devicePixelRatio || 1))
    drawBlocks(context, this.scene, this.drawn(pixels))
  }

  /** Measures the canvas and its level; false if it has no room. */
  protected override measure(width = this.canvas.clientWidth, height = this.canvas.clientHeight): boolean {
    const { scene } = this
    scene.width = width
    scene.height = height
    const pixels = plotWidth(scene) * (window.devicePixelRatio || 1)
    scene.level = levelFor((scene.view.end - scene.view.start) / pixels, scene.levels)
    return width >= LEFT + 50 && height >= 60
  }

  protected override look(): void {
    this.scene.cursor = this.pointer
    super.look()
    this.scene.hovered = rowOf(this.hovered)
  }

  protected onHover(spot: BlockSpot | null, at: Point): void {
    this.events.onHover(spot, at)
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

  private shown(): [Bands, Range][] {
    return this.parts().flatMap(([number, part]) => {
      const tile = this.best(number)
      return tile ? [[tile, part] as [Bands, Range]] : []
    })
  }

  /** Requests visible tiles, then neighbours and coarser substitutes. */
  protected override afterDraw(): void {
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
  protected hit({ x, y }: Point): BlockSpot | null {
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

  protected onClick(point: Point, event: PointerEvent): void {
    const spot = this.hit(point)
    if (!event.altKey && !event.shiftKey) this.events.onPick(rowOf(spot))
    else if (spot) this.events.onMoment(spot.tile.event[spot.column])
  }

  protected override onDoubleClick(): void {
    this.reset()
  }

  protected readonly acts: Record<string, () => void> = {
    '0': () => this.reset(),
    z: () => this.events.onUndo(),
    m: () => {
      const event = this.pointed()
      if (event !== null) this.events.onMoment(event)
    },
    Escape: () => this.events.onPick(null),
  }

  protected walk(key: string): boolean {
    if (this.scene.selected === null) return false
    const next = this.neighbour(key)
    if (next !== null) this.events.onPick(next)
    return true
  }

  /** The block above, below, before or after the selected one; null if there is none. */
  private neighbour(key: string): number | null {
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
    return this.eventAtX(toX(this.scene, unit))
  }

  /** The state that a person points at: under the pointer, else in the middle of the window. */
  pointed(): number | null {
    return this.eventAtX(this.scene.cursor?.x ?? LEFT + plotWidth(this.scene) / 2)
  }

  private eventAtX(x: number): number | null {
    const spot = this.hit({ x, y: this.scene.height / 2 })
    return spot ? spot.tile.event[spot.column] : null
  }
}

const rowOf = (spot: BlockSpot | null) => (typeof spot?.block === 'number' ? spot.tile.block[spot.block] : null)
