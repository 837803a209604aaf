// Colours of bands: one for every stack, line or category, the same in every picture of every snapshot.
import type { Bands } from '../api/payloads'
import { mix } from '../lib/color'
import { HUES } from '../lib/tokens'
import type { Paints } from './bandsLayout'
import type { Theme } from './surface'

export type BandColor = 'stack' | 'line' | 'category'

const { grey, pale, stone, ...LIVELY } = HUES
const PALETTE = Object.values(LIVELY)
/** How strong the fill is; stacks of one line differ in it. */
const SHADES = [0.92, 0.72, 0.55]
const EDGE = 0.45

/** FNV-1a: texts that differ in one letter get other colours. */
export function hashOf(text: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return (hash ^ (hash >>> 15)) >>> 0
}

/** As an ImageData holds it, whose bytes are red, green, blue, alpha. */
export function pixelOf(hex: string): number {
  const value = Number.parseInt(hex.slice(1), 16)
  return ((255 << 24) | ((value & 255) << 16) | (value & 0xff00) | (value >> 16)) >>> 0
}

interface Look {
  fill: string
  pixel: number
  edge: number
}

const NO_STACK = '(no stack recorded)'
const NO_CATEGORY = '(no category recorded)'

/** The line that asked for a block, in words. */
export const lineOf = (tile: Bands, block: number): string => tile.lines[tile.stack[block]] || NO_STACK

export class BandColors {
  readonly by: BandColor
  readonly theme: Theme
  private readonly looks = new Map<string, Look>()

  constructor(by: BandColor, theme: Theme) {
    this.by = by
    this.theme = theme
  }

  /** What stands for a block in the key: a line, or a category. */
  labelOf(tile: Bands, block: number): string {
    if (this.by === 'category') return tile.categories[tile.category[block]] || NO_CATEGORY
    return lineOf(tile, block)
  }

  cssOf(tile: Bands, block: number): string {
    return this.lookOf(tile, block).fill
  }

  /** What of a tile has one colour, by block: its stack or its category. */
  groupOf(tile: Bands): readonly number[] {
    return this.by === 'category' ? tile.category : tile.stack
  }

  paintsOf(tile: Bands): Paints {
    // Blocks of a tile are many times as many as its stacks.
    const group = this.groupOf(tile)
    const looks: Look[] = []
    const lookOf = (block: number) => {
      looks[group[block]] ??= this.lookOf(tile, block)
      return looks[group[block]]
    }
    return {
      ground: pixelOf(this.theme.panel),
      rest: pixelOf(this.theme.idle),
      fill: (block) => lookOf(block).pixel,
      edge: (block) => lookOf(block).edge,
    }
  }

  private lookOf(tile: Bands, block: number): Look {
    const stack = tile.stack[block]
    const shade = this.by === 'stack' ? tile.stack_number[stack] : 0
    const label = this.labelOf(tile, block)
    const key = `${shade} ${label}`
    let look = this.looks.get(key)
    if (!look) {
      const hash = hashOf(label)
      const isUnknown = label === NO_STACK || label === NO_CATEGORY
      const hue = isUnknown ? grey : PALETTE[hash % PALETTE.length]
      const strength = SHADES[((hash >>> 8) + Math.max(0, shade)) % SHADES.length]
      const fill = mix(hue, this.theme.panel, strength)
      look = { fill, pixel: pixelOf(fill), edge: pixelOf(mix(hue, this.theme.panel, strength * EDGE)) }
      this.looks.set(key, look)
    }
    return look
  }
}
