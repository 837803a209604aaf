// Launches: queue depth, latencies, short kernels, runtime calls.

import type { Query } from '../../api/client'
import type { Figure, Figures, Table, View } from '../../api/payloads'
import { deviceWord } from '../../lib/deviceWords'
import { shortFrame } from '../../lib/frames'
import { shortenMiddle, shortKernel } from '../../lib/names'
import { isPerStep } from '../../lib/perStep'
import type { Row } from '../../lib/tableRows'
import { EventFacts, FirstRows, RowFigures, StackBlock } from '../../parts/detailBlock'
import { HeadlineCard } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { figureOf, figureValue, payloadByName } from '../../parts/payloadByName'
import { firstNumber, RowDetail } from '../../parts/rowDetail'
import { TablePage } from '../../parts/tablePage'
import type { Group } from '../../parts/tableSection'
import { useView } from '../../state/data'
import { showHits } from '../../state/links'
import { joinList } from '../../state/tensorboardHash'
import { setRoute } from '../../state/urlState'
import { Card, LinkButton, SmallButton, Value } from '../../widgets/basics'
import { Chart } from '../../widgets/chart'
import { Headline } from '../../widgets/figures'
import { Advice } from '../../widgets/notices'
import { kernelsOf } from '../../widgets/tableCells'
import layoutCss from '../../widgets/layout.module.css'
import textCss from '../../widgets/text.module.css'
import css from './launches.module.css'

const BY_CALLER = 'runtime_calls_by_caller'
const GROUPS: Group[] = [
  { table: 'runtime_calls', label: 'By call', filters: ['name'] },
  { table: BY_CALLER, label: 'By caller', widest: 210 },
  { table: 'launch_operators', label: 'By operator', filters: ['operator'], widest: 210 },
  { table: 'launch_kernels', label: 'By kernel', filters: ['name'], nameStyle: 'kernel', widest: 210 },
  { table: 'late_launches', label: 'Late starts', filters: ['name', 'operator', 'device'], nameStyle: 'kernel' },
  { table: 'queue_depths', label: 'Queues', filters: ['device'], nameStyle: 'plain' },
  { table: 'kernel_sequences', label: 'Sequences', filters: ['stream', 'device'], nameStyle: 'sequence', widest: 210 },
]
const CALLS = new Set(['runtime_calls', BY_CALLER])
const MOMENTS = new Set(['late_launches', 'kernel_sequences'])
const KIND = { kind: 'runtime' }
const CALLER = ['operator', 'caller_phase', 'caller_frame']

export function Launches({ base }: PageProps) {
  const resource = useView('launches', base)
  return (
    <TablePage
      view="launches"
      resource={resource}
      base={base}
      bones={78}
      top={(view) => <Top view={view} />}
      groups={GROUPS}
      placeholder="Search, text or /regex/"
      detail={(row, table) => <Detail row={row} table={table} base={base} />}
    />
  )
}

function Top({ view }: { view: View }) {
  const summary = payloadByName(view, 'launch_summary', 'figures')
  const answer = payloadByName(view, 'launch_answer', 'notices')?.notices[0]
  const queue = payloadByName(view, 'queue_times', 'series')
  const calls = payloadByName(view, 'summary', 'figures')
  const call = payloadByName(view, 'longest_call', 'figures')
  const caller = payloadByName(view, 'longest_caller', 'figures')
  return (
    <div className={layoutCss.grid}>
      <HeadlineCard label="Launches" below className={queue ? layoutCss.span8 : ''}>
        {answer && (
          <p className={css.say} data-testid="launch-answer">
            <Advice notice={answer} />
          </p>
        )}
        {calls && call && caller && <CallsSentence calls={calls} call={call} caller={caller} />}
        {summary && <Headline figures={summary.figures} />}
      </HeadlineCard>
      {queue && (
        <Card className={layoutCss.span4} title={queue.title} subtitle={queue.subtitle}>
          <div className={layoutCss.chart}>
            <Chart series={queue} height="100%" compact />
          </div>
        </Card>
      )}
    </div>
  )
}

