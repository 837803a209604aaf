// Runtime calls: which call costs the host most while the device has nothing to do, who made it, and every one of them.
import { Button } from '@mantine/core'
import { useMemo } from 'react'
import type { Query } from '../api/client'
import type { Column, Figure, Table, View } from '../api/payloads'
import { familyScales, format, isNumeric, type Scale } from '../lib/format'
import { shortFrame } from '../lib/frames'
import { shortenMiddle } from '../lib/names'
import { type Row, rowId } from '../lib/pages'
import { useView } from '../state/data'
import { joinList } from '../state/hash'
import { showHits } from '../state/links'
import { usePages } from '../state/pages'
import { setPrefs, usePrefs } from '../state/prefs'
import { setRoute } from '../state/route'
import { Bones, Value } from '../widgets/basics'
import { Headline } from '../widgets/figures'
import { TimelineIcon } from '../widgets/icons'
import { ProblemPanel } from '../widgets/problem'
import { EditorSetting, StackFrames } from '../widgets/stack'
import { ViewFrame } from './parts/frame'
import { HeadlineCard } from './parts/headline'
import { pick } from './parts/pick'
import { firstNumber, RowDetail } from './parts/rowDetail'
import { type Group, TableSection } from './parts/tableSection'
import type { ViewProps } from './view'
import layoutCss from '../widgets/layout.module.css'
import plainTableCss from '../widgets/plainTable.module.css'
import textCss from '../widgets/text.module.css'
import css from './launches.module.css'
import frameCss from './parts/frame.module.css'
import detailCss from './parts/rowDetail.module.css'

const BY_CALLER = 'runtime_calls_by_caller'
const GROUPS: Group[] = [
  { table: 'runtime_calls', label: 'By call', filters: ['name'] },
  { table: BY_CALLER, label: 'By caller', widest: 210 },
]
const KIND = { kind: 'runtime' }
const CALLER = ['operator', 'caller_phase', 'caller_frame']
/** Columns that the short list of callers has no room for. */
const LEFT_OUT = new Set(['name', 'launched', 'bytes'])
const MOST_CALLERS = 8

export function Launches({ base }: ViewProps) {
  const resource = useView('launches', base)
  return (
    <div className={frameCss.page}>
      <ViewFrame resource={resource} bones={<Bones height={78} />} steps={String(base.steps ?? '')}>
        {(view) => <Answer view={view} />}
      </ViewFrame>
      {(resource.data || !resource.problem) && (
        <TableSection
          view="launches"
          base={base}
          groups={GROUPS}
          placeholder="Search calls and callers, text or /regex/"
          detail={(row, table) => <Detail row={row} table={table} base={base} />}
        />
      )}
    </div>
  )
}

type Facts = (key: string) => Figure | undefined

const factsOf =
  (figures: readonly Figure[]): Facts =>
  (key) =>
    figures.find(({ metric }) => metric.key === key)

function Answer({ view }: { view: View }) {
  const summary = pick(view, 'summary', 'figures')
  const call = pick(view, 'longest_call', 'figures')
  const caller = pick(view, 'longest_caller', 'figures')
  if (!summary) return null
  return (
    <HeadlineCard className={css.answer}>
      <Headline figures={summary.figures} alarms={new Map()} />
      {call && caller && <Says call={factsOf(call.figures)} caller={factsOf(caller.figures)} />}
    </HeadlineCard>
  )
}

/** The first row in words: what to look at, and how much it is. */
function Says({ call, caller }: { call: Facts; caller: Facts }) {
  const name = String(call('name')?.value ?? '')
  const idle = call('device_idle_ns')
  const idles = Number(idle?.value ?? 0) > 0
  const [time, part] = idles ? [idle, caller('device_idle_ns')] : [call('host_self_ns'), caller('host_self_ns')]
  const calls = Number(call('calls')?.value ?? 0)
  return (
    <p className={css.say} data-testid="answer">
      {idles ? 'While the device has nothing to do, the host is longest in ' : 'The host is longest in '}
      <Code text={name} />
      {': '}
      <Amount figure={time} /> in {calls.toLocaleString('en-US')} {calls === 1 ? 'call' : 'calls'}
      {idle && !idles && '; the device is never idle in runtime calls'}
      {!idle && '; what the device did meanwhile is not known'}. <Who caller={caller} part={part} whole={time} />
      <span className={css.ways}>
        <button
          type="button"
          className={textCss.link}
          onClick={() => setRoute({ group: '', where: '', search: '', row: name }, true)}
        >
          Show its callers
        </button>
        <button type="button" className={textCss.link} onClick={() => showHits([`name:${name}`, 'kind:runtime'], name)}>
          Show in timeline
        </button>
      </span>
    </p>
  )
}

