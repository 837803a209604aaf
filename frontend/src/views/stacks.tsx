// Stacks: who called whom, merged, as an icicle chart and a tree, or function by function; whole, as files for other programs.
import { Button, NativeSelect, SegmentedControl } from '@mantine/core'
import { useMemo } from 'react'
import { type Query, stacksUrl } from '../api/client'
import type { Table, Tree, View } from '../api/payloads'
import { format } from '../lib/format'
import { KINDS, packageColors, packageLabel } from '../lib/packages'
import { canBeShown, type Row } from '../lib/pages'
import { useView } from '../state/data'
import { setRoute, useRoute } from '../state/route'
import { Bones } from '../widgets/basics'
import { ViewFrame } from './parts/frame'
import { AboutPlace, Functions } from './parts/functions'
import { TreePage } from './parts/treePage'
import type { ViewProps } from './view'
import textCss from '../widgets/text.module.css'
import frameCss from './parts/frame.module.css'
import css from './stacks.module.css'

const FRAMES = [
  { value: '', label: 'Python and operators' },
  { value: 'python', label: 'Python' },
  { value: 'operators', label: 'Operators' },
]
const WEIGHTS = [
  { value: '', label: 'Host time' },
  { value: 'device', label: 'Device time' },
]
const ORDERS = [
  { value: '', label: 'Left-heavy' },
  { value: 'time', label: 'In order of time' },
]
const FOLDS = [
  { value: '', label: 'All frames' },
  { value: 'framework', label: 'Frameworks folded' },
]
const COLOURS = [
  { value: '', label: 'Colour by package' },
  { value: 'kind', label: 'Colour by kind' },
]
/** The two files and what opens them. */
const FILES = [
  { format: 'folded', label: 'Folded stacks', title: 'Text for flamegraph.pl and its kin: all stacks, nanoseconds' },
  { format: 'speedscope', label: 'speedscope', title: 'JSON for speedscope: all stacks, a profile for each thread' },
]
const ALL = { of: '', weight: '', thread: '', order: '', fold: '' }

export function Stacks({ base }: ViewProps) {
  const { of = '', weight = '', thread = '', order = '', fold = '' } = useRoute()
  const query = useMemo(() => ({ ...base, of, weight, thread, order, fold }), [base, of, weight, thread, order, fold])
  const resource = useView('stacks', query)
  return (
    <ViewFrame
      resource={resource}
      bones={<Bones height={500} />}
      steps={String(base.steps ?? '')}
      action={
        of || weight || thread || order || fold ? (
          <Button size="xs" onClick={() => choose(ALL)}>
            Show all stacks
          </Button>
        ) : undefined
      }
    >
      {(view) => <Page view={view} query={query} />}
    </ViewFrame>
  )
}

const choose = (change: Record<string, string>) => setRoute({ ...change, row: '', zoom: '' }, true)

/** Another form has other rows, and searches in other columns. */
const chooseForm = (form: string) =>
  setRoute({ form: form === 'tree' ? '' : form, row: '', zoom: '', search: '', sort: '', desc: '', cols: '' }, true)

const whereOf = (row: Row) => (canBeShown(row) ? [`name:${row.name}`, `kind:${row.node_kind}`] : [])

const kindOf = (row: Row) => String(row.node_kind)
const kindLabel = (row: Row) => KINDS[kindOf(row)] ?? kindOf(row)

