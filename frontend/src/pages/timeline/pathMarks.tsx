// The critical path on the timeline: its marks, the way along it, and the slack of an event.
import { useCallback, useMemo, useRef } from 'react'
import { getTable, type Query } from '../../api/client'
import { type Spot, spotOfRow } from '../../canvas/timeline/model'
import { type PathMark, pathMarkOf } from '../../canvas/timeline/scene'
import type { Range } from '../../canvas/viewport'
import { payloadByName } from '../../parts/payloadByName'
import { useView, whenReady } from '../../state/data'
import { PATH } from '../../state/links'
import { useTurns } from '../../state/turns'
import { readRoute, setRoute } from '../../state/urlState'
import { FigureList } from '../../widgets/figures'
import frameCss from '../../parts/viewFrame.module.css'

const VIEW = 'path_marks'
const MARKS = 1000
/** Shorter gaps between marks are not drawn. */
const GAP_PIXELS = 2
const PIXELS = 1200
const NO_MARKS: readonly PathMark[] = []

/** `goPath` selects the next or previous event on the path, and shows the path. */
export function usePath(
  profile: Query,
  window: Query,
  view: Range,
  wanted: boolean,
  reveal: (spot: Spot) => void,
): { path: readonly PathMark[]; isEmpty: boolean; goPath: (by: -1 | 1) => void } {
  const shortest = Math.round(((view.end - view.start) * GAP_PIXELS) / PIXELS)
  const { data } = useView(VIEW, { ...window, min_ns: shortest, limit: MARKS }, wanted)
  const path = useMemo(() => {
    const table = wanted && data ? payloadByName(data, VIEW, 'table') : null
    return table ? table.rows.map(pathMarkOf) : NO_MARKS
  }, [data, wanted])
  const { take, isGone } = useTurns()
  const start = useRef(view.start)
  start.current = view.start
  const goPath = useCallback(
    (by: -1 | 1) =>
      take(async () => {
        setRoute(PATH)
        const { event = '' } = readRoute()
        const from = event === '' ? { from_ns: start.current } : { event }
        const found = await whenReady(() => getTable(VIEW, 'next', { ...profile, ...from, by }), isGone)
        const row = found?.rows[0]
        if (!row) return
        reveal(spotOfRow(row))
        setRoute({ event: String(row.event) })
      }),
    [profile, reveal, take, isGone],
  )
  return { path, isEmpty: wanted && data !== null && path.length === 0, goPath }
}

/** Slack of an event and its time on the path; nothing for events outside of the steps. */
export function PathFacts({ event, base }: { event: number; base: Query }) {
  const { data, busy } = useView(VIEW, { ...base, event })
  const facts = data && payloadByName(data, 'slack', 'figures')
  if (!facts || facts.figures.length === 0) return null
  return (
    <div data-testid="event-slack" className={busy ? frameCss.stale : undefined}>
      <h3>{facts.title}</h3>
      <FigureList exact figures={facts.figures} />
    </div>
  )
}
