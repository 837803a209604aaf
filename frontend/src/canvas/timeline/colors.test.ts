import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { categoryColor } from '../../lib/color'
import type { KernelClasses } from '../../lib/kernelClasses'
import { DARK, LIGHT } from '../surface'
import { Colors, Strip } from './colors'
import type { Item } from './model'
import { type Tile, TileStore } from './tileStore'

const KINDS = ['unknown', 'operator', 'kernel']
const HEAD = { categories: KINDS, kernels: [] }
const events = { onChange: () => {}, onProblem: () => {} }

/** A store that met the names in this order, and a tile with one item of each. */
function known(names: string[]): { store: TileStore; tile: Tile } {
  const store = new TileStore(
    async () => [],
    () => new Int32Array(1),
    events,
  )
  const name = store.names.number(
    Int32Array.from(names, (_, i) => i),
    names,
  )
  const module = store.modules.number(
    Int32Array.from(names, (_, i) => i),
    names,
  )
  return { store, tile: { name, module, category: Uint8Array.from(names, () => 2) } as Tile }
}

describe('colours', () => {
  test('of kinds are the categories', () => {
    const { store, tile } = known(['a'])
    expect(new Colors(LIGHT, 'kind', HEAD, store).slot(tile, 0)).toBe(2)
  })

  test.each(['name', 'module'] as const)('of a %s do not depend on what else was met before', (by) => {
    const names = ['aten::mm', 'aten::add', 'gemm', 'conv']
    const [one, other] = [known(names), known([...names].reverse())]
    const slots = (of: typeof one) => {
      const colors = new Colors(LIGHT, by, HEAD, of.store)
      return names.map((_, i) => colors.slot(of.tile, i))
    }
    expect(slots(other)).toEqual(slots(one).reverse())
    expect(new Set(slots(one)).size).toBeGreaterThan(1)
  })

  test('kernels by name: variants of one kernel alike, other events by kind, none like a copy', () => {
    const names = ['void k<1>(int)', 'void k<2>(int)', 'other', ...Array.from({ length: 40 }, (_, i) => `kernel_${i}`)]
    const { store, tile } = known(names)
    tile.category[2] = 1
    const colors = new Colors(LIGHT, 'kernel', HEAD, store)
    expect(colors.slot(tile, 0)).toBe(colors.slot(tile, 1))
    expect(colors.slot(tile, 2)).toBe(1)
    const fills = names.flatMap((_, i) => (i === 2 ? [] : [colors.paint(colors.slot(tile, i), 1).fill]))
    expect(fills).not.toContain(categoryColor('memcpy'))
    expect(fills).not.toContain(categoryColor('communication'))
    expect(new Set(fills).size).toBeGreaterThan(8)
    const item = { category: 'kernel', name: names[3], module: '' } as Item
    expect(colors.of(item)).toBe(fills[2])
  })

  test('names of a legend have different colours and keep them', () => {
    const names = Array.from({ length: 30 }, (_, i) => `kernel_${i}`)
    const { store, tile } = known(names)
    const colors = new Colors(LIGHT, 'name', HEAD, store)
    const keys = names.slice(0, 12).map((name) => `=${name}`)
    const drawn = (of: Colors, i: number) => of.paint(of.slot(tile, i), 1).fill
    drawn(colors, 0)
    expect(colors.distinguish(keys)).toBe(true)
    const fills = keys.map((key) => colors.ofEntry(key))
    expect(new Set(fills).size).toBe(12)
    expect(fills[0]).toBe(drawn(colors, 0))
    // Panned: one name goes, another one comes.
    colors.distinguish([`=${names[20]}`, ...keys.slice(1)])
    expect(keys.slice(1).map((key) => colors.ofEntry(key))).toEqual(fills.slice(1))
    expect(fills.slice(1)).not.toContain(drawn(colors, 20))
    expect(colors.distinguish(keys.slice(1))).toBe(false)
    // Another theme or filter keeps them too.
    const next = new Colors(LIGHT, 'name', HEAD, store, null, undefined, colors)
    expect(drawn(next, 20)).toBe(drawn(colors, 20))
  })

  test('the longest kernels have different colours, whatever was seen first', () => {
    const names = Array.from({ length: 30 }, (_, i) => `kernel_${i}`)
    const head = { categories: KINDS, kernels: names.slice(0, 12).map((name) => `void ${name}<1>(int)`) }
    const drawn = (seen: string[], kernels = head.kernels) => {
      const { store, tile } = known(seen)
      const colors = new Colors(LIGHT, 'kernel', { ...head, kernels }, store)
      expect(colors.distinguish(seen.map((name) => `=${name}`))).toBe(false)
      return names.map((name) => colors.paint(colors.slot(tile, seen.indexOf(name)), 1).fill)
    }
    const fills = drawn(names)
    expect(new Set(fills.slice(0, 12)).size).toBe(12)
    expect(fills).not.toContain(categoryColor('operator'))
    expect(drawn([...names].reverse(), [...head.kernels].reverse())).toEqual(fills)
  })

  test('entries of the legend hide their events', () => {
    const { store, tile } = known(['void k<1>(int)', 'aten::mm', 'late'])
    tile.category[1] = 1
    const hides = (by: 'kernel' | 'kind' | 'class' | 'name', ...keys: string[]) => {
      const colors = new Colors(LIGHT, by, HEAD, store, null, new Set(keys))
      const found = [0, 1, 2].map((i) => colors.hides(tile, i))
      for (const i of [0, 1, 2]) {
        const item = { category: KINDS[tile.category[i]], name: store.names.list[i], module: '' }
        expect(colors.hidesItem(item)).toBe(found[i])
      }
      return found
    }
    expect(hides('kind', 'operator')).toEqual([false, true, false])
    expect(hides('kernel', '=k')).toEqual([true, false, false])
    expect(hides('kernel', 'operator')).toEqual([false, true, false])
    expect(hides('name', '=late')).toEqual([false, false, true])
    expect(hides('class', 'none')).toEqual([true, true, true])
    expect(hides('kind')).toEqual([false, false, false])
  })

  test('what has no module has a colour of its own', () => {
    const { store, tile } = known(['', 'Linear_0', 'Linear_1', 'ReLU_0'])
    const colors = new Colors(LIGHT, 'module', HEAD, store)
    const [none, ...others] = [0, 1, 2, 3].map((i) => colors.slot(tile, i))
    expect(others).not.toContain(none)
  })

  test('a pixel is the fill, opaque, in the order of bytes of an ImageData', () => {
    for (const theme of [LIGHT, DARK]) {
      const { fill, pixel } = new Colors(theme, 'kind', HEAD, known([]).store).paint(2, 1)
      const [r, g, b, a] = new Uint8Array(Uint32Array.of(pixel).buffer)
      expect(`#${[r, g, b].map((part) => part.toString(16).padStart(2, '0')).join('')}`).toBe(fill)
      expect(a).toBe(255)
    }
  })

  test('of a class are those of its donut, whatever else stands for the name of the kernel', () => {
    const { store, tile } = known(['gemm', 'gemm', 'nccl', 'Memcpy', 'gemm', 'late'])
    const kinds = ['unknown', 'operator', 'kernel', 'memcpy', 'communication']
    tile.category = Uint8Array.of(2, 1, 4, 3, 4, 2)
    const classes: KernelClasses = new Map([
      ['gemm', { key: 'gemm', title: 'GEMM' }],
      ['nccl', { key: 'communication', title: 'Communication' }],
    ])
    const colors = new Colors(LIGHT, 'class', { categories: kinds, kernels: [] }, store, classes)
    const looks = tile.category.length
    const said = Array.from({ length: looks }, (_, i) => colors.legend(colors.meaning(tile, i)))
    expect(said.map(({ label }) => label)).toEqual(['GEMM', 'no class', 'Communication', 'Copy', 'GEMM', 'no class'])
    expect(said.map(({ isRest }) => isRest)).toEqual([false, true, false, false, false, true])
    for (const [i, key] of ['gemm', '', 'communication', 'copy', 'gemm', ''].entries()) {
      const { fill } = colors.paint(colors.slot(tile, i), 1)
      if (key !== '') expect(fill).toBe(categoryColor(key))
      expect(said[i].color).toBe(fill)
      const item = { category: kinds[tile.category[i]], name: store.names.list[tile.name[i]], module: '' } as Item
      expect(colors.of(item)).toBe(fill)
    }
    expect(
      new Colors(LIGHT, 'class', { categories: kinds, kernels: [] }, store).legend(colors.meaning(tile, 1)).label,
    ).toBe('no class')
  })

  test('weak is nearer to the panel than strong, and never nothing', () => {
    const colors = new Colors(LIGHT, 'kind', HEAD, known([]).store)
    expect(colors.paint(2, 0).fill).toBe(colors.paint(2, 1 / 8).fill)
    expect(colors.paint(2, 0.15).fill).not.toBe(colors.paint(2, 1).fill)
  })
})