function CallsSentence({ calls, call, caller }: { calls: Figures; call: Figures; caller: Figures }) {
  const name = String(figureValue(call, 'name') ?? '')
  const idle = figureOf(call, 'device_idle_ns')
  const idles = Number(idle?.value ?? 0) > 0
  const key = idles ? 'device_idle_ns' : 'host_self_ns'
  const [time, part] = [call, caller].map((figures) => figureOf(figures, key))
  const each = time && isPerStep(time.metric) ? ' per step' : ''
  return (
    <p className={css.say} data-testid="answer">
      Runtime calls take <Amount figure={figureOf(calls, key)} /> of CPU time{each}
      {idles && ' while all streams are idle'}, mostly <Code text={name} /> (<Amount figure={time} /> in{' '}
      <Amount figure={figureOf(call, 'calls')} /> {figureValue(call, 'calls') === 1 ? 'call' : 'calls'})
      {idle && !idles && '; at least one stream is busy during these calls'}
      {!idle && `; ${deviceWord()} activity was not recorded`}. <CallerText caller={caller} part={part} whole={time} />
      <span className={css.ways}>
        <LinkButton onClick={() => setRoute({ group: '', where: '', search: '', row: name }, true)}>
          Show callers
        </LinkButton>
        <LinkButton onClick={() => showHits([`name:${name}`, 'kind:runtime'], name)}>Show in timeline</LinkButton>
      </span>
    </p>
  )
}

function CallerText({ caller, part, whole }: { caller: Figures; part?: Figure; whole?: Figure }) {
  const text = (key: string) => {
    const value = figureValue(caller, key)
    return typeof value === 'string' && value !== '' ? value : null
  }
  const [operator, phase, frame] = CALLER.map(text)
  if (operator === null && phase === null && frame === null) return null
  return (
    <>
      {part?.value === whole?.value ? (
        'All of this is'
      ) : (
        <>
          <Amount figure={part} /> of this is
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
  if (MOMENTS.has(table.name)) return <Moment row={row} table={table} />
  if (table.name === 'queue_depths') return <RowFigures row={row} table={table} />
  if (!CALLS.has(table.name)) return <RowDetail row={row} table={table} base={base} />
  return (
    <RowDetail
      row={row}
      table={table}
      base={base}
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

/** A late launch, or the first repeat of a sequence: its numbers, and the way to its events. */
function Moment({ row, table }: { row: Row; table: Table }) {
  const { kernel_sequence: sequence } = row
  return (
    <EventFacts
      row={row}
      table={table}
      isShown={({ hidden, metric }) => !hidden && metric.key !== 'kernel_sequence'}
      more={
        typeof sequence === 'string' && (
          <ol className={css.kernels} aria-label="Kernels">
            {kernelsOf(sequence).map((name, i) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: one kernel may stand at several places, which never change.
              <li key={i} className={textCss.mono} title={name}>
                {shortKernel(name)}
              </li>
            ))}
          </ol>
        )
      }
    />
  )
}

function Callers({ name, base }: { name: string; base: Query }) {
  const where = `name:${name}`
  return (
    <FirstRows
      title="Callers"
      view="launches"
      table={BY_CALLER}
      base={base}
      where={where}
      limit={8}
      without={['name']}
      show={{
        label: 'Show these calls in the timeline',
        of: (row, key) => () => showHits([...key.map((each) => `${each}:${row[each] ?? ''}`), 'kind:runtime'], name),
      }}
      more={
        <SmallButton
          onClick={() => setRoute({ group: BY_CALLER, where: joinList([where]), row: '', sort: '', cols: '' }, true)}
        >
          Show all
        </SmallButton>
      }
      testid="callers"
    />
  )
}

function LongestStack({ instances, base }: { instances: Table; base: Query }) {
  const event = instances.rows.length > 0 ? firstNumber(instances.rows[0], ['event']) : null
  const resource = useView('events', { ...base, event: event ?? 0 }, event !== null)
  const stack = resource.data?.payloads.stack
  if (stack?.kind !== 'figures') return null
  return (
    <StackBlock
      title="Call stack of the longest call"
      small={stack.subtitle}
      stacks={stack.figures.map(({ value }) => String(value ?? ''))}
    />
  )
}