function Page({ view, query }: { view: View; query: Query }) {
  const { of = '', weight = '', thread = '', order = '', fold = '', form = '', colour = '' } = useRoute()
  const tree = view.payloads.stacks as Tree
  const threads = view.payloads.threads as Table
  const hasDevice = tree.columns.some(({ metric }) => metric.key === 'device_ns')
  const byPackage = useMemo(() => packageColors(tree.rows), [tree])
  const byFunction = form === 'functions'
  const selects = [
    { key: 'of', label: 'Frames of the stacks', value: of, data: FRAMES },
    { key: 'fold', label: 'Folding of frames', value: fold, data: FOLDS },
    { key: 'weight', label: 'Time of the stacks', value: weight, data: hasDevice ? WEIGHTS : WEIGHTS.slice(0, 1) },
    ...(byFunction ? [] : [{ key: 'order', label: 'Order of the stacks', value: order, data: ORDERS }]),
    { key: 'thread', label: 'Thread', value: thread, data: threadChoices(threads.rows, thread) },
  ]
  const lead = (
    <>
      <SegmentedControl
        size="sm"
        aria-label="Form"
        value={byFunction ? 'functions' : 'tree'}
        onChange={chooseForm}
        data={[
          { value: 'tree', label: 'Flame graph' },
          { value: 'functions', label: 'Functions' },
        ]}
      />
      {selects.map(({ key, label, value, data }) => (
        <NativeSelect
          key={key}
          size="sm"
          className={css.choice}
          aria-label={label}
          value={value}
          onChange={(event) => choose({ [key]: event.currentTarget.value })}
          data={data}
        />
      ))}
    </>
  )
  const idle = !thread && <IdleThreads rows={threads.rows} />
  if (byFunction) {
    return (
      <div className={frameCss.page}>
        {idle}
        <Functions base={query} lead={lead} />
      </div>
    )
  }
  const trail = tree.rows.length > 0 && (
    <span className={textCss.row}>
      <NativeSelect
        size="sm"
        aria-label="Colours"
        value={colour}
        onChange={(event) => setRoute({ colour: event.currentTarget.value })}
        data={COLOURS}
      />
      {FILES.map(({ format, label, title }) => (
        <Button
          key={format}
          size="sm"
          variant="default"
          component="a"
          href={stacksUrl({ ...query, format })}
          title={title}
          download
        >
          {label}
        </Button>
      ))}
    </span>
  )
  return (
    <TreePage
      tree={tree}
      lead={lead}
      trail={trail}
      note={idle}
      noun="places"
      whereOf={whereOf}
      tall
      about={(row) => <AboutPlace name={String(row.name)} />}
      categoryOf={colour === 'kind' ? kindOf : byPackage}
      labelOf={colour === 'kind' ? kindLabel : packageLabel}
    />
  )
}

const ns = (value: Row[string]) => format(value, 'ns')

/** Which threads are in no sum, and why. */
function IdleThreads({ rows }: { rows: readonly Row[] }) {
  const idle = rows.filter((row) => row.thread_idle)
  if (idle.length === 0) return null
  const waited = idle.reduce((sum, row) => sum + Number(row.thread_wait_ns), 0)
  return (
    <p className={css.idle} data-testid="idle">
      <span title={idle.map((row) => `${row.thread} (${row.thread_key}): ${ns(row.thread_wait_ns)}`).join('\n')}>
        {idle.length === 1
          ? `1 idle thread is left out: ${idle[0].thread}`
          : `${idle.length} idle threads are left out`}
        {`, ${ns(waited)} of waiting. `}
      </span>
      <span className={textCss.mute}>
        Idle: in waits beneath which nothing runs for 95 % of its time, without an operator, module or range.{' '}
      </span>
      <button type="button" className={textCss.link} onClick={() => choose({ thread: 'all' })}>
        Count {idle.length === 1 ? 'it' : 'them'} as well
      </button>
    </p>
  )
}

/** All threads that work, each of them, and then the idle ones. */
function threadChoices(rows: readonly Row[], chosen: string) {
  const option = (row: Row) => ({ value: String(row.thread_key), label: threadLabel(row, rows) })
  const idle = rows.filter((row) => row.thread_idle).map(option)
  const busy = rows.filter((row) => !row.thread_idle).map(option)
  const known = ['', 'all', ...[...busy, ...idle].map(({ value }) => value)]
  return [
    { value: '', label: idle.length > 0 ? 'Threads that work' : 'All threads' },
    ...(idle.length > 0 || chosen === 'all' ? [{ value: 'all', label: 'All threads, idle ones too' }] : []),
    ...(known.includes(chosen) ? [] : [{ value: chosen, label: chosen }]),
    ...busy,
    ...(idle.length > 0 ? [{ group: 'Idle', items: idle }] : []),
  ]
}

/** The name of a thread with its time, and with its ids where another one is called the same. */
function threadLabel(row: Row, all: readonly Row[]): string {
  const same = all.filter((other) => other.thread === row.thread).length > 1
  return `${row.thread}${same ? ` (${row.thread_key})` : ''} · ${ns(row.thread_host_ns)}`
}
