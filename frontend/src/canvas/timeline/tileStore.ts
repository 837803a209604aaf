// Loaded timeline tiles.
import type { FetchTiles, TileColumns, TileKey } from '../../lib/tiles'
import { type Budget, type StoreEvents, TileCache } from '../tileCache'

/** Bytes of one item in all columns. */
const ITEM_BYTES = 50

/** A tile ready to be drawn: `name` and `module` number the store's own lists. */
export interface Tile extends Omit<TileColumns, 'names' | 'modules'> {
  /** Items of line l of the group are at `ranges[l]` to `ranges[l + 1]`. */
  ranges: Int32Array
}

export class TileStore extends TileCache<TileColumns, Tile> {
  readonly names = new Texts()
  readonly modules = new Texts()
  private readonly rangesOf: (group: number, columns: TileColumns) => Int32Array

  constructor(
    fetch: FetchTiles,
    rangesOf: (group: number, columns: TileColumns) => Int32Array,
    events: StoreEvents,
    budget?: Budget,
  ) {
    super(fetch, events, budget)
    this.rangesOf = rangesOf
  }

  protected make(key: TileKey, columns: TileColumns): Tile {
    const { names, modules, ...rest } = columns
    return {
      ...rest,
      name: this.names.number(columns.name, names),
      module: this.modules.number(columns.module, modules),
      ranges: this.rangesOf(key.group, columns),
    }
  }

  protected sizeOf(tile: Tile): number {
    return tile.start.length * ITEM_BYTES + tile.ranges.byteLength + 500
  }
}

export class Texts {
  readonly list: string[] = []
  private readonly known = new Map<string, number>()

  /** Numbers of this list for those of another one. */
  number(numbers: Int32Array, texts: readonly string[]): Int32Array {
    const mine = texts.map((text) => {
      let number = this.known.get(text)
      if (number === undefined) {
        number = this.list.push(text) - 1
        this.known.set(text, number)
      }
      return number
    })
    return numbers.map((i) => mine[i])
  }
}
