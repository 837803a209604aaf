// Links that open a view with a state.
import type { Link } from '../api/payloads'
import { eventWindow } from '../lib/eventWindow'
import { decodeHit, encodeHit, rowState } from './rowHighlight'
import { joinList, splitList, type Values } from './tensorboardHash'
import { defaultView, lastStateOf, openView, readRoute, setRoute } from './urlState'

export function followLink(link: Link): void {
  const route = readRoute()
  if (link.view !== (route.view ?? defaultView())) {
    openView(link.view, link.params)
    return
  }
  const { where, ...rest } = link.params
  // The same filter again removes it: a donut's slice is a switch.
  const now = splitList(route.where)
  const change: Record<string, string> =
    where === undefined
      ? {}
      : { where: now.includes(where) ? joinList(now.filter((item) => item !== where)) : where, row: '' }
  setRoute({ ...rest, ...change }, true)
}

export function timelineState(event: number | null, start: number, dur: number): Values {
  const shown = eventWindow(start, dur)
  return {
    ...(event === null ? {} : { event: String(event) }),
    start_ns: String(shown.start),
    end_ns: String(shown.end),
  }
}

export function showInTimeline(event: number | null, start: number, dur: number, more: Values = {}): void {
  openView('timeline', { ...timelineState(event, start, dur), ...more })
}

/** State that shows stream gaps with causes. */
export const GAPS: Values = { gaps: '1' }

/** State that shows the critical path. */
export const PATH: Values = { path: '1' }

/** State that shows one function, opened. */
export const functionState = (name: string): Values => ({ form: 'functions', row: name, search: name })

const NO_HITS = { hit: '', from_view: '', from_group: '', from_form: '', row: '' }

/** Opens the timeline as left, with a row's events highlighted; `row` is the way back. */
export function showHits(where: readonly string[], row: string): void {
  const { view = defaultView(), group = '', form = '' } = readRoute()
  const hit = { ...NO_HITS, hit: encodeHit(where), search: '' }
  if (view === 'timeline') {
    setRoute(hit, true)
    return
  }
  const { start_ns = '', end_ns = '' } = lastStateOf('timeline') ?? {}
  openView('timeline', { ...hit, start_ns, end_ns, from_view: view, from_group: group, from_form: form, row })
}

export const clearHits = () => setRoute(NO_HITS, true)

/** Back to the row, in its view as left, else alone. */
export function showTable(): void {
  const { hit, from_view: view = defaultView(), from_group: group = '', from_form: form = '', row = '' } = readRoute()
  const left = lastStateOf(view)
  const state = left ? { ...left, row } : rowState(view, form, group, decodeHit(hit), row)
  openView(view, { ...state, group, form })
}
