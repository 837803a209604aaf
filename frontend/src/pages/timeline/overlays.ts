// Timeline overlays: arrows, gaps, charts, search hits.

import { useCallback, useEffect, useMemo, useRef, useState } from 'react'
import { getTable, getView, type Query } from '../../api/client'
import type { Counters, Flows, Table, View } from '../../api/payloads'
import { scaleOf } from '../../canvas/timeline/counters'
import type { Overlays } from '../../canvas/timeline/engine'
import { type Spot, spotOfRow } from '../../canvas/timeline/model'
import { type Arrow, type Gap, type Point, topLevelGaps } from '../../canvas/timeline/scene'
import type { Range } from '../../canvas/viewport'
import { format } from '../../lib/format'
import { isPlainSearch, matcher, parseSearch } from '../../lib/search'
import type { Row } from '../../lib/tableRows'
import { numberOf, payloadByName } from '../../parts/payloadByName'
import { readBookmarks } from '../../state/bookmarks'
import { useView, whenReady } from '../../state/data'
import { decodeHit } from '../../state/rowHighlight'
import { useTurns } from '../../state/turns'
import { readRoute, setRoute, useRoute } from '../../state/urlState'
import { usePath } from './pathMarks'

const HITS = 1000
const GAPS = 500
/** More arrows of a window are not drawn: they would hide the events. */
const ARROWS = 150
/** Gaps of fewer pixels are not asked for. */
const GAP_PIXELS = 8
const PIXELS = 1200
const MAIN = ['utilization', 'queue_depth', 'allocated']
const CHART_COLOR: Record<string, string> = {
  utilization: 'kernel',
  sm_efficiency: 'communication',
  queue_depth: 'runtime',
  stream_queue_depth: 'runtime',
  allocated: 'module',
  reserved: 'annotation',
  recorded: 'python',
}

export interface TimelineOverlays {
  extras: Overlays
  selected: Spot | null
  /** Charts and the selected event are loaded, so tracks no longer move. */
  isPlaced: boolean
  searchHits: {
    total: number | null
    inSight: number | null
    totalNs: number
    /** Null without steps. */
    perStep: { events: number; ns: number } | null
    position: number | null
    /** Why nothing can be found. */
    problem: string | null
  } | null
  /** Names of the hits of a query that the page cannot read; null without one. */
  matches: ((name: string) => boolean) | null
  /** Notes about overlays that are too many to draw. */
  notes: string[]
  go(by: -1 | 1): void
}

interface PathOverlay {
  goPath(by: -1 | 1): void
}

/** `reveal` brings a hit into sight; `drawn`: the events are there. */
export function useOverlays(
  profile: Query,
  view: Range,
  event: number | null,
  reveal: (spot: Spot) => void,
  drawn: boolean,
  hasDevices: boolean,
  steps: Overlays['steps'],
  failures: Overlays['failures'],
): TimelineOverlays & PathOverlay {
  const route = useRoute()
  const window: Query = useMemo(() => ({ ...profile, start_ns: view.start, end_ns: view.end }), [profile, view])
  const { spot: selected, arrows: chain, busy: seeks } = useSelectedEvent(profile, event)
  const inView = flowsOf(useView('flows', { ...window, most: ARROWS }, route.flows === '1').data, route.flows === '1')
  const gaps = useGaps(window, view, hasDevices && route.gaps === '1')
  const { path, isEmpty, goPath } = usePath(profile, window, view, route.path === '1', reveal)
  // Overlays computed from all events wait for the events.
  const { counters, busy: counts } = useCounters(profile, view, route.charts ?? '', route.search ?? '', drawn)
  const { hits, marks, found, go, highlight } = useHits(profile, window, view, event, reveal)
  const arrows = useMemo(() => [...chain, ...arrowsOf(inView)], [chain, inView])
  const bookmarks = useMemo(() => readBookmarks(route.bookmarks), [route.bookmarks])
  const extras = useMemo(
    () => ({ arrows, gaps, path, hits, hitEvents: highlight.events, marks, counters, steps, bookmarks, failures }),
    [arrows, gaps, path, hits, highlight, marks, counters, steps, bookmarks, failures],
  )
  const notes = failures.slice(0, 1).map(({ time, note }) => `${note} at ${format(time, 'ns')}`)
  if (failures.length > 1) notes[0] += ` (${failures.length.toLocaleString('en-US')} times)`
  if (inView && inView.hidden > 0)
    notes.push(`${inView.total.toLocaleString('en-US')} arrows hidden: zoom in, or select an event`)
  if (isEmpty) notes.push('no critical path in this time range')
  const isPlaced = drawn && !seeks && !counts
  return { extras, selected, isPlaced, searchHits: found, matches: highlight.matches, notes, go, goPath }
}

