// An opened row: stacks, distribution, events.
import { type ReactNode, useMemo } from 'react'
import type { Query } from '../api/client'
import type { Payload, Table } from '../api/payloads'
import { inSentence } from '../lib/deviceWords'
import { isNumeric } from '../lib/format'
import { type Row, rowId } from '../lib/tableRows'
import { useView } from '../state/data'
import { showHits, showInTimeline } from '../state/links'
import { usePages } from '../state/tablePages'
import { CopyButton, Placeholder, SmallButton, Value } from '../widgets/basics'
import { Chart } from '../widgets/chart'
import { FigureList } from '../widgets/figures'
import { TimelineIcon } from '../widgets/icons'
import { ProblemPanel } from '../widgets/problem'
import { SmallTable } from '../widgets/smallTable'
import { readableName } from '../widgets/tableCells'
import { rowText } from '../widgets/tableRow'
import { counted, DetailBlock } from './detailBlock'
import { EditorSetting, StackFrames } from './stack'
import textCss from '../widgets/text.module.css'
import css from './rowDetail.module.css'

/** Columns of a row that the events view can filter by. */
const EVENT_KEYS = new Set([
  'name',
  'kind',
  'operator',
  'input_shape',
  'module',
  'phase',
  'grid',
  'block',
  'direction',
  'kernel_type',
  'core',
  'kernel_shapes',
  'category',
  'caller_phase',
  'caller_frame',
  'backward_operator',
  'forward_operator',
  'forward_path',
  'forward_line',
  'role',
  'recomputed_by',
])
const MOST_STACKS = 5
const MOST_INSTANCES = 100

/** Filter keys for captured work, by row column. */
const REPLAYED: Record<string, string> = {
  name: 'replayed_operator',
  input_shape: 'replayed_shape',
  module: 'replayed_module',
}

const replayedOf = (row: Row, table: Table): string[] | null => {
  const keys = table.row_key.filter((key) => REPLAYED[key])
  return Number(row.replayed_calls ?? 0) > 0 && keys.length > 0
    ? keys.map((key) => `${REPLAYED[key]}:${row[key] ?? ''}`)
    : null
}

const whereOf = (row: Row, table: Table) =>
  table.row_key.filter((key) => EVENT_KEYS.has(key)).map((key) => `${key}:${row[key] ?? ''}`)

export function RowDetail(props: {
  row: Row
  table: Table
  base: Query
  stacks?: boolean
  extra?: Record<string, string>
  /** Filter for the row's events; default: its key columns and `extra`. */
  by?: readonly string[]
  /** Additional content, from the event list. */
  more?: (instances: Table) => ReactNode
  actions?: ReactNode
}) {
  const { row, table, base, stacks, extra, by, more, actions } = props
  const where = useMemo(
    () => by ?? [...whereOf(row, table), ...Object.entries(extra ?? {}).map(([key, value]) => `${key}:${value}`)],
    [row, table, extra, by],
  )
  const events = useView('events', { ...base, where })
  const payloads = events.data?.payloads ?? {}
  const name = readableName(row, table.name_column)
  // A profile may report calls without times.
  const untimed = payloads.instances?.kind === 'table' && payloads.instances.total_rows === 0
  const replayed = useMemo(() => replayedOf(row, table), [row, table])
  return (
    <div className={css.grid}>
      <div data-testid="detail-name" className={css.name}>
        <span className={textCss.mono}>{name.length > 36 ? name : ''}</span>
        <span className={textCss.row}>
          {!untimed && (
            <SmallButton leftSection={<TimelineIcon />} onClick={() => showHits(where, rowId(row, table.row_key))}>
              Show in timeline
            </SmallButton>
          )}
          {actions}
          <CopyButton label="Copy row" text={() => rowText(row, table.columns)} />
        </span>
      </div>
      {events.problem && <ProblemPanel problem={events.problem} />}
      {!events.data && !events.problem && <Placeholder height={170} />}
      {untimed && !replayed && <p className={textCss.none}>The trace has no times for these calls.</p>}
      {events.data && !untimed && <Distribution distribution={payloads.distribution} summary={payloads.summary} />}
      {!untimed && payloads.instances?.kind === 'table' && <Instances table={payloads.instances} />}
      {replayed && <ReplayedWork where={replayed} base={base} row={rowId(row, table.row_key)} />}
      {payloads.instances?.kind === 'table' && more?.(payloads.instances)}
      {stacks && <Stacks where={whereOf(row, table).filter((item) => /^(name|input_shape):/.test(item))} base={base} />}
    </div>
  )
}

