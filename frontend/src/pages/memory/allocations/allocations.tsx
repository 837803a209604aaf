// Memory snapshot: peak, history, tables.
import { memo, useCallback, useEffect, useMemo, useRef } from 'react'
import type { Query } from '../../../api/client'
import type { Profile, Table, View } from '../../../api/payloads'
import { translateTime } from '../../../lib/companions'
import type { Row } from '../../../lib/tableRows'
import { Answers, HeadlineCard, todoOf } from '../../../parts/headlineCard'
import type { PageProps } from '../../../parts/page'
import { figureValue, payloadByName } from '../../../parts/payloadByName'
import { EditorSetting, StackFrames } from '../../../parts/stack'
import { type Group, TableSection } from '../../../parts/tableSection'
import { ViewFrame } from '../../../parts/viewFrame'
import type { Companion } from '../../../state/companions'
import { useQuery, useView } from '../../../state/data'
import { followLink } from '../../../state/links'
import { setRoute, useRoute } from '../../../state/urlState'
import { Card, CopyButton, SmallButton } from '../../../widgets/basics'
import { BreakdownBar } from '../../../widgets/breakdown'
import { FigureList, Headline } from '../../../widgets/figures'
import { NoticeList } from '../../../widgets/notices'
import { RangeFilter } from '../../../widgets/rangeFilter'
import { rowText } from '../../../widgets/tableRow'
import { CompanionCard } from '../companionCard'
import { DevicePicker } from '../devicePicker'
import { AllocatingOperator } from './allocatingOperator'
import { EVENTS, HistoryCard } from './historyCard'
import rowDetailCss from '../../../parts/rowDetail.module.css'
import frameCss from '../../../parts/viewFrame.module.css'
import layoutCss from '../../../widgets/layout.module.css'
import textCss from '../../../widgets/text.module.css'
import css from './allocations.module.css'

const STACK = 'allocation_stack'
/** Steps, and times at which memory ran out, that are marked at most. */
const MOST_MARKS = 1000
const BLOCKS = 'held_blocks'
const WHOLE = 'whole'

/** Room around a moment when the timeline opens at it, in ns. */
const AROUND_NS = 100_000

/** The link's time: the selected moment, else the overlap's start. */
function inTrace(profile: Profile, view: View, beside: Companion): { view: string; params: Record<string, string> } {
  const [here, there] = [profile.clock, beside.profile?.clock]
  const moment = figureValue(payloadByName(view, 'moment', 'figures'), 'event_ns')
  if (!here || !there || typeof moment !== 'number') return { view: 'timeline', params: {} }
  const at = translateTime(moment, here, there)
  if (at < 0 || at > there.length_ns) return { view: 'timeline', params: {} }
  return {
    view: 'timeline',
    params: { start_ns: String(Math.max(0, Math.round(at - AROUND_NS))), end_ns: String(Math.round(at + AROUND_NS)) },
  }
}

export function Allocations({ base: asked, catalog, profile }: PageProps) {
  const route = useRoute()
  const { device = '', at = '' } = route
  const { run, worker, span } = asked
  const base = useMemo<Query>(() => ({ run, worker, span, device }), [run, worker, span, device])
  const query = useQuery(base, { at, limit: MOST_MARKS })
  const resource = useView('allocations', query)
  const tables = useRef<HTMLDivElement>(null)
  const showBlocks = useCallback((where: string) => {
    setRoute({ group: BLOCKS, where, row: '', search: '', sort: '', desc: '' }, true)
    tables.current?.scrollIntoView({ block: 'start' })
  }, [])
  // A link from a trace's event leads to its blocks, below everything else.
  const isAsked = useRef(ALLOCATED.some((key) => route[key] !== undefined))
  const isReady = resource.data !== null
  useEffect(() => {
    if (isReady && isAsked.current) tables.current?.scrollIntoView()
    if (isReady) isAsked.current = false
  }, [isReady])
  return (
    <div className={frameCss.page}>
      <ViewFrame resource={resource} bones={520}>
        {(view) => (
          <div className={layoutCss.column}>
            <Top view={view} />
            <Findings view={view} />
            <HistoryCard
              view={view}
              base={base}
              onBlocks={showBlocks}
              blockNote={(block) => <AllocatingOperator catalog={catalog} profile={profile} block={block} />}
            />
            <Categories view={view} />
            <Notes view={view} />
            <CompanionCard
              catalog={catalog}
              profile={profile}
              label="Show in the timeline"
              target={(beside) => inTrace(profile, view, beside)}
            />
          </div>
        )}
      </ViewFrame>
      <div ref={tables} className={css.anchor} />
      <Tables
        base={base}
        hasOoms={Boolean(resource.data && payloadByName(resource.data, 'oom_events', 'table')?.total_rows)}
        usual={
          resource.data && !payloadByName(resource.data, 'curve', 'series')
            ? 'Allocated at the snapshot'
            : 'Allocated at the peak'
        }
      />
    </div>
  )
}

const Top = memo(({ view }: { view: View }) => {
  const summary = payloadByName(view, 'summary', 'figures')
  const devices = payloadByName(view, 'devices', 'figures')
  return (
    <>
      {summary && (
        <HeadlineCard className={css.head} label={summary.title} below>
          <Answers view={view} add={todoOf} />
          <div className={css.numbers}>
            {devices && <DevicePicker devices={devices} chosen={summary.title} cleared={ELSEWHERE} />}
            <Headline figures={summary.figures.filter(({ metric }) => metric.key !== EVENTS)} />
          </div>
        </HeadlineCard>
      )}
    </>
  )
})

