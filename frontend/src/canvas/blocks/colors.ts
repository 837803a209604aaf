// Colours of blocks by stack, line, module or category.
import type { Bands } from '../../api/payloads'
import { categoryColor, mix } from '../../lib/color'
import { HUES } from '../../lib/tokens'
import type { Theme } from '../surface'
import type { BlockPixels } from './layout'

export type BlockColoring = 'stack' | 'line' | 'module' | 'category'

const { grey, pale, stone, ...LIVELY } = HUES
const PALETTE = Object.values(LIVELY)
/** Stacks of one line, and lines beyond the palette, differ in it. */
const SHADES = 3
/** Shades of one colour, so that neighbouring blocks differ. */
const STRENGTHS = [1, 0.93, 0.86, 0.79]
/** The fractional parts of its multiples are evenly spread. */
const GOLDEN = (Math.sqrt(5) - 1) / 2
const EDGE = 0.4

/** An ImageData pixel: bytes are red, green, blue, alpha. */
export function pixelOf(hex: string): number {
  const value = Number.parseInt(hex.slice(1), 16)
  return ((255 << 24) | ((value & 255) << 16) | (value & 0xff00) | (value >> 16)) >>> 0
}

interface Look {
  fill: string
  pixels: readonly number[]
  edges: readonly number[]
}

const NO_STACK = '(no stack recorded)'
const NO_CATEGORY = '(no category recorded)'
const NO_MODULE = '(no module)'
const NOTHING = new Set([NO_STACK, NO_CATEGORY, NO_MODULE])

/** The line that asked for a block, in words. */
export const lineOf = (tile: Bands, block: number): string => tile.lines[tile.stack[block]] || NO_STACK

export const envelopeColor = (theme: Theme) => mix(stone, theme.panel, 0.45)

/** Place in STRENGTHS of a block, by its row. */
const strengthOf = (row: number) => Math.floor(((row * GOLDEN) % 1) * STRENGTHS.length)

/** Colour group per block: stack or category. */
const groupOf = (by: BlockColoring, tile: Bands): readonly number[] => (by === 'category' ? tile.category : tile.stack)

export interface ColorKeyEntry {
  label: string
  color: string
  /** Unknown stack, module or category. */
  isNothing: boolean
}

export const isPlaceholder = (label: string) => NOTHING.has(label)

/** A colour's label, its bytes over time, and one of its blocks. */
interface Area {
  label: string
  area: number
  /** Index in the tile of a block from the group's largest stack. */
  block: number
}

export function areasOf(colors: { by: BlockColoring }, tile: Bands, from: number, to: number): Area[] {
  // By stack or category, of which there are fewer than blocks.
  const group = groupOf(colors.by, tile)
  const areas: number[] = []
  const blocks: number[] = []
  for (let i = 0; i < tile.block.length; i++) {
    const columns = Math.min(tile.end[i], to) - Math.max(tile.first[i], from)
    if (columns <= 0) continue
    areas[group[i]] = (areas[group[i]] ?? 0) + columns * tile.width * tile.size_bytes[i]
    blocks[group[i]] = i
  }
  const found: Area[] = []
  areas.forEach((area, i) => {
    found.push({ label: labelOf(colors.by, tile, blocks[i]), area, block: blocks[i] })
  })
  return found
}

function labelOf(by: BlockColoring, tile: Bands, block: number): string {
  if (by === 'category') return tile.categories[tile.category[block]] || NO_CATEGORY
  if (by === 'module') return tile.modules[tile.stack[block]] || NO_MODULE
  return lineOf(tile, block)
}

export class BlockColors {
  readonly by: BlockColoring
  readonly theme: Theme
  private readonly looks = new Map<string, Look>()
  /** Labels by bytes over the whole history, then in order of appearance. Each hue is used once before any repeats. */
  private readonly order = new Map<string, number>()
  /** Stacks of each label, in order of appearance. */
  private readonly stacks = new Map<string, Map<number, number>>()

  /** `head`: the whole history. */
  constructor(by: BlockColoring, theme: Theme, head: Bands) {
    this.by = by
    this.theme = theme
    const sums = new Map<string, number>()
    for (const { label, area } of areasOf(this, head, 0, head.event.length))
      sums.set(label, (sums.get(label) ?? 0) + area)
    const labels = [...sums].sort(([, one], [, other]) => other - one).map(([label]) => label)
    for (const label of labels) if (!NOTHING.has(label)) this.order.set(label, this.order.size)
  }

  cssOf(tile: Bands, block: number): string {
    return this.lookOf(tile, block).fill
  }

  paintsOf(tile: Bands): BlockPixels {
    // A tile has many more blocks than stacks.
    const group = groupOf(this.by, tile)
    const looks: Look[] = []
    const lookOf = (block: number) => {
      looks[group[block]] ??= this.lookOf(tile, block)
      return looks[group[block]]
    }
    return {
      ground: pixelOf(this.theme.panel),
      rest: pixelOf(this.theme.idle),
      envelope: pixelOf(envelopeColor(this.theme)),
      fill: (block) => lookOf(block).pixels[strengthOf(tile.block[block])],
      edge: (block) => lookOf(block).edges[strengthOf(tile.block[block])],
    }
  }

  private lookOf(tile: Bands, block: number): Look {
    const label = labelOf(this.by, tile, block)
    const { hue, turn } = this.hueOf(label)
    const shade =
      (turn + (this.by === 'stack' ? this.ordinalOf(label, tile.stack_number[tile.stack[block]]) : 0)) % SHADES
    const key = `${shade} ${label}`
    let look = this.looks.get(key)
    if (!look) {
      const { ink, panel } = this.theme
      const fill = [hue, mix(hue, ink, 0.7), mix(hue, panel, 0.64)][shade]
      const fills = STRENGTHS.map((strength) => mix(fill, panel, strength))
      look = { fill, pixels: fills.map(pixelOf), edges: fills.map((one) => pixelOf(mix(one, panel, EDGE))) }
      this.looks.set(key, look)
    }
    return look
  }

  private hueOf(label: string): { hue: string; turn: number } {
    if (NOTHING.has(label)) return { hue: grey, turn: 0 }
    // The colour used elsewhere on the page.
    if (this.by === 'category') return { hue: categoryColor(label), turn: 0 }
    const at = this.order.get(label) ?? this.order.size
    this.order.set(label, at)
    return { hue: PALETTE[at % PALETTE.length], turn: Math.floor(at / PALETTE.length) }
  }

  private ordinalOf(label: string, stack: number): number {
    const stacks = this.stacks.get(label) ?? new Map<number, number>()
    this.stacks.set(label, stacks)
    const at = stacks.get(stack) ?? stacks.size
    stacks.set(stack, at)
    return at
  }
}