export function useSelectedEvent(
  profile: Query,
  event: number | null,
): { spot: Spot | null; arrows: readonly Arrow[]; busy: boolean } {
  const { data, busy } = useView('flows', { ...profile, event: event ?? '' }, event !== null)
  const chain = flowsOf(data, event !== null)
  return useMemo(() => ({ spot: spotOf(chain, event), arrows: arrowsOf(chain), busy }), [chain, event, busy])
}

const flowsOf = (view: View | null, wanted: boolean): Flows | null => {
  const payload = view?.payloads.flows
  return wanted && payload?.kind === 'flows' ? payload : null
}

const pointOf = (flows: Flows, i: number): Point => ({
  event: flows.event[i],
  lane: flows.lane[i],
  row: flows.row[i],
  start: flows.start_ns[i],
  end: flows.start_ns[i] + flows.dur_ns[i],
})

const WORDS: Record<string, string> = {
  launch: 'launch',
  operator: 'launched (matched by id)',
  sync: 'wait',
  forward_backward: 'forward to backward',
  recorded: 'recorded',
}

const arrowsOf = (flows: Flows | null): Arrow[] =>
  flows === null
    ? []
    : flows.arrow.map((kind, i) => ({
        from: pointOf(flows, flows.from[i]),
        to: pointOf(flows, flows.to[i]),
        kind: flows.kinds[kind],
        name: flows.label[i] < 0 ? (WORDS[flows.kinds[kind]] ?? '') : flows.names[flows.label[i]],
      }))

function spotOf(flows: Flows | null, event: number | null): Spot | null {
  const i = flows && event !== null ? flows.event.indexOf(event) : -1
  return flows && i >= 0 ? pointOf(flows, i) : null
}

const rowsOf = (view: View | null, name: string): Row[] => (view && payloadByName(view, name, 'table')?.rows) ?? []

const numberIn = (view: View | null, block: string, key: string) =>
  numberOf(view && payloadByName(view, block, 'figures'), key)

function useGaps(window: Query, view: Range, wanted: boolean): readonly Gap[] {
  const shortest = Math.max(1, Math.round(((view.end - view.start) * GAP_PIXELS) / PIXELS))
  const resource = useView('gaps', { ...window, min_ns: shortest, limit: GAPS }, wanted)
  return useMemo(() => {
    const rows = wanted ? rowsOf(resource.data, 'gaps') : []
    return topLevelGaps(
      rows.map((row) => ({
        lane: Number(row.lane),
        start: Number(row.start_ns),
        end: Number(row.start_ns) + Number(row.dur_ns),
        why: row.host_doing === null ? reason(row) : `${reason(row)}: ${doing(row)}`,
        cause: row.cause_key === null ? '' : `idle_${row.cause_key}`,
      })),
    )
  }, [resource.data, wanted])
}

const doing = (row: Table['rows'][number]) =>
  row.host_operator === null ? String(row.host_doing) : `${row.host_doing} in ${row.host_operator}`

/** The idle cause, else the table's short text. */
const reason = ({ cause, why }: Table['rows'][number]) =>
  cause !== null ? String(cause) : why === 'launched before' ? 'next work already launched, CPU in' : String(why)

function useCounters(
  profile: Query,
  view: Range,
  charts: string,
  search: string,
  ready: boolean,
): { counters: Overlays['counters']; busy: boolean } {
  const margin = Math.round((view.end - view.start) / 4)
  const asked = { ...profile, start_ns: view.start - margin, end_ns: view.end + margin, width: PIXELS }
  const { data, busy } = useView('counters', asked, ready && charts !== 'none')
  const payload = data?.payloads.counters
  const counters = useMemo(() => {
    if (charts === 'none' || payload?.kind !== 'counters') return null
    return seriesOf(payload, charts === 'all', matcher(search))
  }, [payload, charts, search])
  return { counters, busy }
}

function seriesOf(
  payload: Counters,
  all: boolean,
  sought: ((name: string) => boolean) | null,
): NonNullable<Overlays['counters']> {
  const kindOf = (key: string) => key.slice(0, key.indexOf(':'))
  const devices = payload.counters.some(({ device }) => device !== null)
  const main = payload.counters.filter(({ key, device }) => MAIN.includes(kindOf(key)) && (device !== null || !devices))
  // Without them, recorded counters matter.
  const every = all || main.length === 0
  // A search also finds charts by name.
  const shown = payload.counters.filter((counter) => every || main.includes(counter) || sought?.(counter.title))
  return {
    start: payload.start_ns,
    end: payload.end_ns,
    series: shown.map((counter) => ({
      key: counter.key,
      title: counter.title,
      subtitle: counter.subtitle,
      device: counter.device,
      say: (value) => format(value, counter.metric.unit),
      mean: counter.mean,
      low: counter.low,
      high: counter.high,
      min: counter.min,
      max: counter.max,
      ...scaleOf(counter.min, counter.max, counter.metric.unit === 'ratio'),
      color: CHART_COLOR[kindOf(counter.key)] ?? 'memcpy',
    })),
  }
}

