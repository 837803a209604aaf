// Vertical positions of rank sections.

export const SECTION = 30
/** Maximum number of sections that open by default. */
export const OPEN = 8
/** Default sections open while they fit into these pixels. Fixed, so that a link looks the same in every window. */
const ROOM = 560
const LEAST = 2
/** Pixels beyond the edge in which a section is made ready. */
const NEAR = 120

export interface PlacedSection {
  top: number
  height: number
}

/** Sections from top to bottom: head, then tracks if open. */
export function stackSections(tracks: readonly number[]): { places: PlacedSection[]; content: number } {
  let content = 0
  const places = tracks.map((height) => {
    const placed = { top: content, height: SECTION + height }
    content += placed.height
    return placed
  })
  return { places, content }
}

/** Index range of visible sections, extended by `near` pixels. */
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

/** Index of the section at a height; -1 = none. */
export function sectionAt(places: readonly PlacedSection[], y: number): number {
  const found = y < 0 ? -1 : firstEndingAfter(places, y)
  return found < places.length ? found : -1
}

/** How many sections are open by default; `tracks`: the height of one. */
export function defaultOpenCount(count: number, tracks: number): number {
  if (count > OPEN) return 0
  const fitting = Math.floor((ROOM - count * SECTION) / Math.max(1, tracks))
  return Math.min(count, Math.max(LEAST, fitting))
}

/** An explicit open or closed state in the URL; it survives adding ranks. */
const stateId = (key: string, isOpen: boolean) => `${key}.${isOpen ? 'open' : 'closed'}`

/** Open sections: explicit states, else the first ones in order of selection. */
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