function ReplayedWork({ where, base, row }: { where: string[]; base: Query; row: string }) {
  const events = useView('events', { ...base, where })
  const { distribution, summary, instances } = events.data?.payloads ?? {}
  if (events.problem) return <ProblemPanel problem={events.problem} />
  if (instances?.kind !== 'table') return <Placeholder height={170} />
  if (instances.total_rows === 0) return null
  const show = (
    <SmallButton leftSection={<TimelineIcon />} onClick={() => showHits(where, row)} data-testid="show-replayed">
      Show in timeline
    </SmallButton>
  )
  return (
    <>
      <Distribution title="Replayed work" distribution={distribution} summary={summary} actions={show} />
      <Instances title="Replayed events" table={instances} />
    </>
  )
}

function Distribution(props: { title?: string; distribution?: Payload; summary?: Payload; actions?: ReactNode }) {
  const { title, distribution, summary, actions } = props
  const durations = distribution?.kind === 'series' ? distribution.title : 'Durations'
  return (
    <DetailBlock title={title ?? durations} actions={actions}>
      <div className={css.distribution}>
        {distribution?.kind === 'series' && distribution.x.length > 0 && (
          <Chart series={distribution} height={168} compact />
        )}
        {summary?.kind === 'figures' && <FigureList figures={summary.figures} />}
      </div>
    </DetailBlock>
  )
}

export const firstNumber = (row: Row, keys: readonly string[]): number | null => {
  for (const key of keys) if (typeof row[key] === 'number') return row[key]
  return null
}

/** The way from an event into the timeline. */
const SHOW = {
  label: 'Show this event in the timeline',
  of: (row: Row) => {
    const start = firstNumber(row, ['start_ns', 'start'])
    const dur = firstNumber(row, ['dur_ns', 'duration_ns', 'duration'])
    return start === null ? null : () => showInTimeline(firstNumber(row, ['event', 'row']), start, dur ?? 0)
  },
}

function Instances({ table, title = 'Events' }: { table: Table; title?: string }) {
  const by = table.columns.find(({ metric }) => metric.key === table.sort?.key)?.metric.title
  const shown = Math.min(table.rows.length, MOST_INSTANCES)
  const without = useMemo(() => ['event', table.name_column], [table])
  return (
    <DetailBlock title={title} small={`${counted(shown, table.matched_rows)}${by ? `, by ${inSentence(by)}` : ''}`}>
      <SmallTable
        table={table}
        limit={MOST_INSTANCES}
        without={without}
        show={SHOW}
        className={css.instances}
        counted
      />
    </DetailBlock>
  )
}

function Stacks({ where, base }: { where: string[]; base: Query }) {
  const key = where.join('\u0000')
  const query = useMemo(() => ({ sort: '', desc: true, search: '', where: key.split('\u0000') }), [key])
  const pages = usePages('operators', 'stacks', base, query)
  const { table } = pages
  const column = table?.columns.find(({ metric }) => metric.key === 'call_stack' || metric.key === 'stack')
  if (pages.problem) return <ProblemPanel problem={pages.problem} />
  if (!table) return <Placeholder height={120} />
  const rows = table.rows.slice(0, MOST_STACKS)
  const shown = table.columns.filter(
    ({ metric, hidden }) =>
      !hidden && isNumeric(metric.unit) && /calls|self/.test(metric.key) && metric.unit !== 'ratio',
  )
  return (
    <DetailBlock title="Call stacks" small={counted(rows.length, pages.count)} actions={<EditorSetting />} wide>
      {pages.count === 0 && (
        <p className={textCss.none}>
          The trace has no call stacks for this operator. To record call stacks, use{' '}
          <code>profile(with_stack=True)</code>.
        </p>
      )}
      {column &&
        rows.map((row, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: rows of one answer never move
          <div key={i} className={css.stackBox}>
            <div className={css.stackFacts}>
              {shown.map(({ metric }) => (
                <span key={metric.key}>
                  <span className={textCss.mute}>{metric.title}</span>{' '}
                  <Value value={row[metric.key] ?? null} unit={metric.unit} />
                </span>
              ))}
            </div>
            <StackFrames stack={String(row[column.metric.key] ?? '')} />
          </div>
        ))}
    </DetailBlock>
  )
}
