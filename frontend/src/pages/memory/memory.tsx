// Memory of a trace: curve, live memory, tables.

import { createContext, memo, useCallback, useContext, useEffect, useMemo, useRef, useState } from 'react'
import type { Query } from '../../api/client'
import type { Breakdown, Catalog, Figures, Link, Notices, Profile, Series, Table, View } from '../../api/payloads'
import { ofWorker } from '../../lib/companions'
import { format } from '../../lib/format'
import { shortFrame } from '../../lib/frames'
import { shortenMiddle } from '../../lib/names'
import { Answers, HeadlineCard } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { figureOf, payloadByName } from '../../parts/payloadByName'
import { RowDetail } from '../../parts/rowDetail'
import { type Group, TableSection } from '../../parts/tableSection'
import { ViewFrame } from '../../parts/viewFrame'
import { useQuery, useView } from '../../state/data'
import { followLink } from '../../state/links'
import { openViewOfProfile, setRoute, useRoute } from '../../state/urlState'
import { Card, SmallButton } from '../../widgets/basics'
import { BreakdownBar, type OnLink } from '../../widgets/breakdown'
import { Choice } from '../../widgets/choice'
import { CurveBlock } from '../../widgets/curve'
import { type Band, type CurveMarks, windowOf } from '../../widgets/curveOption'
import { FigureList, Headline } from '../../widgets/figures'
import { NoticeList } from '../../widgets/notices'
import { ALLOCATORS, AllocatorCards, COMPONENTS, ZeroSwitch } from './allocators'
import { CompanionCard } from './companionCard'
import { DevicePicker } from './devicePicker'
import {
  BLOCKS,
  BlockDetail,
  BlockFilters,
  LIMITS,
  lifeOf,
  NO_LIMITS,
  OF_BLOCK,
  ORIGIN,
  SHAPES,
  STEPS,
} from './memoryBlocks'
import { CurveCard } from './memoryCurve'
import frameCss from '../../parts/viewFrame.module.css'
import layoutCss from '../../widgets/layout.module.css'
import textCss from '../../widgets/text.module.css'
import css from './memory.module.css'

/** Absent if the trace has levels only. */
const OPERATORS = 'memory_operators'
const OUTERMOST = 'memory_operators_outermost'
const blockGroups = (moment: string | undefined, hasSteps: boolean, hasShapes: boolean): Group[] => [
  { table: OPERATORS, label: 'By operator', filters: ['name', 'device'] },
  { table: OUTERMOST, label: 'Top-level', filters: ['name', 'device'] },
  { table: BLOCKS, label: 'Blocks', filters: [...OF_BLOCK, 'device'] },
  {
    table: 'memory_peak',
    label: moment ? `Live at ${format(Number(moment), 'ns')}` : 'Live at the peak',
    filters: [...ORIGIN, 'device'],
  },
  ...(hasSteps
    ? [
        {
          table: STEPS,
          label: 'Retained by steps',
          filters: ['name', 'module', 'allocation_frame', 'allocation_step', 'device'],
        },
      ]
    : []),
  ...(hasShapes ? [{ table: SHAPES, label: 'Changing shapes', filters: ['name', 'device'] }] : []),
]
/** Tables of totals that the profile reports. */
const OF_TOTALS: Group[] = [
  { table: ALLOCATORS, label: 'Allocators', filters: ['allocator', 'device'], nameStyle: 'plain' },
  { table: COMPONENTS, label: 'Components', filters: ['component', 'device'], nameStyle: 'plain' },
]
const TABLES = [OPERATORS, ALLOCATORS, COMPONENTS]
const KIND = { kind: 'operator' }
const ALONE = { kind: 'operator', outermost: 'true' }
const LINES = 'live_frames'
/** Groupings of live memory: payload by the value of `live` in the URL. */
const LIVE = [
  { value: '', payload: 'live_outermost', label: 'Top-level operator' },
  { value: 'operator', payload: 'live_operators', label: 'Operator' },
  { value: 'module', payload: 'live_modules', label: 'Module' },
  { value: 'category', payload: 'live_categories', label: 'Category' },
  { value: 'line', payload: LINES, label: 'Python line' },
  { value: 'phase', payload: 'live_phases', label: 'Phase' },
]
/** The hovered row's block; a context, so that hovering redraws only the curve's overlay. */
const Pointed = createContext<Band | null>(null)

