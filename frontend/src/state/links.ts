// Following a link that the server sent: a view and the URL state to open it with.
import type { Link } from '../api/payloads'
import { joinList, splitList } from './hash'
import { DEFAULT_VIEW, openView, readRoute, setRoute } from './route'

export function followLink(link: Link): void {
  const route = readRoute()
  if (link.view !== (route.view ?? DEFAULT_VIEW)) {
    openView(link.view, link.params)
    return
  }
  const { where, ...rest } = link.params
  // The same filter again takes it away: a slice of a donut is a switch.
  const now = splitList(route.where)
  const change: Record<string, string> =
    where === undefined
      ? {}
      : { where: now.includes(where) ? joinList(now.filter((item) => item !== where)) : where, row: '' }
  setRoute({ ...rest, ...change }, true)
}

/** Opens the timeline around an event, with some room on both sides. */
export function showInTimeline(event: number | null, start: number, dur: number): void {
  const room = Math.max(dur * 4, 1000)
  openView('timeline', {
    ...(event === null ? {} : { event: String(event) }),
    start_ns: String(Math.max(0, Math.round(start - room))),
    end_ns: String(Math.round(start + dur + room)),
  })
}