/** One line each until expanded, so that the blocks stay visible. */
const Findings = memo(({ view }: { view: View }) => {
  const { findings = '' } = useRoute()
  const found = payloadByName(view, 'advice', 'notices')
  if (!found || found.notices.length === 0) return null
  const isWhole = findings === WHOLE
  return (
    <Card
      title={found.title}
      actions={
        <SmallButton aria-expanded={isWhole} onClick={() => setRoute({ findings: isWhole ? '' : WHOLE })}>
          {isWhole ? 'Shorten to one line' : 'Show advice'}
        </SmallButton>
      }
    >
      <NoticeList notices={found.notices} onLink={followLink} none="" isFolded={!isWhole} />
    </Card>
  )
})

const Categories = memo(({ view }: { view: View }) => {
  const bar = payloadByName(view, 'held_categories', 'breakdown')
  return (
    bar && (
      <Card title={bar.title}>
        <BreakdownBar payload={bar} onLink={followLink} />
      </Card>
    )
  )
})

const Notes = memo(({ view }: { view: View }) => {
  const notes = payloadByName(view, 'data_quality', 'notices')
  const settings = payloadByName(view, 'settings', 'figures')
  const hasNotes = (notes?.notices.length ?? 0) > 0
  const hasSettings = (settings?.figures.length ?? 0) > 0
  if (!hasNotes && !hasSettings) return null
  return (
    <div className={css.notes}>
      {hasNotes && notes && (
        <Card title={notes.title}>
          <NoticeList notices={notes.notices} onLink={followLink} none="" />
        </Card>
      )}
      {hasSettings && settings && (
        <Card title={settings.title}>
          <FigureList figures={settings.figures} />
        </Card>
      )}
    </div>
  )
})

const WINDOW = ['from', 'to', 'from_ns', 'to_ns'] as const
const ALLOCATED = ['min_begin_ns', 'max_begin_ns'] as const
const OF_BLOCKS = [...WINDOW, ...ALLOCATED]
const NO_ALLOCATED = Object.fromEntries(ALLOCATED.map((key) => [key, '']))
/** State that another device invalidates. */
const ELSEWHERE = Object.fromEntries([...OF_BLOCKS, 'at', 'block', 'segment', 'where', 'row'].map((key) => [key, '']))

function Tables({ base, hasOoms, usual }: { base: Query; hasOoms: boolean; usual: string }) {
  const route = useRoute()
  const { at = '' } = route
  // Other tables use the moment, not the visible window.
  const window = route.group === BLOCKS ? OF_BLOCKS.map((key) => route[key] ?? '').join(' ') : ''
  const query = useMemo<Query>(() => {
    const values = window.split(' ')
    return { ...base, at, ...Object.fromEntries(OF_BLOCKS.map((key, i) => [key, values[i] ?? ''])) }
  }, [base, at, window])
  const groups = useMemo<Group[]>(
    () => [
      {
        table: 'held_stacks',
        label: at ? `Allocated after event ${Number(at).toLocaleString('en-US')}` : usual,
        filters: ['allocation_line'],
      },
      { table: BLOCKS, label: 'Blocks' },
      ...(hasOoms ? [{ table: 'oom_events', label: 'Out of memory', filters: ['allocation_line'] }] : []),
    ],
    [at, hasOoms, usual],
  )
  return (
    <TableSection
      view="allocations"
      base={query}
      groups={groups}
      placeholder="Search lines, text or /regex/"
      filters={(table) => route.group === BLOCKS && <AllocatedFilter table={table} />}
      cleared={NO_ALLOCATED}
      detail={(row, table) => <Detail row={row} table={table} />}
    />
  )
}

function AllocatedFilter({ table }: { table: Table | null }) {
  const route = useRoute()
  const [low, high] = ALLOCATED.map((key) => route[key] ?? '')
  return (
    <RangeFilter
      label="Allocated at"
      unit="ns"
      range={{ low, high }}
      extremes={table?.extremes.begin_ns}
      onChange={(next) => setRoute({ min_begin_ns: next.low, max_begin_ns: next.high, row: '' }, true)}
    />
  )
}

/** An opened row: its whole stack, and the way to its band. */
function Detail({ row, table }: { row: Row; table: Table }) {
  const stack = row[STACK]
  const { block_row: block, event_number: event } = row
  return (
    <div className={rowDetailCss.grid}>
      <div data-testid="detail-name" className={rowDetailCss.name}>
        <span className={textCss.row}>
          {typeof block === 'number' && (
            <SmallButton onClick={() => setRoute({ block: String(block) }, true)}>Highlight in chart</SmallButton>
          )}
          {typeof event === 'number' && (
            <SmallButton onClick={() => setRoute({ at: String(event) }, true)}>Show memory at this event</SmallButton>
          )}
          <CopyButton label="Copy row" text={() => rowText(row, table.columns)} />
          <EditorSetting />
        </span>
      </div>
      {typeof stack === 'string' && stack !== '' ? (
        <div className={css.stack}>
          <StackFrames stack={stack} />
        </div>
      ) : (
        <p className={textCss.none}>The snapshot has no stack for this row.</p>
      )}
    </div>
  )
}
