// Stacks: flame graph, tree, functions, exports.

import { Button } from '@mantine/core'
import { useMemo } from 'react'
import type { Query } from '../../api/client'
import type { Table, Tree, View } from '../../api/payloads'
import { deviceWord } from '../../lib/deviceWords'
import { format } from '../../lib/format'
import { splitIds } from '../../lib/laneOrder'
import { KINDS, packageColors, packageLabel } from '../../lib/packageColors'
import { hasTimelineEvents, type Row } from '../../lib/tableRows'
import { SummaryCard } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { payloadByName } from '../../parts/payloadByName'
import { TreePage } from '../../parts/treePage'
import { ViewFrame } from '../../parts/viewFrame'
import { useView } from '../../state/data'
import type { Values } from '../../state/tensorboardHash'
import { setRoute, useRoute } from '../../state/urlState'
import { LinkButton } from '../../widgets/basics'
import { Choice } from '../../widgets/choice'
import { Sentence } from '../../widgets/notices'
import { FramePanel, Functions } from './functions'
import { ALL_FRAMES, FormControl, StacksSaveMenu, StacksShowMenu } from './stacksMenus'
import { ThreadsMenu } from './threadsMenu'
import frameCss from '../../parts/viewFrame.module.css'
import textCss from '../../widgets/text.module.css'
import css from './stacks.module.css'

const FRAMES = [
  { value: '', label: 'Python and operators' },
  { value: 'python', label: 'Python' },
  { value: 'operators', label: 'Operators' },
]
const weights = () => [
  { value: '', label: 'CPU time' },
  { value: 'device', label: `${deviceWord()} time` },
]
const ALL = { of: '', weight: '', thread: '', order: '', fold: '' }

export function Stacks({ base }: PageProps) {
  const route = useRoute()
  const { of = '', weight = '', thread = '', order = '' } = route
  const chosen = foldOf(route)
  const fold = chosen === ALL_FRAMES ? '' : chosen
  const query = useMemo(
    () => ({ ...base, of, weight, thread: splitIds(thread), order, fold }),
    [base, of, weight, thread, order, fold],
  )
  const resource = useView('stacks', query)
  return (
    <ViewFrame
      resource={resource}
      bones={500}
      steps={String(base.steps ?? '')}
      action={
        of || weight || thread || order || route.fold ? (
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

/** The flame graph shows one's own code first; functions of all code are in the table. */
const foldOf = ({ fold, form }: Values) => fold || (form === 'functions' ? ALL_FRAMES : 'framework')

const choose = (change: Record<string, string>) => setRoute({ ...change, row: '', zoom: '' }, true)

const whereOf = (row: Row) => (hasTimelineEvents(row) ? [`name:${row.name}`, `kind:${row.node_kind}`] : [])

const kindOf = (row: Row) => String(row.node_kind)
const kindLabel = (row: Row) => KINDS[kindOf(row)] ?? kindOf(row)

function Page({ view, query }: { view: View; query: Query }) {
  const route = useRoute()
  const { of = '', weight = '', thread = '', order = '', form = '', colour = '' } = route
  const tree = view.payloads.stacks as Tree
  const threads = view.payloads.threads as Table
  const hasDevice = tree.columns.some(({ metric }) => metric.key === 'device_ns')
  const byPackage = useMemo(() => packageColors(tree.rows), [tree])
  const byFunction = form === 'functions'
  const hasPython = tree.rows.some((row) => kindOf(row) === 'python')
  const hasBoth = hasPython && tree.rows.some((row) => kindOf(row) !== 'python')
  // Hide pickers without a choice, unless one is set.
  const selects = [
    ...(of || hasBoth ? [{ key: 'of', label: 'Frame type', value: of, data: FRAMES }] : []),
    ...(weight || hasDevice ? [{ key: 'weight', label: 'Measure', value: weight, data: weights() }] : []),
  ]
  const lead = (
    <>
      <FormControl byFunction={byFunction} />
      {selects.map(({ key, label, value, data }) => (
        <Choice
          key={key}
          size="sm"
          className={css.choice}
          label={label}
          value={value}
          onChange={(next) => choose({ [key]: next })}
          options={data}
        />
      ))}
      <ThreadsMenu table={threads} value={thread} onChange={(next) => choose({ thread: next })} />
      <StacksShowMenu
        values={{ fold: foldOf(route), order, colour }}
        byFunction={byFunction}
        onChange={(key, value) => (key === 'colour' ? setRoute({ colour: value }) : choose({ [key]: value }))}
      />
    </>
  )
  const notes = (
    <>
      <SummaryCard view={view} />
      {!thread && <IdleThreads rows={threads.rows} />}
      {payloadByName(view, 'data_quality', 'notices')?.notices.map((notice) => (
        <p key={notice.rule} className={frameCss.note} data-testid="note">
          <Sentence notice={notice} text={notice.text} />
        </p>
      ))}
    </>
  )
  if (byFunction) {
    return (
      <div className={frameCss.page}>
        {notes}
        <Functions view="stacks" base={query} lead={lead} hasEvents />
      </div>
    )
  }
  const trail = tree.rows.length > 0 && (
    <StacksSaveMenu query={{ ...query, fold: route.fold === ALL_FRAMES ? '' : (route.fold ?? '') }} />
  )
  return (
    <TreePage
      tree={tree}
      lead={lead}
      trail={trail}
      note={notes}
      noun="places"
      whereOf={whereOf}
      tall
      details={(row) => <FramePanel name={String(row.name)} />}
      categoryOf={colour === 'kind' ? kindOf : byPackage}
      labelOf={colour === 'kind' ? kindLabel : packageLabel}
    />
  )
}

const ns = (value: Row[string]) => format(value, 'ns')

/** Threads that are excluded from sums, with the reason. */
function IdleThreads({ rows }: { rows: readonly Row[] }) {
  const idle = rows.filter((row) => row.thread_idle)
  if (idle.length === 0) return null
  const waited = idle.reduce((sum, row) => sum + Number(row.thread_wait_ns), 0)
  return (
    <p className={css.idle} data-testid="idle">
      <span title={idle.map((row) => `${row.thread} (${row.thread_key}): ${ns(row.thread_wait_ns)}`).join('\n')}>
        {idle.length === 1 ? `1 idle thread hidden: ${idle[0].thread}` : `${idle.length} idle threads hidden`}
        {`, ${ns(waited)} of waiting. `}
      </span>
      <span className={textCss.mute}>Idle: waiting for 95 % of its time, with no operator, module or range. </span>
      <LinkButton onClick={() => choose({ thread: 'all' })}>Show {idle.length === 1 ? 'it' : 'them'}</LinkButton>
    </p>
  )
}
