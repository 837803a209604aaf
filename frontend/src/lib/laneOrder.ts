// Order of timeline lanes: pinned, moved, filtered.

export interface LaneName {
  id: string
  title: string
  subtitle: string
}

export interface Arrangement {
  pinned: readonly string[]
  /** Ids that were moved to the front of the others, in this order. */
  moved: readonly string[]
  /** Only lanes with this text in their names, and those that are pinned. */
  filter: string
  hidden: readonly string[]
}

/** Positions of the lanes in the order in which they are drawn, and how many of them are pinned. */
export function arrangeLanes(lanes: readonly LaneName[], wish: Arrangement): { order: number[]; pinned: number } {
  const place = new Map(lanes.map((lane, i) => [lane.id, i]))
  const known = (ids: readonly string[]) => ids.flatMap((id) => place.get(id) ?? [])
  const hidden = new Set(known(wish.hidden))
  const pinned = new Set(known(wish.pinned).filter((i) => !hidden.has(i)))
  const text = wish.filter.trim().toLowerCase()
  const fits = (i: number) => text === '' || `${lanes[i].title} ${lanes[i].subtitle}`.toLowerCase().includes(text)
  const rest = new Set([...known(wish.moved), ...lanes.keys()])
  return {
    order: [...pinned, ...[...rest].filter((i) => !pinned.has(i) && !hidden.has(i) && fits(i))],
    pinned: pinned.size,
  }
}

/** Ids of the lanes that are not pinned, in order. */
function restOf(lanes: readonly LaneName[], wish: Arrangement): string[] {
  const { order, pinned } = arrangeLanes(lanes, { ...wish, filter: '' })
  return order.slice(pinned).map((i) => lanes[i].id)
}

/** The order after one step up or down among the lanes that are not pinned. */
export function moveLane(lanes: readonly LaneName[], wish: Arrangement, id: string, by: -1 | 1): string[] {
  const ids = restOf(lanes, wish)
  const at = ids.indexOf(id)
  const to = at + by
  if (at < 0 || to < 0 || to >= ids.length) return [...wish.moved]
  return placeLane(lanes, wish, id, ids[by < 0 ? to : to + 1] ?? null)
}

/** The order after a lane was put before another one, or to the end, among the lanes that are not pinned. */
export function placeLane(lanes: readonly LaneName[], wish: Arrangement, id: string, before: string | null): string[] {
  const ids = restOf(lanes, { ...wish, hidden: [] }).filter((other) => other !== id)
  ids.splice(before === null ? ids.length : Math.max(0, ids.indexOf(before)), 0, id)
  // Lanes in natural order at the end need not be stored.
  const natural = lanes.map((lane) => lane.id).filter((other) => ids.includes(other))
  let end = ids.length
  while (end > 0 && natural[end - 1] === ids[end - 1]) end--
  return ids.slice(0, end)
}

/** The pinned lanes after one was put before another one, or to the end. */
export function placePinned(pinned: readonly string[], id: string, before: string | null): string[] {
  const ids = pinned.filter((other) => other !== id)
  const at = before === null ? -1 : ids.indexOf(before)
  ids.splice(at < 0 ? ids.length : at, 0, id)
  return ids
}

/** Ids as one text of the URL. They hold no commas after this. */
export const joinIds = (ids: Iterable<string>) => [...ids].map(encodeURIComponent).join(',')
export const splitIds = (text: string | undefined) =>
  (text ?? '')
    .split(',')
    .filter((id) => id !== '')
    .map((id) => {
      try {
        return decodeURIComponent(id)
      } catch {
        return id
      }
    })
