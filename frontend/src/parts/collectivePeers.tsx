// The same collective on the other ranks.
import { Button } from '@mantine/core'
import { useEffect, useMemo, useState } from 'react'
import { getTable, type Query } from '../api/client'
import type { Catalog, Figure, Profile, Table } from '../api/payloads'
import { counted, format } from '../lib/format'
import { missingTraceText, readsNote, readsText, spansOfRun, unreadCount, withoutTraces } from '../lib/profiles'
import type { Row } from '../lib/tableRows'
import { useResource } from '../state/data'
import { timelineState } from '../state/links'
import { setRunRead, useRunRead } from '../state/readRuns'
import { openView, openViewOfProfile } from '../state/urlState'
import { Placeholder, SmallButton } from '../widgets/basics'
import { SmallTable } from '../widgets/smallTable'
import { figureValue } from './payloadByName'
import textCss from '../widgets/text.module.css'
import css from './detailBlock.module.css'

/** Maximum number of listed ranks, latest first. */
const MOST = 10

interface Call {
  worker: string
  /** Trace row, if known. */
  event?: number | null
  start: number
}

/** A call on another rank, in its own time. */
export interface PeerCall {
  worker: string
  event: number | null
  start: number
  end: number
}

/** Empty for other events and single-worker runs. */
export function CollectivePeers(props: {
  base: Query
  catalog: Catalog
  profile: Profile
  /** Figures of the event and its launched work. */
  figures: readonly Figure[]
  launched: readonly Figure[]
  onPartner?: (partner: PeerCall) => void
}) {
  const { base, catalog, profile, figures, launched, onPartner } = props
  // After one read, further events of the run need no button.
  const isRead = useRunRead(base)
  const [asked, ask] = useState(false)
  const workers = spansOfRun(catalog, profile, profile.model).length
  const reads = unreadCount(catalog, profile)
  // The call is the device work; the CPU only launched it.
  const about = figureValue({ figures: launched }, 'kind') === 'kernel' ? launched : figures
  const [event, start] = ['event', 'start_ns'].map((key) => figureValue({ figures: about }, key))
  if (workers < 2 || typeof start !== 'number') return null
  return (
    <div className={css.wide} data-testid="event-partners">
      <h3>On other ranks</h3>
      {asked || isRead || reads === 0 ? (
        <PeerCalls
          base={base}
          catalog={catalog}
          call={{ worker: profile.worker, event: typeof event === 'number' ? event : null, start }}
          onPartner={onPartner}
        />
      ) : (
        <SmallButton title={readsText(reads)} onClick={() => ask(true)}>
          Find this call on {counted(workers - 1, 'other rank')}
          {readsNote(reads)}
        </SmallButton>
      )}
    </div>
  )
}

/** The calls of one collective, the latest first. */
export function PeerCalls(props: {
  base: Query
  catalog: Catalog
  call: Call
  /** Shows a call beside others; absent: opens its worker alone. */
  onPartner?: (partner: PeerCall) => void
}) {
  const { base, catalog, call, onPartner } = props
  const query = useMemo<Query>(
    () => ({
      ...base, worker: '', steps: '', of: call.worker, event: call.event ?? null, start_ns: call.start, limit: MOST,
    }),
    [base, call.worker, call.event, call.start],
  ) // biome-ignore format: one line a thing
  const { data, problem, fraction } = useResource<Table>(JSON.stringify(query), (signal) =>
    getTable('distributed', 'partners', query, signal),
  )
  useEffect(() => {
    if (data) setRunRead(base)
  }, [data, base])
  if (problem) return <p className={textCss.none}>{problem.what}</p>
  if (!data) {
    return (
      <>
        {fraction !== null && (
          <p className={textCss.none} role="status">
            Reading the traces of all ranks: {format(fraction, 'ratio')}
          </p>
        )}
        <Placeholder height={80} />
      </>
    )
  }
  return <PeersTable table={data} base={base} catalog={catalog} worker={call.worker} onPartner={onPartner} />
}

function PeersTable(props: {
  table: Table
  base: Query
  catalog: Catalog
  worker: string
  onPartner?: (partner: PeerCall) => void
}) {
  const { table, base, catalog, worker, onPartner } = props
  if (table.rows.length === 0) {
    return (
      <p className={textCss.none}>
        To compare ranks, select the event of this call on the device or in its process group.
      </p>
    )
  }
  const [first] = table.rows
  if ((first.match ?? null) === null) return <p className={textCss.none}>No other rank has this call.</p>
  const absent = withoutTraces(catalog, { run: String(base.run), span: String(base.span) })
  const go = (row: Row) => {
    const event = typeof row.event === 'number' ? row.event : null
    const [start, dur] = [Number(row.start_ns), Number(row.dur_ns)]
    if (onPartner) {
      onPartner({ worker: String(row.worker), event, start, end: start + dur })
      return
    }
    const at = timelineState(event, start, dur)
    openViewOfProfile({ run: String(base.run), worker: String(row.worker), span: String(base.span) }, 'timeline', at)
  }
  return (
    <>
      <p className={textCss.none}>{sentenceOf(first)}</p>
      <SmallTable
        table={table}
        without={SAID}
        counted
        show={{
          label: 'Show this call in its timeline',
          here: 'this rank',
          of: (row) => {
            const name = String(row.worker)
            return name === worker ? null : absent.has(name) ? missingTraceText(name) : () => go(row)
          },
        }}
      />
      <Button
        size="compact-xs"
        variant="subtle"
        onClick={() => openView('distributed', { group: 'collectives', where: `match:${first.match}` })}
      >
        {table.matched_rows > table.rows.length
          ? `All ${table.matched_rows.toLocaleString('en-US')} workers in Ranks`
          : 'Show in Ranks'}
      </Button>
    </>
  )
}

/** Columns that the sentence already covers. */
const SAID = ['last_worker', 'timing', 'match_kind']
const HOW: Readonly<Record<string, string>> = {
  number: 'matched by call number',
  order: 'matched by call order in the group',
  ends: 'matched by sender and receiver',
}
const SURE: Readonly<Record<string, string>> = {
  bound: 'A rank is missing: wait time is a lower bound.',
}

function sentenceOf(row: Row): string {
  const workers = Number(row.matched_workers)
  const isWhole = typeof row.group_size !== 'number' || row.match_kind === 'ends'
  const where = isWhole
    ? counted(workers, 'worker')
    : `${workers.toLocaleString('en-US')} of ${counted(Number(row.group_size), 'rank')}`
  const last = row.last_worker ? `; ${row.last_worker} arrived last` : ''
  return [
    `${row.collective} on ${where}, ${HOW[String(row.match_kind)] ?? ''}${last}.`,
    SURE[String(row.timing)] ?? '',
  ].join(' ')
}
