// Where the sections of ranks stand below each other, and which of them are in sight.

/** Height of the head of a section: its name, and beside it how busy its devices are. */
export const SECTION = 30
/** Of more sections none is open by itself. */
export const OPEN = 8
/** Sections are open by themselves as far as they fit into so many pixels, this many at least. The window's own height would make one link two pictures. */
const ROOM = 560
const LEAST = 2
/** Pixels beyond the edge in which a section is made ready. */
const NEAR = 120

export interface PlacedSection {
  /** Pixels from the top of all sections. */
  top: number
  height: number
}

/** Sections from top to bottom: each has its head, and its tracks below it where it is open. */
export function stackSections(tracks: readonly number[]): { places: PlacedSection[]; content: number } {
  let content = 0
  const places = tracks.map((height) => {
    const placed = { top: content, height: SECTION + height }
    content += placed.height
    return placed
  })
  return { places, content }
}

/** First and one after the last of the sections that touch what is in sight, by `near` pixels at least. */
export function visibleRange(
  places: readonly PlacedSection[],
  scroll: number,
  room: number,
  near = 0,
): [number, number] {
  const first = firstEndingAfter(places, scroll - near)
  let last = first
  while (last < places.length && places[last].top < scroll + room + near) last++
  return [first, last]
}

/** Sections that may soon be in sight. */
export const nearbyRange = (places: readonly PlacedSection[], scroll: number, room: number) =>
  visibleRange(places, scroll, room, NEAR)

function firstEndingAfter(places: readonly PlacedSection[], y: number): number {
  let [low, high] = [0, places.length]
  while (low < high) {
    const mid = (low + high) >> 1
    if (places[mid].top + places[mid].height <= y) low = mid + 1
    else high = mid
  }
  return low
}

/** Which section is at a height; -1 = none. */
export function sectionAt(places: readonly PlacedSection[], y: number): number {
  const found = y < 0 ? -1 : firstEndingAfter(places, y)
  return found < places.length ? found : -1
}

/** How many sections, from the first on, are open by themselves; `tracks`: how high those of one stand. */
export function defaultOpenCount(count: number, tracks: number): number {
  if (count > OPEN) return 0
  const fitting = Math.floor((ROOM - count * SECTION) / Math.max(1, tracks))
  return Math.min(count, Math.max(LEAST, fitting))
}

/** How the URL says that a section is open, or closed: it stays so whatever it would be by itself among more sections. */
const stateId = (key: string, isOpen: boolean) => `${key}.${isOpen ? 'open' : 'closed'}`

/** The sections that are open: as `turned` says of each, else the first ones. In the order of choice: another order opens none. */
export const openSections = (
  keys: readonly string[],
  first: number,
  turned: ReadonlySet<string>,
): ReadonlySet<string> =>
  new Set(keys.filter((key, at) => turned.has(stateId(key, true)) || (at < first && !turned.has(stateId(key, false)))))

/** `turned` once a section was opened or closed. */
export function toggleSection(turned: ReadonlySet<string>, key: string, isOpen: boolean): Set<string> {
  const next = new Set(turned)
  next.delete(stateId(key, !isOpen))
  return next.add(stateId(key, isOpen))
}
