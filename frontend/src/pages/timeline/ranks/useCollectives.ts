// Corrected clocks, groups and collectives of a run's workers.
import { useEffect, useMemo, useState } from 'react'
import { type Answer, getTable, type Query } from '../../../api/client'
import type { Problem, Table } from '../../../api/payloads'
import { LINKED } from '../../../canvas/ranks/links'
import type { Collective } from '../../../canvas/ranks/scene'
import type { Range } from '../../../canvas/viewport'
import type { Corrected } from '../../../lib/rankAxis'
import { parseRanks } from '../../../lib/rankLists'
import { useActivity } from '../../../state/activity'
import { type Resource, useResource } from '../../../state/data'

type Rows = Table['rows']

const PAGE = 1000
const MOST = 4000
const REST_MS = 250

/** All rows of a table, page by page; `total` may exceed them. */
async function allRows(
  table: string,
  query: Query,
  most: number,
  signal: AbortSignal,
): Promise<Answer<{ rows: Rows; total: number }>> {
  const rows: Rows = []
  for (;;) {
    const answer = await getTable('distributed', table, { ...query, offset: rows.length, limit: PAGE }, signal)
    if (answer.state === 'loading') return answer
    const { matched_rows: total, rows: found } = answer.data
    rows.push(...found)
    if (rows.length >= Math.min(total, most) || found.length === 0 || total > most)
      return { state: 'ready', data: { rows, total } }
  }
}

const useRows = (table: string, query: Query, most: number, wanted: boolean): Resource<{ rows: Rows; total: number }> =>
  useResource(wanted ? JSON.stringify([table, query]) : '', (signal) => allRows(table, query, most, signal))

export interface Clocks {
  /** By worker; empty while nothing is known. */
  of: ReadonlyMap<string, Corrected>
  nodes: ReadonlyMap<string, string>
  groups: ReadonlyMap<string, ReadonlySet<number>>
  fraction: number | null
  busy: boolean
  problem: Problem | null
}

const MANY = 100_000

/** Nodes and groups of a run's workers, and corrected clocks if `corrects`. Reads all traces. */
export function useClocks(run: Query, wanted: boolean, corrects: boolean): Clocks {
  const clocks = useRows('clocks', run, MANY, wanted && corrects)
  const devices = useRows('devices', run, MANY, wanted)
  const process = useRows('process_groups', run, MANY, wanted)
  return useMemo(
    () => ({
      of: new Map((clocks.data?.rows ?? []).flatMap((row) => correctedOf(row) ?? [])),
      nodes: new Map((devices.data?.rows ?? []).map((row) => [String(row.worker), String(row.node ?? '')])),
      groups: new Map((process.data?.rows ?? []).flatMap((row) => groupOf(row) ?? [])),
      fraction: devices.fraction,
      busy: clocks.busy || devices.busy,
      problem: clocks.problem,
    }),
    [clocks, devices, process],
  )
}

export function useLateRanks(run: Query, wanted: boolean): readonly string[] {
  const { data } = useRows('stragglers', run, MANY, wanted)
  return useMemo(() => [...new Set((data?.rows ?? []).map(({ worker }) => String(worker)))], [data])
}

function correctedOf(row: Rows[number]): [[string, Corrected]] | null {
  const { worker, trace_begins_ns, clock_drift_ppb, clock_residual_ns, clock_set } = row
  if (typeof trace_begins_ns !== 'number') return null
  const corrected = {
    begins_ns: trace_begins_ns,
    drift_ppb: typeof clock_drift_ppb === 'number' ? clock_drift_ppb : 0,
    residual_ns: typeof clock_residual_ns === 'number' ? clock_residual_ns : null,
    set: typeof clock_set === 'number' ? clock_set : 0,
  }
  return [[String(worker), corrected]]
}

function groupOf(row: Rows[number]): [[string, ReadonlySet<number>]] | null {
  const ranks = parseRanks(String(row.group_ranks ?? ''))
  const name = String(row.group_description || row.group || '')
  return ranks && name ? [[`${name} ${row.group_ranks}`, ranks]] : null
}

export interface LinkedCollectives {
  collectives: readonly Collective[]
  /** Linked collectives, and the number of calls if there are too many to link. */
  linked: number
  calls: number
  problem: Problem | null
}

/** Collectives of the visible ranks: `within` has the stretch of each worker, in its own time. */
export function useCollectives(run: Query, within: ReadonlyMap<string, Range>, wanted: boolean): LinkedCollectives {
  const query: Query = {
    ...run,
    within: [...within].map(([worker, { start, end }]) => `${worker}:${Math.floor(start)}:${Math.ceil(end)}`),
  }
  const text = useRested(JSON.stringify(query))
  const rested = useMemo(() => JSON.parse(text) as Query, [text])
  const { data, problem } = useRows('meetings', rested, MOST, wanted && within.size > 1)
  return useMemo(() => {
    const found = wanted && data && data.total <= MOST ? parseCollectives(data.rows) : []
    const linked = found.length > LINKED ? 0 : found.length
    return { collectives: found, linked, calls: linked === 0 ? (data?.total ?? 0) : 0, problem }
  }, [data, problem, wanted])
}

/** A text that has been stable for a while, so that scrolling does not send requests. */
function useRested(text: string): string {
  const [rested, setRested] = useState(text)
  useActivity(rested !== text)
  useEffect(() => {
    const timer = window.setTimeout(() => setRested(text), REST_MS)
    return () => window.clearTimeout(timer)
  }, [text])
  return rested
}

/** Rows of one collective are adjacent. */
export function parseCollectives(rows: Rows): Collective[] {
  const found = new Map<
    number,
    { match: number; name: string; last: string; lateness: number; calls: Collective['calls'][number][] }
  >()
  for (const row of rows) {
    const match = Number(row.match)
    let collective = found.get(match)
    if (!collective) {
      const last = row.last_worker === null ? '' : encodeURIComponent(String(row.last_worker))
      collective = { match, name: String(row.collective), last, lateness: 0, calls: [] }
      found.set(match, collective)
    }
    const start = Number(row.start_ns)
    const lateness = typeof row.lateness_ns === 'number' ? row.lateness_ns : null
    // The last rank may be invisible: others waited from their own arrival.
    if (lateness !== null) collective.lateness = Math.max(collective.lateness, lateness + Number(row.wait_ns ?? 0))
    collective.calls.push({
      rank: encodeURIComponent(String(row.worker)),
      start,
      end: start + Number(row.dur_ns),
      event: typeof row.event === 'number' ? row.event : -1,
      lateness,
    })
  }
  return [...found.values()]
}
