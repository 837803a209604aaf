// Colours of timeline items, and strips of narrow ones.

import type { Timeline } from '../../api/payloads'
import { COPY, classOf, isKernel, type KernelClasses } from '../../lib/kernelClasses'
import { shortKernel } from '../../lib/names'
import { boxColors, type Theme } from '../surface'
import type { Item } from './model'
import type { Tile, TileStore } from './tileStore'

/** `kernel`: kernels by name, other events by kind. */
export type ColorBy = 'kernel' | 'kind' | 'name' | 'module' | 'class'

const STRENGTHS = 8
const HUES = 10
/** Each hue twice, full and pale. */
const SLICES = 2 * HUES
const PALE = 0.6
/** Slices in the order in which names of a legend get them. */
const ALL_SLICES = Array.from({ length: SLICES }, (_, i) => i)
/** Of kernels: never the hue of operators, communication, copies and memsets; full hues of other kinds come last. */
const KERNEL_SLICES = [0, 5, 9, 10, 15, 19, 17, 18, 14, 7, 8, 4]
const NONE = 'other'
/** The colour of non-kernels when colouring by class. */
const NEUTRAL = 'idle'
const NEUTRAL_STRENGTH = 0.45
const NO_CLASSES: KernelClasses = new Map()
/** Nothing is hidden. */
export const NOTHING_HIDDEN: ReadonlySet<string> = new Set()
/** Key of events without a class. */
const NO_CLASS = 'none'
/** Kinds that share an entry of the legend. */
const SAME_ENTRY: Record<string, string> = { memset: 'memcpy', device_annotation: 'annotation' }
/** Before names and modules in keys of the legend; kinds and classes have none. */
const LABEL_KEY = '='

interface Paint {
  fill: string
  ink: string
  pixel: number
}

/** Slots number the colours in use: the categories, twenty for names and modules, those for none, then the classes. */
export class Colors {
  readonly by: ColorBy
  readonly theme: Theme
  /** By name of the kernel; empty unless it colours them. */
  readonly classes: KernelClasses
  /** Keys of hidden entries of the legend. */
  private readonly hidden: ReadonlySet<string>
  private readonly hiddenAt: boolean[] = []
  /** Slices of the longest kernels, or of names that a legend listed; other names have one by their text. */
  readonly given: Map<string, number>
  private readonly palette: readonly number[]
  private readonly store: TileStore
  private readonly categories: readonly string[]
  private readonly kernel: number
  private readonly kinds: string[]
  private readonly titles: string[]
  private readonly slices: number
  private readonly neutral: number
  /** The fixed slot per category; -1 if names decide. */
  private readonly fixed: number[]
  private readonly slots: number[] = []
  private readonly paints: Paint[] = []

  constructor(
    theme: Theme,
    by: ColorBy,
    { categories, kernels }: Pick<Timeline, 'categories' | 'kernels'>,
    store: TileStore,
    classes: KernelClasses | null = null,
    hidden: ReadonlySet<string> = NOTHING_HIDDEN,
    before: Colors | null = null,
  ) {
    this.palette = by === 'kernel' ? KERNEL_SLICES : ALL_SLICES
    this.given = before?.by === by ? before.given : by === 'kernel' ? this.slicesOf(kernels) : new Map()
    this.hidden = hidden
    this.by = by
    this.theme = theme
    this.classes = classes ?? NO_CLASSES
    this.store = store
    this.categories = categories
    this.kernel = categories.indexOf('kernel')
    const known = new Map([COPY, ...this.classes.values()].map(({ key, title }) => [key, title]))
    this.slices = categories.length
    this.neutral = this.slices + SLICES + 1
    const slices = Array.from({ length: SLICES }, (_, i) => `slice${i % HUES}`)
    this.kinds = [...categories, ...slices, NONE, NEUTRAL, ...known.keys()]
    this.titles = [...known.values()]
    this.fixed = categories.map((category) => (isKernel(category) ? -1 : this.slotOfClass(category, '')))
  }

  slot(tile: Tile, i: number): number {
    if (this.by === 'kind' || (this.by === 'kernel' && !this.isByName(tile.category[i]))) return tile.category[i]
    if (this.by === 'class') {
      const fixed = this.fixed[tile.category[i]]
      if (fixed >= 0) return fixed
    }
    const number = this.by === 'module' ? tile.module[i] : tile.name[i]
    let slot = this.slots[number]
    if (slot === undefined) {
      slot =
        this.by === 'class'
          ? this.slotOfClass(this.categories[tile.category[i]], this.store.names.list[number])
          : this.slotOf(this.labelOf(number))
      this.slots[number] = slot
    }
    return slot
  }

  /** The full colour of an item, whatever the mode. */
  of(item: Item): string {
    const { name, module, category } = item
    const number = this.categories.indexOf(category)
    if (this.by === 'kind' || (this.by === 'kernel' && !this.isByName(number))) return this.paint(number, 1).fill
    if (this.by === 'class') return this.paint(this.slotOfClass(category, name), 1).fill
    return this.paint(this.slotOf(this.by === 'module' ? module : shortKernel(name)), 1).fill
  }

  /** Whether names colour events of this kind. */
  isByName(category: number): boolean {
    return this.by !== 'kernel' || category === this.kernel
  }

  hides(tile: Tile, i: number): boolean {
    if (this.hidden.size === 0) return false
    const number = this.by === 'module' ? tile.module[i] : tile.name[i]
    const at = number * this.categories.length + tile.category[i]
    this.hiddenAt[at] ??= this.isHidden(
      this.categories[tile.category[i]],
      this.store.names.list[tile.name[i]],
      this.store.modules.list[tile.module[i]],
    )
    return this.hiddenAt[at]
  }

