// Colours of items: by what they are, by their names or by the module around them; and the strip of those too narrow
// for a box.

import { paint, type Theme } from './surface'
import type { Tile, TileStore } from './tileStore'
import type { Item } from './timelineModel'

export type ColorBy = 'kind' | 'name' | 'module'

const STRENGTHS = 8
const SLICES = 10
const NONE = 'other'

interface Paint {
  fill: string
  ink: string
  /** As a pixel of an ImageData. */
  pixel: number
}

/** Slots number the colours in use: the categories, then ten for names and modules, then the one for none. */
export class Colors {
  readonly by: ColorBy
  readonly theme: Theme
  private readonly store: TileStore
  private readonly kinds: string[]
  private readonly slots: number[] = []
  private readonly paints: Paint[] = []

  constructor(theme: Theme, by: ColorBy, categories: readonly string[], store: TileStore) {
    this.theme = theme
    this.by = by
    this.store = store
    this.kinds = [...categories, ...Array.from({ length: SLICES }, (_, i) => `slice${i}`), NONE]
  }

  slot(tile: Tile, i: number): number {
    if (this.by === 'kind') return tile.category[i]
    const texts = this.by === 'name' ? this.store.names : this.store.modules
    const number = this.by === 'name' ? tile.name[i] : tile.module[i]
    let slot = this.slots[number]
    if (slot === undefined) {
      slot = this.slotOf(texts.list[number])
      this.slots[number] = slot
    }
    return slot
  }

  /** The full colour of an item, whatever the mode. */
  of(item: Item): string {
    if (this.by !== 'kind') return this.ofText(this.by === 'name' ? item.name : item.module)
    return this.paint(this.kinds.indexOf(item.category), 1).fill
  }

  /** The full colour of a name or module. */
  ofText(text: string): string {
    return this.paint(this.slotOf(text), 1).fill
  }

  /** `strength` from 0 to 1: how much of the panel does not show through. */
  paint(slot: number, strength: number): Paint {
    const level = Math.max(1, Math.round(strength * STRENGTHS))
    const at = slot * (STRENGTHS + 1) + level
    let found = this.paints[at]
    if (!found) {
      const { fill, ink } = paint(this.kinds[slot], level / STRENGTHS, this.theme)
      found = { fill, ink, pixel: pixelOf(fill) }
      this.paints[at] = found
    }
    return found
  }

  private slotOf(text: string): number {
    if (text === '') return this.kinds.length - 1
    let hash = 0
    for (let i = 0; i < text.length; i++) hash = (Math.imul(hash, 31) + text.charCodeAt(i)) | 0
    return this.kinds.length - 1 - SLICES + (Math.abs(hash) % SLICES)
  }
}

function pixelOf(hex: string): number {
  const value = Number.parseInt(hex.slice(1), 16)
  return (0xff000000 | ((value & 255) << 16) | (value & 0xff00) | (value >> 16)) >>> 0
}

/** Rows of single pixels that are stretched to the height of a bar: thousands of narrow items cost one image a row. */
export class Strip {
  private canvas: OffscreenCanvas | null = null
  private image: ImageData | null = null
  private pixels = new Uint32Array(0)
  private readonly tops: number[] = []
  private width = 0

  /** Starts anew, with at most so many rows of so many pixels. */
  begin(width: number, rows: number): void {
    this.tops.length = 0
    if (!this.canvas || !this.image || this.width !== width || this.image.height < rows) {
      this.width = width
      this.canvas = new OffscreenCanvas(width, rows + 16)
      this.image = new ImageData(width, rows + 16)
      this.pixels = new Uint32Array(this.image.data.buffer)
    } else this.pixels.fill(0)
  }

  /** A new row, drawn at `top`; its number. */
  row(top: number): number {
    return this.tops.push(top) - 1
  }

  /** Colours the pixels from `from` up to `to` (at least one) where nothing stands. */
  put(row: number, from: number, to: number, pixel: number): void {
    const last = Math.min(this.width, Math.max(to, from + 1))
    for (let x = Math.max(0, from); x < last; x++) {
      const at = row * this.width + x
      if (this.pixels[at] === 0) this.pixels[at] = pixel
    }
  }

  draw(context: CanvasRenderingContext2D, left: number, width: number, height: number): void {
    const inner = this.canvas?.getContext('2d')
    if (!this.canvas || !this.image || !inner || this.tops.length === 0) return
    inner.putImageData(this.image, 0, 0, 0, 0, this.width, this.tops.length)
    context.imageSmoothingEnabled = false
    this.tops.forEach((top, row) => {
      context.drawImage(this.canvas as OffscreenCanvas, 0, row, this.width, 1, left, top, width, height)
    })
  }
}