export function Memory(props: PageProps) {
  const [pointed, setPointed] = useState<Band | null>(null)
  const [opened, setOpened] = useState<Band | null>(null)
  return (
    <Pointed value={pointed ?? opened}>
      <Page {...props} onPoint={setPointed} onOpen={setOpened} />
    </Pointed>
  )
}

interface Marking {
  onPoint: (block: Band | null) => void
  onOpen: (block: Band | null) => void
}

const Page = memo(({ base, catalog, profile, onPoint, onOpen }: PageProps & Marking) => {
  const route = useRoute()
  const { device = '', start_ns = '', end_ns = '', at_ns = '', allocator = '' } = route
  const query = useQuery(base, { device, start_ns, end_ns, at_ns, allocator })
  const resource = useView('memory', query)
  const shown = deviceOf(resource.data, device)
  const steps = String(base.steps ?? '')
  const before = useRef(steps)
  useEffect(() => {
    // A window of earlier steps does not apply to others.
    if (before.current !== steps) setRoute({ start_ns: '', end_ns: '' })
    before.current = steps
  }, [steps])
  const page = useRef<HTMLDivElement>(null)
  const tables = useRef<HTMLDivElement>(null)
  const follow = useCallback<OnLink>((link) => {
    followLink(link)
    // Scroll to the target of a link within the page.
    if (link.view === 'memory') (link.params.group ? tables : page).current?.scrollIntoView({ block: 'start' })
  }, [])
  return (
    <div ref={page} className={frameCss.page}>
      <ViewFrame resource={resource} bones={330} steps={steps}>
        {(view) => <Top view={view} profile={profile} catalog={catalog} onLink={follow} />}
      </ViewFrame>
      <div ref={tables} className={css.anchor} />
      {shown && resource.data && TABLES.some((name) => resource.data?.payloads[name]) && (
        <Tables
          base={query}
          device={shown}
          view={resource.data}
          hasSteps={profile.steps.length > 0}
          onPoint={onPoint}
          onOpen={onOpen}
        />
      )}
    </div>
  )
})

function deviceOf(view: View | null, chosen: string): string {
  const summary = view ? payloadByName(view, 'summary', 'figures') : null
  const stated = view ? payloadByName(view, 'allocator_curve', 'series') : null
  return chosen || (summary?.title ?? stated?.subtitle ?? '')
}

const SNAPSHOT = { view: 'allocations', params: { axis: 'time' } }

function Top({ view, profile, catalog, onLink }: { view: View; profile: Profile; catalog: Catalog; onLink: OnLink }) {
  const summary = payloadByName(view, 'summary', 'figures')
  const series = payloadByName(view, 'curve', 'series')
  const devices = payloadByName(view, 'devices', 'figures')
  const notes = ['advice', 'data_quality'].flatMap((name) => withoutCurveLinks(payloadByName(view, name, 'notices')))
  const calls = payloadByName(view, 'driver_calls', 'figures')
  const every = LIVE.flatMap(({ payload }) => payloadByName(view, payload, 'breakdown') ?? [])
  // Without totals and addresses nothing is known to be live.
  const bars = every.some(({ total }) => total > 0) ? every : []
  const hasBlocks = every.length > 0 || view.payloads[OPERATORS] !== undefined
  const peak = useMemo(() => (series ? peakOf(summary, windowOf(series)) : null), [series, summary])
  const failures = useMemo(() => failuresOf(payloadByName(view, 'out_of_memory', 'series')), [view])
  const flow = <MemoryFlowLinks catalog={catalog} profile={profile} />
  const hasFlow = ofWorker(catalog, profile, MODEL).length > 0
  return (
    <div className={layoutCss.column}>
      {summary && (
        <HeadlineCard className={css.head} label={summary.title} below>
          <Answers view={view} />
          {devices && (
            <DevicePicker
              devices={devices}
              chosen={summary.title}
              usual={devices.figures[0]?.metric.title}
              cleared={ELSEWHERE}
            />
          )}
          <Headline figures={summary.figures} />
        </HeadlineCard>
      )}
      <div className={bars.length > 0 || hasFlow ? css.top : undefined}>
        {series && (
          <CurveCard series={series} profile={profile} hasBlocks={hasBlocks} peak={peak} failures={failures}>
            <PointedBlock series={series} />
          </CurveCard>
        )}
        {bars.length > 0 ? <LiveCard bars={bars} onLink={onLink} /> : flow}
      </div>
      <AllocatorCards view={view} profile={profile} hasBlocks={hasBlocks} />
      <Notes notes={notes} calls={calls} onLink={onLink} />
      {bars.length > 0 && flow}
      <CompanionCard catalog={catalog} profile={profile} label="Open the snapshot" target={() => SNAPSHOT} />
    </div>
  )
}

