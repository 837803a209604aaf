// Tiles at hand, of whatever they are made: what is wanted is fetched in a few requests at a time, what was not seen for
// longest goes first.
import type { TileKey } from '../lib/tiles'

const MAX_BYTES = 96e6
const REQUESTS = 2
const TILES = 16
const RETRY_MS = 3000

export interface StoreEvents {
  /** New tiles are there, or the last one that was under way. */
  onChange(): void
  /** Tiles could not be had; null = they can again. */
  onProblem(error: unknown): void
}

/** Asks for tiles of one level; the answer may hold only the first of them. */
export type Fetch<Raw> = (level: number, tiles: readonly TileKey[], signal: AbortSignal) => Promise<Raw[]>

const keyOf = (level: number, group: number, number: number) => `${level} ${group} ${number}`
const textOf = (tile: TileKey) => keyOf(tile.level, tile.group, tile.number)

export abstract class TileCache<Raw, Kept> {
  private readonly tiles = new Map<string, Kept>()
  private readonly under = new Set<string>()
  private readonly abort = new AbortController()
  private wanted: readonly TileKey[] = []
  private bytes = 0
  private requests = 0
  private paused: ReturnType<typeof setTimeout> | undefined
  private readonly fetch: Fetch<Raw>
  private readonly events: StoreEvents

  constructor(fetch: Fetch<Raw>, events: StoreEvents) {
    this.fetch = fetch
    this.events = events
  }

  /** What is kept of what came. */
  protected abstract make(key: TileKey, raw: Raw): Kept

  protected abstract sizeOf(tile: Kept): number

  destroy(): void {
    this.abort.abort()
    clearTimeout(this.paused)
  }

  /** Whether something that is wanted is not there yet. */
  get busy(): boolean {
    return this.requests > 0
  }

  get(level: number, group: number, number: number): Kept | undefined {
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
      for (const [i, raw] of found.entries()) this.keep(tiles[i], raw)
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

  /** Keeps a tile that came, or that came in another way. */
  keep(key: TileKey, raw: Raw): void {
    const tile = this.make(key, raw)
    this.tiles.set(textOf(key), tile)
    this.bytes += this.sizeOf(tile)
    for (const [text, old] of this.tiles) {
      if (this.bytes <= MAX_BYTES) break
      this.tiles.delete(text)
      this.bytes -= this.sizeOf(old)
    }
  }
}
