// A cache of tiles: batched requests, least recently used dropped first.
import type { TileKey } from '../lib/tiles'

const MAX_BYTES = 96e6
/** Under way at once, of one cache: a worker answers one after the other. */
const REQUESTS = 2
const TILES = 16
const RETRY_MS = 3000

export interface StoreEvents {
  /** New tiles are there, or the last one that was under way. */
  onChange(): void
  /** A request failed; null = requests succeed again. */
  onProblem(error: unknown): void
}

/** Asks for tiles of one level; the answer may hold only the first of them. */
type Fetch<Raw> = (level: number, tiles: readonly TileKey[], signal: AbortSignal) => Promise<Raw[]>

const keyOf = (level: number, group: number, number: number) => `${level} ${group} ${number}`
const textOf = (tile: TileKey) => keyOf(tile.level, tile.group, tile.number)

/** The part of a cache that a budget uses. */
interface Member {
  /** When its tiles were wanted last. */
  readonly wantedAt: number
  /** Drops the least recently used tile; returns its bytes, 0 = no tile. */
  drop(): number
  /** Requests missing tiles within the budget. */
  pump(): void
}

/** The shared memory and request limit of several caches. */
export class Budget {
  private readonly members = new Set<Member>()
  private readonly bytes: number
  private readonly requests: number
  private used = 0
  private under = 0
  private clock = 0

  constructor(bytes = MAX_BYTES, requests = REQUESTS) {
    this.bytes = bytes
    this.requests = requests
  }

  get isFree(): boolean {
    return this.under < this.requests
  }

  get kept(): number {
    return this.used
  }

  join(member: Member): void {
    this.members.add(member)
  }

  leave(member: Member, bytes: number, requests: number): void {
    this.members.delete(member)
    this.used -= bytes
    this.under -= requests
    this.wake()
  }

  tick(): number {
    this.clock++
    return this.clock
  }

  begin(): void {
    this.under++
  }

  /** A request ended: the cache with the latest demand may send the next one. */
  end(): void {
    this.under--
    this.wake()
  }

  /** Accounts for new bytes and drops the least recently used tiles of inactive caches. */
  keep(bytes: number): void {
    this.used += bytes
    if (this.used <= this.bytes) return
    for (const member of this.inOrder()) {
      while (this.used > this.bytes) {
        const dropped = member.drop()
        if (dropped === 0) break
        this.used -= dropped
      }
    }
  }

  private wake(): void {
    for (const member of this.inOrder().reverse()) {
      if (!this.isFree) return
      member.pump()
    }
  }

  private inOrder(): Member[] {
    return [...this.members].sort((one, other) => one.wantedAt - other.wantedAt)
  }
}

export abstract class TileCache<Raw, Kept> {
  private readonly tiles = new Map<string, Kept>()
  private readonly under = new Set<string>()
  private readonly abort = new AbortController()
  private wanted: readonly TileKey[] = []
  private bytes = 0
  private requests = 0
  /** Changes whenever a tile is added or dropped; older drawings are outdated. */
  version = 0
  wantedAt = 0
  private paused: ReturnType<typeof setTimeout> | undefined
  private readonly fetch: Fetch<Raw>
  private readonly events: StoreEvents
  private readonly budget: Budget

  constructor(fetch: Fetch<Raw>, events: StoreEvents, budget = new Budget()) {
    this.fetch = fetch
    this.events = events
    this.budget = budget
    budget.join(this)
  }

  protected abstract make(key: TileKey, raw: Raw): Kept

  protected abstract sizeOf(tile: Kept): number

  destroy(): void {
    if (this.abort.signal.aborted) return
    this.abort.abort()
    clearTimeout(this.paused)
    this.budget.leave(this, this.bytes, this.requests)
  }

  /** Whether something that is wanted is not there yet. */
  get busy(): boolean {
    return this.requests > 0
  }

  get(level: number, group: number, number: number): Kept | undefined {
    const key = keyOf(level, group, number)
    const tile = this.tiles.get(key)
    if (tile) {
      // A Map keeps insertion order, so the last used is last.
      this.tiles.delete(key)
      this.tiles.set(key, tile)
    }
    return tile
  }

  has(tile: TileKey): boolean {
    return this.tiles.has(keyOf(tile.level, tile.group, tile.number))
  }

  /** Wanted tiles, most important first; replaces the earlier list. */
  want(keys: readonly TileKey[]): void {
    this.wanted = [...new Map(keys.map((tile) => [textOf(tile), tile])).values()]
    this.wantedAt = this.budget.tick()
    this.pump()
  }

  /** Marks the last wanted tiles as still visible. */
  stay(): void {
    this.wantedAt = this.budget.tick()
  }

  /** Cancels all demand; loaded tiles stay cached. */
  rest(): void {
    this.wanted = []
  }

  pump(): void {
    if (this.abort.signal.aborted) return
    while (this.requests < REQUESTS && this.budget.isFree && this.paused === undefined) {
      const missing = this.wanted.filter((tile) => !this.has(tile) && !this.under.has(textOf(tile)))
      if (missing.length === 0) return
      // Several requests in parallel answer sooner.
      const level = missing.filter((tile) => tile.level === missing[0].level)
      this.ask(level.slice(0, Math.min(TILES, Math.max(2, Math.ceil(level.length / (REQUESTS - this.requests))))))
    }
  }

  private async ask(tiles: TileKey[]): Promise<void> {
    this.requests++
    this.budget.begin()
    for (const tile of tiles) this.under.add(textOf(tile))
    try {
      const found = await this.fetch(tiles[0].level, tiles, this.abort.signal)
      if (found.length === 0) throw new Error('The server sent no timeline data.')
      for (const [i, raw] of found.entries()) this.keep(tiles[i], raw)
      // Still pending while it waits after another request's failure.
      if (this.paused === undefined) this.events.onProblem(null)
    } catch (error) {
      if (this.abort.signal.aborted) return
      this.events.onProblem(error)
      this.paused ??= setTimeout(() => {
        this.paused = undefined
        this.pump()
        // Nothing wanted is missing.
        if (!this.busy) this.events.onProblem(null)
      }, RETRY_MS)
    } finally {
      this.requests--
      for (const tile of tiles) this.under.delete(textOf(tile))
      // A closed cache has released its requests.
      if (!this.abort.signal.aborted) this.budget.end()
    }
    this.pump()
    this.events.onChange()
  }

  /** Keeps a tile that came, or that came in another way. */
  keep(key: TileKey, raw: Raw): void {
    if (this.abort.signal.aborted) return
    const tile = this.make(key, raw)
    const text = textOf(key)
    const old = this.tiles.get(text)
    // Duplicates are stored once, as last used.
    const bytes = this.sizeOf(tile) - (old === undefined ? 0 : this.sizeOf(old))
    this.tiles.delete(text)
    this.tiles.set(text, tile)
    this.version++
    this.bytes += bytes
    this.budget.keep(bytes)
  }

  drop(): number {
    for (const [text, old] of this.tiles) {
      this.tiles.delete(text)
      this.version++
      const bytes = this.sizeOf(old)
      this.bytes -= bytes
      return bytes
    }
    return 0
  }
}