describe('the strip of narrow items', () => {
  // Node has neither: of an image only its bytes matter here.
  const images: { data: Uint8ClampedArray; width: number; height: number }[] = []
  beforeEach(() => {
    vi.stubGlobal('OffscreenCanvas', class {})
    vi.stubGlobal(
      'ImageData',
      class {
        readonly data: Uint8ClampedArray
        constructor(
          readonly width: number,
          readonly height: number,
        ) {
          this.data = new Uint8ClampedArray(width * height * 4)
          images.push(this)
        }
      },
    )
  })
  afterEach(() => {
    vi.unstubAllGlobals()
    images.length = 0
  })
  const row = (number: number) => {
    const { data, width } = images[images.length - 1]
    return [...new Uint32Array(data.buffer).subarray(number * width, (number + 1) * width)]
  }

  test('an item has at least a pixel, and what stands there stays', () => {
    const strip = new Strip()
    strip.begin(6, 2)
    const [first, second] = [strip.row(0), strip.row(17)]
    strip.put(first, 1, 1, 7)
    strip.put(first, 1, 3, 8)
    strip.put(second, 5, 5, 9)
    expect(row(first)).toEqual([0, 7, 8, 0, 0, 0])
    expect(row(second)).toEqual([0, 0, 0, 0, 0, 9])
  })

  test('what lies outside does not run into the rows beside it', () => {
    const strip = new Strip()
    strip.begin(4, 3)
    strip.row(0)
    const middle = strip.row(17)
    strip.put(middle, -5, 1, 7)
    strip.put(middle, 3, 99, 8)
    strip.put(middle, -9, -8, 9)
    strip.put(middle, 4, 5, 9)
    expect([row(0), row(1), row(2)]).toEqual([
      [0, 0, 0, 0],
      [7, 0, 0, 8],
      [0, 0, 0, 0],
    ])
  })

  test('it begins empty, in the same image while that is large enough', () => {
    const strip = new Strip()
    strip.begin(4, 1)
    strip.put(strip.row(0), 0, 4, 7)
    strip.begin(4, 2)
    expect(strip.row(0)).toBe(0)
    expect(row(0)).toEqual([0, 0, 0, 0])
    expect(images.length).toBe(1)
    strip.begin(4, 999)
    strip.begin(5, 1)
    expect(images.length).toBe(3)
  })
})