  hidesItem({ category, name, module }: Pick<Item, 'category' | 'name' | 'module'>): boolean {
    return this.hidden.size > 0 && this.isHidden(category, name, module)
  }

  private isHidden(category: string, name: string, module: string): boolean {
    if (this.by === 'kernel' && category === 'kernel')
      return this.hidden.has(category) || this.hidden.has(LABEL_KEY + shortKernel(name))
    if (this.by === 'kind' || this.by === 'kernel') return this.hidden.has(SAME_ENTRY[category] ?? category)
    if (this.by === 'class') return this.hidden.has(classOf(this.classes, category, name)?.key ?? NO_CLASS)
    return this.hidden.has(LABEL_KEY + (this.by === 'name' ? shortKernel(name) : module))
  }

  /** The number under which the legend counts an item. */
  meaning(tile: Tile, i: number): number {
    return this.by === 'class' ? this.slot(tile, i) : this.by === 'module' ? tile.module[i] : tile.name[i]
  }

  legend(meaning: number): { key: string; label: string; color: string; isRest: boolean } {
    if (this.by !== 'class') {
      const text = this.labelOf(meaning)
      const color = this.paint(this.slotOf(text), 1).fill
      return { key: LABEL_KEY + text, label: text || 'no module', color, isRest: false }
    }
    const isRest = meaning === this.neutral
    const label = isRest ? 'no class' : this.titles[meaning - this.neutral - 1]
    return { key: isRest ? NO_CLASS : this.kinds[meaning], label, color: this.paint(meaning, 1).fill, isRest }
  }

  /**
   * Gives entries of the legend, most time first, different colours; those that have one keep it. Returns whether a
   * colour changed.
   */
  distinguish(keys: readonly string[]): boolean {
    if (this.by !== 'name' && this.by !== 'module') return false
    const taken = new Set<number>()
    const without: string[] = []
    for (const key of keys.slice(0, this.palette.length)) {
      const label = key.slice(LABEL_KEY.length)
      const slice = this.given.get(label)
      if (slice !== undefined && !taken.has(slice)) taken.add(slice)
      else if (label !== '') without.push(label)
    }
    const used = new Set(this.given.values())
    for (const label of without) {
      const free = this.palette.filter((slice) => !taken.has(slice))
      const slice = free.find((one) => !used.has(one)) ?? free[0]
      this.given.set(label, slice)
      taken.add(slice)
    }
    if (without.length > 0) this.slots.length = 0
    return without.length > 0
  }

  /** The colour of an entry of a legend of names or modules. */
  ofEntry(key: string): string {
    return this.paint(this.slotOf(key.slice(LABEL_KEY.length)), 1).fill
  }

  /** `strength` from 0 to 1: how much of the panel does not show through. */
  paint(slot: number, strength: number): Paint {
    const level = Math.max(1, Math.round(strength * STRENGTHS))
    const at = slot * (STRENGTHS + 1) + level
    let found = this.paints[at]
    if (!found) {
      const isPale = slot >= this.slices + HUES && slot < this.slices + SLICES
      const share = (level / STRENGTHS) * (slot === this.neutral ? NEUTRAL_STRENGTH : isPale ? PALE : 1)
      const { fill, ink } = boxColors(this.kinds[slot], share, this.theme)
      found = { fill, ink, pixel: pixelOf(fill) }
      this.paints[at] = found
    }
    return found
  }

  /** The module, or the short name: variants of a kernel have one colour. */
  private labelOf(number: number): string {
    return this.by === 'module' ? this.store.modules.list[number] : shortKernel(this.store.names.list[number])
  }

  private slotOfClass(category: string, name: string): number {
    const found = classOf(this.classes, category, name)
    return found ? this.kinds.indexOf(found.key, this.neutral) : this.neutral
  }

  private slotOf(text: string): number {
    if (text === '') return this.slices + SLICES
    const given = this.given.get(text)
    if (given !== undefined) return this.slices + given
    return this.slices + this.palette[Math.abs(hashOf(text)) % this.palette.length]
  }

  /** Different slices for as many kernels as there are: each the one by its text, or the next that is free. */
  private slicesOf(kernels: readonly string[]): Map<string, number> {
    const labels = [...new Set(kernels.map(shortKernel))].slice(0, this.palette.length).sort()
    const given = new Map<string, number>()
    const free = new Set(this.palette)
    for (const label of labels) {
      let at = Math.abs(hashOf(label))
      while (!free.has(this.palette[at % this.palette.length])) at++
      given.set(label, this.palette[at % this.palette.length])
      free.delete(this.palette[at % this.palette.length])
    }
    return given
  }
}

function hashOf(text: string): number {
  let hash = 0
  for (let i = 0; i < text.length; i++) hash = (Math.imul(hash, 31) + text.charCodeAt(i)) | 0
  return hash
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

  /** Clears the strip for `rows` of `width` pixels. */
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

  /** Colours empty pixels from `from` to `to`, at least one. */
  put(row: number, from: number, to: number, pixel: number): void {
    const last = Math.min(this.width, Math.max(to, from + 1))
    for (let x = Math.max(0, from); x < last; x++) {
      const at = row * this.width + x
      if (this.pixels[at] === 0) this.pixels[at] = pixel
    }
  }

  copy(rows: number): Uint32Array {
    const last = this.tops.length * this.width
    return this.pixels.slice(last - rows * this.width, last)
  }

  /** Puts pixels that were copied into rows from one on. */
  paste(row: number, pixels: Uint32Array): void {
    this.pixels.set(pixels, row * this.width)
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
