// The tiles at hand: what is wanted is fetched in a few requests at a time, what was not seen for longest goes first.
import type { FetchTiles, TileColumns, TileKey } from '../lib/tiles'

const MAX_BYTES = 96e6
const REQUESTS = 2
const TILES = 16
const RETRY_MS = 3000
/** Of one item in all columns. */
const ITEM_BYTES = 50

/** A tile ready to be drawn: `name` and `module` number the store's own lists. */
export interface Tile extends Omit<TileColumns, 'names' | 'modules'> {
  /** Items of line l of the group stand from `ranges[l]` to `ranges[l + 1]`. */
  ranges: Int32Array
}

export interface StoreEvents {
  /** New tiles are there, or the last one that was under way. */
  onChange(): void
  /** Tiles could not be had; null = they can again. */
  onProblem(error: unknown): void
}

const keyOf = (level: number, group: number, number: number) => `${level} ${group} ${number}`

export class TileStore {
  readonly names = new Texts()
  readonly modules = new Texts()
  private readonly tiles = new Map<string, Tile>()
  private readonly under = new Set<string>()
  private readonly abort = new AbortController()
  private wanted: readonly TileKey[] = []
  private bytes = 0
  private requests = 0
  private paused: ReturnType<typeof setTimeout> | undefined
  private readonly fetch: FetchTiles
  private readonly rangesOf: (group: number, columns: TileColumns) => Int32Array
  private readonly events: StoreEvents

  constructor(fetch: FetchTiles, rangesOf: (group: number, columns: TileColumns) => Int32Array, events: StoreEvents) {
    this.fetch = fetch
    this.rangesOf = rangesOf
    this.events = events
  }

  destroy(): void {
    this.abort.abort()
    clearTimeout(this.paused)
  }

  /** Whether something that is wanted is not there yet. */
  get busy(): boolean {
    return this.requests > 0
  }

  get(level: number, group: number, number: number): Tile | undefined {
    const key = keyOf(level, group, number)
    const tile = this.tiles.get(key)
    if (tile) {
      // A Map keeps the order of insertion: the last used stands last.
      this.tiles.delete(key)
      this.tiles.set(key, tile)
    }
    return tile
  }

  has(tile: TileKey): boolean {
    return this.tiles.has(keyOf(tile.level, tile.group, tile.number))
  }

  /** What is wanted now, most wanted first; what was wanted before and has not been asked for is forgotten. */
  want(keys: readonly TileKey[]): void {
    this.wanted = [...new Map(keys.map((tile) => [textOf(tile), tile])).values()]
    this.pump()
  }

  private pump(): void {
    while (this.requests < REQUESTS && this.paused === undefined) {
      const missing = this.wanted.filter((tile) => !this.has(tile) && !this.under.has(textOf(tile)))
      if (missing.length === 0) return
      // What is spread over the requests comes sooner.
      const level = missing.filter((tile) => tile.level === missing[0].level)
      this.ask(level.slice(0, Math.min(TILES, Math.max(2, Math.ceil(level.length / (REQUESTS - this.requests))))))
    }
  }

  private async ask(tiles: TileKey[]): Promise<void> {
    this.requests++
    for (const tile of tiles) this.under.add(textOf(tile))
    try {
      const found = await this.fetch(tiles[0].level, tiles, this.abort.signal)
      if (found.length === 0) throw new Error('The server sent none of the tiles.')
      for (const [i, columns] of found.entries()) this.keep(tiles[i], columns)
      // While it waits after a failure of another request, that one is not over.
      if (this.paused === undefined) this.events.onProblem(null)
    } catch (error) {
      if (this.abort.signal.aborted) return
      this.events.onProblem(error)
      this.paused ??= setTimeout(() => {
        this.paused = undefined
        this.pump()
        // Nothing that is wanted now is missing.
        if (!this.busy) this.events.onProblem(null)
      }, RETRY_MS)
    } finally {
      this.requests--
      for (const tile of tiles) this.under.delete(textOf(tile))
    }
    this.pump()
    this.events.onChange()
  }

  private keep(key: TileKey, columns: TileColumns): void {
    const { names, modules, ...rest } = columns
    const tile: Tile = {
      ...rest,
      name: this.names.number(columns.name, names),
      module: this.modules.number(columns.module, modules),
      ranges: this.rangesOf(key.group, columns),
    }
    this.tiles.set(textOf(key), tile)
    this.bytes += sizeOf(tile)
    for (const [text, old] of this.tiles) {
      if (this.bytes <= MAX_BYTES) break
      this.tiles.delete(text)
      this.bytes -= sizeOf(old)
    }
  }
}

const textOf = (tile: TileKey) => keyOf(tile.level, tile.group, tile.number)
const sizeOf = (tile: Tile) => tile.start.length * ITEM_BYTES + tile.ranges.byteLength + 500

/** Texts by number; each stands once, however many tiles hold it. */
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