/** The search, or a row's filters. Read on demand: key presses are faster than React. */
export function searchOf({
  search = '',
  hit = '',
}: ReturnType<typeof readRoute>): { search: string; where: string[]; in: string } | null {
  const where = search === '' ? decodeHit(hit) : []
  const wanted = (search !== '' && parseSearch(search).kind !== 'bad') || where.length > 0
  // Without a matching name, search in arguments, such as graph annotations.
  return wanted ? { search, where, in: 'first' } : null
}

export function useHits(
  profile: Query,
  window: Query,
  view: Range,
  event: number | null,
  reveal: (spot: Spot) => void,
) {
  const { search, hit } = useRoute()
  const what = useMemo(() => searchOf({ search: search ?? '', hit: hit ?? '' }), [search, hit])
  const wanted = what !== null
  const { data: everywhere, problem } = useView('find', { ...profile, ...what, limit: 1 }, wanted)
  const inSight = useView('find', { ...window, ...what, limit: HITS }, wanted).data
  const [position, setPosition] = useState<{ asked: string; at: number } | null>(null)
  const latest = useRef({ view, event })
  latest.current = { view, event }
  const at = position?.asked === JSON.stringify({ ...profile, ...what }) ? position.at : null
  // Fast clicks each move one hit on.
  const place = useRef<{ asked: string; at: number; total: number } | null>(null)
  const { take, isGone } = useTurns()
  const step = useCallback(
    async (by: -1 | 1) => {
      const sought = searchOf(readRoute())
      if (sought === null) return
      const query = { ...profile, ...sought }
      const asked = JSON.stringify(query)
      const givenUp = () => isGone() || JSON.stringify({ ...profile, ...searchOf(readRoute()) }) !== asked
      let here = place.current?.asked === asked ? { ...place.current, at: place.current.at + by } : null
      if (here === null) {
        const start = latest.current.view.start
        const near = await whenReady(() => getView('find', { ...query, near_ns: start, limit: 1 }), givenUp)
        if (near === null) return
        const total = numberIn(near, 'summary', 'events') ?? 0
        here = { asked, total, at: (numberIn(near, 'near', 'hit_position') ?? 0) + (by < 0 ? -1 : 0) }
      }
      if (here.total === 0) return
      // The first follows the last.
      here.at = ((here.at % here.total) + here.total) % here.total
      const { at } = here
      const row = (await whenReady(() => getTable('find', 'hits', { ...query, offset: at, limit: 1 }), givenUp))
        ?.rows[0]
      if (row === undefined) return
      place.current = here
      setPosition(here)
      reveal(spotOfRow(row))
      setRoute({ event: String(row.event) })
    },
    [profile, reveal, isGone],
  )
  const go = useCallback((by: -1 | 1) => take(() => step(by)), [take, step])
  // From a row, show its first event in the window, else the first of all.
  const arrived = useRef('')
  useEffect(() => {
    if (!hit || search || arrived.current === hit || !inSight || !everywhere) return
    const row = rowsOf(inSight, 'hits')[0] ?? rowsOf(everywhere, 'hits')[0]
    arrived.current = hit
    if (row) reveal(spotOfRow(row))
  }, [hit, search, inSight, everywhere, reveal])
  const hits = useMemo(() => (wanted ? rowsOf(inSight, 'hits').map(spotOfRow) : []), [inSight, wanted])
  const marks = useMemo(() => {
    const payload = everywhere?.payloads.marks
    if (!wanted || payload?.kind !== 'series') return []
    return payload.lines[0].values.map((value) => value ?? 0)
  }, [everywhere, wanted])
  const isQuery = wanted && !isPlainSearch(search ?? '')
  const highlight = useMemo(() => highlightOf(isQuery ? inSight : null), [isQuery, inSight])
  const stepNs = numberIn(everywhere, 'summary', 'found_step_ns')
  const found = wanted
    ? {
        total: numberIn(everywhere, 'summary', 'events'),
        inSight: numberIn(inSight, 'summary', 'events'),
        totalNs: numberIn(everywhere, 'summary', 'total_ns') ?? 0,
        perStep:
          stepNs === null ? null : { events: numberIn(everywhere, 'summary', 'found_per_step') ?? 0, ns: stepNs },
        position: at,
        problem: problem && `${problem.what} ${problem.do}`,
      }
    : null
  return { hits, marks, found, go, highlight }
}

/** The hits in sight by event, or by name if there are too many; null: nothing is dimmed. */
function highlightOf(inSight: View | null) {
  const [hits, names] = (['hits', 'names'] as const).map((name) => inSight && payloadByName(inSight, name, 'table'))
  const isAll = (table: Table | null) => table !== null && table.rows.length === table.matched_rows
  const found = isAll(names) ? new Set(names?.rows.map((row) => String(row.name))) : null
  return {
    events: isAll(hits) ? new Set(hits?.rows.map((row) => Number(row.event))) : null,
    matches: found && ((name: string) => found.has(name)),
  }
}