function Who({ caller, part, whole }: { caller: Facts; part?: Figure; whole?: Figure }) {
  const text = (key: string) => {
    const value = caller(key)?.value
    return typeof value === 'string' && value !== '' ? value : null
  }
  const [operator, phase, frame] = CALLER.map(text)
  if (operator === null && phase === null && frame === null) return null
  return (
    <>
      {part?.value === whole?.value ? (
        'All of it'
      ) : (
        <>
          <Amount figure={part} /> of it
        </>
      )}
      {operator !== null && (
        <>
          {' under '}
          <Code text={operator} />
        </>
      )}
      {phase !== null && (
        <>
          {' in phase '}
          <Code text={phase} />
        </>
      )}
      {frame !== null && (
        <>
          {' from '}
          <Code text={frame} />
        </>
      )}
      {'. '}
    </>
  )
}

const Amount = ({ figure }: { figure?: Figure }) =>
  figure ? (
    <b>
      <Value value={figure.value} unit={figure.metric.unit} />
    </b>
  ) : null

/** A name of at most `room` characters; a frame loses its folders first. */
const Code = ({ text, room = 56 }: { text: string; room?: number }) => (
  <span className={textCss.mono} title={text}>
    {shortenMiddle(shortFrame(text, room), room)}
  </span>
)

function Detail({ row, table, base }: { row: Row; table: Table; base: Query }) {
  return (
    <RowDetail
      row={row}
      table={table}
      base={base}
      stacks={false}
      extra={KIND}
      more={(instances) => (
        <>
          {table.name !== BY_CALLER && <Callers name={String(row.name)} base={base} />}
          <LongestStack instances={instances} base={base} />
        </>
      )}
    />
  )
}

/** Who made the calls of a name: the first rows of the other table. */
function Callers({ name, base }: { name: string; base: Query }) {
  const where = `name:${name}`
  const query = useMemo(() => ({ sort: '', desc: true, search: '', where: [where] }), [where])
  const pages = usePages('launches', BY_CALLER, base, query)
  const { table } = pages
  if (pages.problem) return <ProblemPanel problem={pages.problem} />
  if (!table) return <Bones height={120} />
  const rows = table.rows.slice(0, MOST_CALLERS)
  const columns = table.columns.filter(({ metric, hidden }) => !hidden && !LEFT_OUT.has(metric.key))
  const scales = familyScales(columns, (key) => table.extremes[key] ?? [])
  return (
    <div className={`${detailCss.block} ${detailCss.stacks}`} data-testid="callers">
      <h3>
        Callers
        <small>{pages.count > rows.length ? `${rows.length} of ${pages.count}` : pages.count}</small>
        {pages.count > rows.length && (
          <Button
            size="compact-xs"
            variant="default"
            onClick={() => setRoute({ group: BY_CALLER, where: joinList([where]), row: '', sort: '', cols: '' }, true)}
          >
            Show all
          </Button>
        )}
      </h3>
      <div className={layoutCss.scroll} tabIndex={0}>
        <table className={`${plainTableCss.table} ${css.callers}`}>
          <thead>
            <tr>
              {columns.map(({ metric }) => (
                <th
                  key={metric.key}
                  scope="col"
                  className={isNumeric(metric.unit) ? textCss.right : textCss.left}
                  title={metric.definition}
                >
                  {metric.title}
                  {scales.get(metric.key)?.symbol && ` (${scales.get(metric.key)?.symbol})`}
                </th>
              ))}
              <th scope="col">
                <span className={textCss.sr}>Show</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={rowId(row, table.row_key)}>
                {columns.map((column) => (
                  <CallerCell key={column.metric.key} row={row} column={column} scale={scales.get(column.metric.key)} />
                ))}
                <td>
                  <button
                    type="button"
                    className={`${textCss.link} ${textCss.iconLink}`}
                    title="Show these calls in the timeline"
                    aria-label="Show these calls in the timeline"
                    onClick={() =>
                      showHits([...table.row_key.map((key) => `${key}:${row[key] ?? ''}`), 'kind:runtime'], name)
                    }
                  >
                    <TimelineIcon />
                  </button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  )
}

function CallerCell({ row, column, scale }: { row: Row; column: Column; scale?: Scale }) {
  const { key, unit } = column.metric
  const value = row[key] ?? null
  if (isNumeric(unit))
    return (
      <td className={textCss.right}>
        <Value value={value} unit={unit} scale={scale} bare />
      </td>
    )
  return (
    <td className={textCss.left}>
      {value === null ? (
        <span className={textCss.mute}>{format(null, unit)}</span>
      ) : (
        <Code text={String(value)} room={40} />
      )}
    </td>
  )
}

/** Where the longest of the calls came from, frame by frame. */
function LongestStack({ instances, base }: { instances: Table; base: Query }) {
  const prefs = usePrefs()
  const event = instances.rows.length > 0 ? firstNumber(instances.rows[0], ['event']) : null
  const resource = useView('events', { ...base, event: event ?? 0 }, event !== null)
  const stack = resource.data?.payloads.stack
  if (stack?.kind !== 'figures') return null
  return (
    <div className={`${detailCss.block} ${detailCss.stacks}`}>
      <h3>
        Call stack of the longest call
        <small>{stack.subtitle}</small>
        <EditorSetting value={prefs.editor} onChange={(editor) => setPrefs({ editor })} />
      </h3>
      {stack.figures.map((figure) => (
        <StackFrames key={figure.metric.key} stack={String(figure.value ?? '')} editor={prefs.editor} />
      ))}
    </div>
  )
}
