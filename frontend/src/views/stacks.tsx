// Stacks: who called whom, merged, as an icicle chart and as a tree; whole, as files for other programs.
import { Button, NativeSelect } from '@mantine/core'
import { useMemo } from 'react'
import { type Query, stacksUrl } from '../api/client'
import type { Table, Tree, View } from '../api/payloads'
import type { Row } from '../lib/pages'
import { useView } from '../state/data'
import { setRoute, useRoute } from '../state/route'
import { Bones } from '../widgets/basics'
import { ViewFrame } from './parts/frame'
import { TreePage } from './parts/treePage'
import type { ViewProps } from './view'
import textCss from '../widgets/text.module.css'

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
/** The two files and what opens them. */
const FILES = [
  { format: 'folded', label: 'Folded stacks', title: 'Text for flamegraph.pl and its kin: all stacks, nanoseconds' },
  { format: 'speedscope', label: 'speedscope', title: 'JSON for speedscope: all stacks, a profile for each thread' },
]

export function Stacks({ base }: ViewProps) {
  const { of = '', weight = '', thread = '', order = '' } = useRoute()
  const query = useMemo(() => ({ ...base, of, weight, thread, order }), [base, of, weight, thread, order])
  const resource = useView('stacks', query)
  return (
    <ViewFrame
      resource={resource}
      bones={<Bones height={500} />}
      steps={String(base.steps ?? '')}
      action={
        of || weight || thread || order ? (
          <Button size="xs" onClick={() => choose({ of: '', weight: '', thread: '', order: '' })}>
            Show all stacks
          </Button>
        ) : undefined
      }
    >
      {(view) => <Page view={view} query={query} />}
    </ViewFrame>
  )
}

const ALL_THREADS = { value: '', label: 'All threads' }

const choose = (change: Record<string, string>) => setRoute({ ...change, row: '', zoom: '' }, true)

const whereOf = (row: Row) => [`name:${row.name}`, `kind:${row.node_kind}`]

const categoryOf = (row: Row) => String(row.node_kind)

function Page({ view, query }: { view: View; query: Query }) {
  const { of = '', weight = '', thread = '', order = '' } = useRoute()
  const tree = view.payloads.stacks as Tree
  const threads = view.payloads.threads as Table
  const hasDevice = tree.columns.some(({ metric }) => metric.key === 'device_ns')
  const listed = threads.rows.map((row) => ({ value: String(row.thread_key), label: threadLabel(row, threads.rows) }))
  const unlisted = thread && !listed.some(({ value }) => value === thread) ? [{ value: thread, label: thread }] : []
  const selects = [
    { key: 'of', label: 'Frames of the stacks', value: of, data: FRAMES },
    { key: 'weight', label: 'Time of the stacks', value: weight, data: hasDevice ? WEIGHTS : WEIGHTS.slice(0, 1) },
    { key: 'order', label: 'Order of the stacks', value: order, data: ORDERS },
    { key: 'thread', label: 'Thread', value: thread, data: [ALL_THREADS, ...unlisted, ...listed] },
  ]
  const choices = selects.map(({ key, label, value, data }) => (
    <NativeSelect
      key={key}
      size="sm"
      aria-label={label}
      value={value}
      onChange={(event) => choose({ [key]: event.currentTarget.value })}
      data={data}
    />
  ))
  const exports = tree.rows.length > 0 && (
    <span className={textCss.row}>
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
    <TreePage tree={tree} lead={choices} trail={exports} noun="places" whereOf={whereOf} tall categoryOf={categoryOf} />
  )
}

/** The name of a thread, with its ids where another one is called the same. */
function threadLabel(row: Row, all: readonly Row[]): string {
  const same = all.filter((other) => other.thread === row.thread).length > 1
  return same ? `${row.thread} (${row.thread_key})` : String(row.thread)
}