/** The curve is on this page, so a link to it alone goes. */
const withoutCurveLinks = (list: Notices | null): Notices[] =>
  list
    ? [{ ...list, notices: list.notices.map((one) => (isCurve(one.evidence) ? { ...one, evidence: null } : one)) }]
    : []

const isCurve = (link: Link | null | undefined) =>
  link?.view === 'memory' && Object.keys(link.params).join() === 'device'

const ELSEWHERE = { where: '', row: '', at_ns: '', allocator: '' }

const failuresOf = (marks: Series | null): CurveMarks['failures'] =>
  marks?.x.map((x, i) => {
    const bytes = marks.lines[0].values[i]
    return { x: Number(x), label: bytes === null ? marks.title : `${marks.title}: ${format(bytes, 'bytes')} requested` }
  })

/** Characters beside the peak; half of a narrow chart. */
const PEAK_ROOM = 26

function peakOf(summary: Figures | null, [start, end]: readonly [number, number]): CurveMarks['peak'] {
  const top = figureOf(summary, 'peak_allocated_bytes')
  const when = figureOf(summary, 'peak_time_ns')?.value
  return top && typeof top.value === 'number' && typeof when === 'number' && when >= start && when <= end
    ? { x: when, y: top.value, label: `${format(top.value, 'bytes')} ${shortenMiddle(top.note, PEAK_ROOM)}` }
    : null
}

function PointedBlock({ series }: { series: Series }) {
  const life = useContext(Pointed)
  return life && <CurveBlock series={series} life={life} />
}

/** Characters of a line of Python that a bar has room for. */
const LINE_ROOM = 32

/** Lines without their folders; on hover they are whole. */
function withShortLines(bar: Breakdown): Breakdown {
  const parts = bar.parts.map((part) => {
    if (!part.link) return part
    const { title, definition } = part.metric
    return {
      ...part,
      metric: { ...part.metric, title: shortFrame(title, LINE_ROOM), definition: `${title}. ${definition}` },
    }
  })
  return { ...bar, parts }
}

function LiveCard({ bars, onLink }: { bars: Breakdown[]; onLink: OnLink }) {
  const route = useRoute()
  const there = LIVE.filter(({ payload }) => bars.some(({ name }) => name === payload))
  const by = there.find(({ value }) => value === (route.live ?? '')) ?? there[0]
  const found = bars.find(({ name }) => name === by.payload) ?? bars[0]
  const bar = found.name === LINES ? withShortLines(found) : found
  return (
    <Card
      className={css.live}
      title={route.at_ns ? `Live at ${format(Number(route.at_ns), 'ns')}` : 'Live at the peak'}
      actions={
        <span className={textCss.row}>
          {route.at_ns && <SmallButton onClick={() => setRoute({ at_ns: '' }, true)}>At the peak</SmallButton>}
          {bars.length > 1 && (
            <Choice
              label="Group live memory by"
              value={by.value}
              onChange={(next) => setRoute({ live: next }, true)}
              options={there.map(({ value, label }) => ({ value, label }))}
            />
          )}
        </span>
      }
    >
      <div className={bar.name === LINES ? `${layoutCss.scroll} ${css.lines}` : layoutCss.scroll} tabIndex={0}>
        {bar.total > 0 ? (
          <BreakdownBar payload={bar} onLink={onLink} stacked />
        ) : (
          <p className={textCss.none}>No known live allocations.</p>
        )}
      </div>
    </Card>
  )
}

