// The window that a link shows around an event (the same range as `range_around` in analysis/timeline_links.py).

/** Minimum margin in ns around a short event. */
const ROOM_NS = 500

/** The event takes half of the window. tests/around_cases.json tests the server's links too. */
export function eventWindow(start: number, dur: number): { start: number; end: number } {
  const room = Math.max(Math.floor(dur / 2), ROOM_NS)
  return { start: Math.max(0, Math.round(start - room)), end: Math.round(start + dur + room) }
}
