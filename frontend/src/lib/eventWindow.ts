// The part of the axis that the timeline shows for an event: the one rule of all links into it (in_timeline.py is its twin).

/** Least room on each side, in ns: what is around a short event tells what it is. */
const ROOM_NS = 500

/** The event takes half of the picture. tests/around_cases.json says the same for the links of the server. */
export function eventWindow(start: number, dur: number): { start: number; end: number } {
  const room = Math.max(Math.floor(dur / 2), ROOM_NS)
  return { start: Math.max(0, Math.round(start - room)), end: Math.round(start + dur + room) }
}
