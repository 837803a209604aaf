// The operator that allocated a snapshot's block.
import { useMemo, useState } from 'react'
import type { Query } from '../../../api/client'
import type { Catalog, ClockInfo, Figures, Profile, View } from '../../../api/payloads'
import { translateTime } from '../../../lib/companions'
import { format } from '../../../lib/format'
import { addressText } from '../../../lib/profiles'
import type { Row } from '../../../lib/tableRows'
import { figureValue, payloadByName } from '../../../parts/payloadByName'
import { type Companion, useCompanions } from '../../../state/companions'
import { useView } from '../../../state/data'
import { timelineState } from '../../../state/links'
import { openViewOfProfile } from '../../../state/urlState'
import { Placeholder, SmallButton } from '../../../widgets/basics'
import { ProblemPanel } from '../../../widgets/problem'
import textCss from '../../../widgets/text.module.css'
import css from './allocatingOperator.module.css'

/** Empty without a companion trace or allocation time. */
export function AllocatingOperator({
  catalog,
  profile,
  block,
}: {
  catalog: Catalog
  profile: Profile
  block: Figures
}) {
  const [wanted, setWanted] = useState('')
  const found = useCompanions(catalog, profile, wanted)
  const value = (key: string) => figureValue(block, key)
  const [begin, address, bytes] = ['begin_ns', 'address', 'block_size_bytes'].map(value)
  const { clock } = profile
  if (typeof begin !== 'number' || !clock || found.length === 0) return null
  return (
    <section className={css.section} aria-label="Allocated in">
      {found.map((beside) => {
        const key = JSON.stringify(beside.address)
        const there = beside.profile?.clock
        return there ? (
          <InTrace
            key={key}
            beside={beside}
            trace={there}
            at={translateTime(begin, clock, there)}
            address={String(address ?? '')}
            bytes={Number(bytes)}
          />
        ) : (
          <p key={key} className={css.line}>
            A trace of the same worker is available: {addressText(beside.address)}
            <SmallButton loading={wanted === key} onClick={() => setWanted(key)}>
              Find the operator
            </SmallButton>
          </p>
        )
      })}
    </section>
  )
}

function InTrace(props: { beside: Companion; trace: ClockInfo; at: number; address: string; bytes: number }) {
  const { beside, trace, at, address, bytes } = props
  const { run, worker, span } = beside.address
  const query = useMemo<Query>(
    () => ({ run, worker, span, at_ns: at, address, bytes }),
    [run, worker, span, at, address, bytes],
  )
  const isInside = at >= 0 && at <= trace.length_ns
  const resource = useView('allocated_in', query, isInside)
  if (!isInside) {
    return <p className={textCss.none}>Allocated outside the recording of trace {addressText(beside.address)}.</p>
  }
  if (resource.problem) return <ProblemPanel problem={resource.problem} />
  if (!resource.data) return <Placeholder height={48} />
  return <OperatorList view={resource.data} beside={beside} at={at} />
}

function OperatorList({ view, beside, at }: { view: View; beside: Companion; at: number }) {
  const rows = payloadByName(view, 'allocating_operators', 'table')?.rows ?? []
  const figures = payloadByName(view, 'matching', 'figures')?.figures ?? []
  const [by, apart] = ['matched_by', 'clock_apart_ns'].map(
    (key) => figures.find(({ metric }) => metric.key === key)?.value,
  )
  return (
    <>
      <h3>
        {operatorText(rows.length, by === 'time')}
        <small>{matched(by === 'time', Number(apart))}</small>
      </h3>
      <ul className={css.list}>
        {rows.map((row) => (
          <li key={`${row.thread} ${row.event}`}>
            <Operator row={row} />
            <Show beside={beside} row={row} at={at} />
          </li>
        ))}
        {rows.length === 0 && (
          <li>
            <Show beside={beside} row={{}} at={at} />
          </li>
        )}
      </ul>
    </>
  )
}

function operatorText(operators: number, isByTime: boolean): string {
  if (operators === 0) return 'No operator was running at the allocation'
  if (operators === 1) return isByTime ? 'Running at that time' : 'Allocated in'
  return isByTime
    ? `${operators} threads were running operators; any of them may have allocated the block`
    : `${operators} operators received this address at about that time; any of them may have allocated the block`
}

const matched = (isByTime: boolean, apart: number) =>
  isByTime
    ? 'matched by time only: the trace has no record of this allocation'
    : `matched by address and time${apart > 0 ? `, ${format(apart, 'ns')} apart` : ''}`

const CONTEXT = {
  outermost_operator: 'in',
  module: 'module',
  allocation_frame: 'line',
  allocation_phase: 'phase',
  allocation_step: 'step',
  thread: 'thread',
}

function Operator({ row }: { row: Row }) {
  const around = Object.entries(CONTEXT).filter(([key]) => row[key] && row[key] !== row.name)
  return (
    <span className={css.operator}>
      <b className={textCss.mono}>{String(row.name)}</b>
      {around.map(([key, word]) => (
        <span key={key} className={css.context} title={String(row[key])}>
          <span className={textCss.mute}>{word}</span> {String(row[key])}
        </span>
      ))}
    </span>
  )
}

function Show({ beside, row, at }: { beside: Companion; row: Row; at: number }) {
  const { event, start_ns: start, dur_ns: dur } = row
  const state =
    typeof event === 'number' ? timelineState(event, Number(start), Number(dur)) : timelineState(null, at, AROUND_NS)
  return (
    <SmallButton onClick={() => openViewOfProfile({ ...beside.address }, 'timeline', state)}>
      {typeof event === 'number' ? 'Show the operator in the timeline' : 'Show the time in the timeline'}
    </SmallButton>
  )
}

/** Room around a moment without an event, in ns. */
const AROUND_NS = 20_000