function Notes({ notes, calls, onLink }: { notes: Notices[]; calls: Figures | null; onLink: OnLink }) {
  const any = calls?.figures.some((figure) => typeof figure.value === 'number' && figure.value > 0)
  const said = notes.filter((one) => one.notices.length > 0)
  if (said.length === 0 && !any) return null
  return (
    <div className={css.notes}>
      {said.map((one) => (
        <Card key={one.name} title={one.title}>
          <div className={css.notices} tabIndex={one.notices.length > 2 ? 0 : undefined}>
            <NoticeList notices={one.notices} onLink={onLink} none="" />
          </div>
        </Card>
      ))}
      {any && calls && (
        <Card title={calls.title}>
          <FigureList figures={calls.figures} />
        </Card>
      )}
    </div>
  )
}

interface TablesProps extends Marking {
  base: Query
  device: string
  view: View
  hasSteps: boolean
}

function Tables({ base, device, view, hasSteps, onPoint, onOpen }: TablesProps) {
  const route = useRoute()
  const { at_ns, zeros = '' } = route
  const states = payloadByName(view, 'block_states', 'breakdown')
  const limits = LIMITS.map((key) => route[key] ?? '').join(' ')
  const query = useMemo<Query>(() => {
    const values = limits.split(' ')
    return { ...base, device, zeros, ...Object.fromEntries(LIMITS.map((key, i) => [key, values[i]])) }
  }, [base, device, zeros, limits])
  const groups = useMemo(
    () => [
      ...(view.payloads[OPERATORS] ? blockGroups(at_ns, hasSteps, Boolean(view.payloads[SHAPES])) : []),
      ...OF_TOTALS.filter(({ table }) => view.payloads[table]),
    ],
    [view, at_ns, hasSteps],
  )
  const filters = (table: Table | null) => (
    <>
      {route.group === BLOCKS && <BlockFilters table={table} states={states} />}
      {table?.name === COMPONENTS && <ZeroSwitch counts={payloadByName(view, 'component_counts', 'figures')} />}
    </>
  )
  return (
    <TableSection
      view="memory"
      base={query}
      groups={groups}
      filters={filters}
      cleared={NO_LIMITS}
      placeholder="Search operators, text or /regex/"
      onPoint={(row, table) => onPoint(row && lifeOf(row, table))}
      detail={(row, table) =>
        table.name === OPERATORS || table.name === OUTERMOST ? (
          <RowDetail
            row={row}
            table={table}
            base={windowless(query)}
            stacks
            extra={table.name === OUTERMOST ? ALONE : KIND}
          />
        ) : (
          <BlockDetail row={row} table={table} onOpen={onOpen} />
        )
      }
    />
  )
}

const windowless = ({ run, worker, span, steps }: Query): Query => ({ run, worker, span, steps })

const MODEL = 'memory_flow'

function MemoryFlowLinks({ catalog, profile }: { catalog: Catalog; profile: Profile }) {
  const flows = ofWorker(catalog, profile, MODEL)
  if (flows.length === 0) return null
  return (
    <Card title="Tensors of this worker">
      <p className={textCss.none}>Address, lifetime and allocating operator of each tensor.</p>
      {flows.map((address) => (
        <SmallButton key={address.span} onClick={() => openViewOfProfile({ ...address }, MODEL, {})}>
          Open the memory flow{flows.length > 1 && ` of span ${address.span}`}
        </SmallButton>
      ))}
    </Card>
  )
}
