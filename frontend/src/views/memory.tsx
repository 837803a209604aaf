// Memory: the curve of a device, who held what at its peak, and the tables of the part of the curve that is chosen.
import { Button, SegmentedControl } from '@mantine/core'
import { createContext, memo, useContext, useEffect, useMemo, useRef, useState } from 'react'
import type { Query } from '../api/client'
import type { Breakdown, Figures, Notices, Profile, Series, Table, View } from '../api/payloads'
import { categoryColor } from '../lib/color'
import { format } from '../lib/format'
import { shortenMiddle } from '../lib/names'
import type { Row } from '../lib/pages'
import { useView } from '../state/data'
import { followLink, showInTimeline } from '../state/links'
import { setRoute, useRoute } from '../state/route'
import { Bones, Card, Swatch, useCopied } from '../widgets/basics'
import { BreakdownBar } from '../widgets/breakdown'
import { Curve, CurveBlock, CurveButtons } from '../widgets/curve'
import { type Band, type CurveMarks, windowOf } from '../widgets/curveOption'
import { FigureList, Headline } from '../widgets/figures'
import { NoticeList } from '../widgets/notices'
import { RangeFilter } from '../widgets/rangeFilter'
import { rowText } from '../widgets/table'
import { DevicePicker } from './parts/devicePicker'
import { ViewFrame } from './parts/frame'
import { HeadlineCard } from './parts/headline'
import { pick } from './parts/pick'
import { RowDetail } from './parts/rowDetail'
import { type Group, TableSection } from './parts/tableSection'
import type { ViewProps } from './view'
import breakdownCss from '../widgets/breakdown.module.css'
import layoutCss from '../widgets/layout.module.css'
import textCss from '../widgets/text.module.css'
import css from './memory.module.css'
import frameCss from './parts/frame.module.css'
import rowDetailCss from './parts/rowDetail.module.css'

const OUTERMOST = 'memory_operators_outermost'
const groupsAt = (moment: string | undefined): Group[] => [
  { table: 'memory_operators', label: 'By operator', filters: ['name', 'device'] },
  { table: OUTERMOST, label: 'Outermost', filters: ['name', 'device'] },
  {
    table: 'memory_events',
    label: 'Blocks',
    filters: ['name', 'device', 'module', 'caller', 'outermost_operator', 'block_state'],
  },
  {
    table: 'memory_peak',
    label: moment ? `Live at ${format(Number(moment), 'ns')}` : 'Live at the peak',
    filters: ['name', 'device', 'module', 'outermost_operator'],
  },
]
const KIND = { kind: 'operator' }
const ALONE = { kind: 'operator', outermost: 'true' }
/** By what live memory is summed up: names of payloads by the value of `live` in the URL, the first one without a word. */
const LIVE = [
  { value: '', payload: 'live_outermost', label: 'Outermost' },
  { value: 'operator', payload: 'live_operators', label: 'Operator' },
  { value: 'module', payload: 'live_modules', label: 'Module' },
]
/** The block that a row is about: only what lies over the curve listens, so that pointing at a row draws nothing else. */
const Pointed = createContext<Band | null>(null)

export function Memory(props: ViewProps) {
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

const Page = memo(({ base, profile, onPoint, onOpen }: ViewProps & Marking) => {
  const route = useRoute()
  const { device = '', start_ns = '', end_ns = '', at_ns = '' } = route
  const query = useMemo<Query>(
    () => ({ ...base, device, start_ns, end_ns, at_ns }),
    [base, device, start_ns, end_ns, at_ns],
  )
  const resource = useView('memory', query)
  const shown = deviceOf(resource.data, device)
  const steps = String(base.steps ?? '')
  const before = useRef(steps)
  useEffect(() => {
    // A part of the steps that were chosen before says nothing about others.
    if (before.current !== steps) setRoute({ start_ns: '', end_ns: '' })
    before.current = steps
  }, [steps])
  return (
    <div className={frameCss.page}>
      <ViewFrame resource={resource} bones={<Bones height={330} />} steps={steps}>
        {(view) => <Top view={view} profile={profile} />}
      </ViewFrame>
      {shown && <Tables base={query} device={shown} onPoint={onPoint} onOpen={onOpen} />}
    </div>
  )
})

function deviceOf(view: View | null, chosen: string): string {
  const summary = view ? pick(view, 'summary', 'figures') : null
  return chosen || (summary?.title ?? '')
}

function Top({ view, profile }: { view: View; profile: Profile }) {
  const summary = pick(view, 'summary', 'figures')
  const series = pick(view, 'curve', 'series')
  const devices = pick(view, 'devices', 'figures')
  const notes = ['advice', 'data_quality'].flatMap((name) => pick(view, name, 'notices') ?? [])
  const calls = pick(view, 'driver_calls', 'figures')
  const bars = LIVE.flatMap(({ payload }) => pick(view, payload, 'breakdown') ?? [])
  return (
    <div className={layoutCss.column}>
      {summary && (
        <HeadlineCard className={css.head} label={summary.title}>
          {devices && (
            <DevicePicker
              devices={devices}
              chosen={summary.title}
              usual={devices.figures[0]?.metric.title}
              cleared={ELSEWHERE}
            />
          )}
          <Headline figures={summary.figures} alarms={new Map()} />
        </HeadlineCard>
      )}
      <div className={css.top}>
        {series && <CurveCard series={series} summary={summary} profile={profile} />}
        {bars.length > 0 && <LiveCard bars={bars} />}
      </div>
      <Notes notes={notes} calls={calls} />
    </div>
  )
}

/** What means nothing on another device. */
const ELSEWHERE = { where: '', row: '', at_ns: '' }

const figureOf = (figures: Figures | null, key: string) =>
  figures?.figures.find((figure) => figure.metric.key === key) ?? null

function marksOf(series: Series, summary: Figures | null, profile: Profile, moment: number | null): CurveMarks {
  const bands = profile.steps.map((step) => ({ label: step.label, start: step.host_start_ns, end: step.host_end_ns }))
  const top = figureOf(summary, 'peak_allocated_bytes')
  const when = figureOf(summary, 'peak_time_ns')?.value
  const [start, end] = windowOf(series)
  const peak =
    top && typeof top.value === 'number' && typeof when === 'number' && when >= start && when <= end
      ? { x: when, y: top.value, label: `${format(top.value, 'bytes')} ${shortenMiddle(top.note, 40)}` }
      : null
  return { bands, peak, moment }
}

function CurveCard({ series, summary, profile }: { series: Series; summary: Figures | null; profile: Profile }) {
  const route = useRoute()
  const moment = route.at_ns ? Number(route.at_ns) : null
  const marks = useMemo(() => marksOf(series, summary, profile, moment), [series, summary, profile, moment])
  const zoomed = Boolean(route.start_ns || route.end_ns)
  const [start, end] = windowOf(series)
  const zoom = (low: number, high: number) => setRoute({ start_ns: String(low), end_ns: String(high), row: '' }, true)
  const reset = () => setRoute({ start_ns: '', end_ns: '', row: '' }, true)
  return (
    <Card
      title={series.title}
      subtitle={
        zoomed
          ? `${format(start, 'ns')} to ${format(end, 'ns')}: the tables show this window`
          : 'drag to zoom · click: what was live then'
      }
      actions={<CurveButtons window={[start, end]} zoomed={zoomed} onWindow={zoom} onReset={reset} />}
    >
      <Curve
        series={series}
        marks={marks}
        height={232}
        onWindow={zoom}
        // Its first click chose a moment, which nobody asked for.
        onReset={() => setRoute({ start_ns: '', end_ns: '', at_ns: '', row: '' }, true)}
        onMoment={(at) => setRoute({ at_ns: String(at) }, true)}
      >
        <PointedBlock series={series} />
      </Curve>
      <ul className={breakdownCss.key}>
        {series.lines.map((line) => (
          <LineKey key={line.metric.key} title={line.metric.title} category={line.category} />
        ))}
        {profile.steps.length > 0 && <li>Numbers above: profiler steps</li>}
      </ul>
    </Card>
  )
}

function PointedBlock({ series }: { series: Series }) {
  const life = useContext(Pointed)
  return life && <CurveBlock series={series} life={life} />
}

const LineKey = ({ title, category }: { title: string; category: string }) => (
  <li>
    <Swatch color={categoryColor(category)} />
    {title}
  </li>
)

function LiveCard({ bars }: { bars: Breakdown[] }) {
  const route = useRoute()
  const there = LIVE.filter(({ payload }) => bars.some(({ name }) => name === payload))
  const by = there.find(({ value }) => value === (route.live ?? '')) ?? there[0]
  const bar = bars.find(({ name }) => name === by.payload) ?? bars[0]
  return (
    <Card
      className={css.live}
      title={route.at_ns ? `Live at ${format(Number(route.at_ns), 'ns')}` : 'Live at the peak'}
      actions={
        <span className={textCss.row}>
          {route.at_ns && (
            <Button size="compact-xs" variant="default" onClick={() => setRoute({ at_ns: '' }, true)}>
              At the peak
            </Button>
          )}
          {bars.length > 1 && (
            <SegmentedControl
              size="xs"
              aria-label="Group live memory by"
              value={by.value}
              onChange={(live) => setRoute({ live }, true)}
              data={there.map(({ value, label }) => ({ value, label }))}
            />
          )}
        </span>
      }
    >
      <div className={layoutCss.scroll} tabIndex={0}>
        {bar.total > 0 ? (
          <BreakdownBar payload={bar} onLink={followLink} stacked />
        ) : (
          <p className={textCss.none}>Nothing known to be live.</p>
        )}
      </div>
    </Card>
  )
}

function Notes({ notes, calls }: { notes: Notices[]; calls: Figures | null }) {
  const any = calls?.figures.some((figure) => typeof figure.value === 'number' && figure.value > 0)
  const said = notes.filter((one) => one.notices.length > 0)
  if (said.length === 0 && !any) return null
  return (
    <div className={css.notes}>
      {said.map((one) => (
        <Card key={one.name} title={one.title}>
          <NoticeList notices={one.notices} onLink={followLink} none="" />
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

/** What the blocks may be filtered by: a column of whole numbers, its name on the page, and its keys in URL and question. */
const RANGES = [
  { key: 'block_bytes', label: 'Size', unit: 'bytes' },
  { key: 'lifetime_ns', label: 'Lifetime', unit: 'ns' },
] as const
const LIMITS = RANGES.flatMap(({ key }) => [`min_${key}`, `max_${key}`])
const NO_LIMITS = Object.fromEntries(LIMITS.map((key) => [key, '']))

function Tables({ base, device, onPoint, onOpen }: { base: Query; device: string } & Marking) {
  const route = useRoute()
  const limits = LIMITS.map((key) => route[key] ?? '').join(' ')
  const query = useMemo<Query>(() => {
    const values = limits.split(' ')
    return { ...base, device, ...Object.fromEntries(LIMITS.map((key, i) => [key, values[i]])) }
  }, [base, device, limits])
  const groups = useMemo(() => groupsAt(route.at_ns), [route.at_ns])
  const filters = (table: Table | null) =>
    route.group === 'memory_events' &&
    RANGES.map(({ key, label, unit }) => (
      <RangeFilter
        key={key}
        label={label}
        unit={unit}
        range={{ low: route[`min_${key}`] ?? '', high: route[`max_${key}`] ?? '' }}
        extremes={table?.extremes[key]}
        onChange={({ low, high }) => setRoute({ [`min_${key}`]: low, [`max_${key}`]: high, row: '' }, true)}
      />
    ))
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
        table.name === 'memory_operators' || table.name === OUTERMOST ? (
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

const timeOf = (row: Row, key: string) => (typeof row[key] === 'number' ? row[key] : null)

/** When a block lived, as far as the trace says; null for rows of other tables. */
function lifeOf(row: Row, table: Table): Band | null {
  if (table.name !== 'memory_events') return null
  const [start, end] = [timeOf(row, 'allocated_at_ns'), timeOf(row, 'released_at_ns')]
  // Of an event that stands alone nobody knows how long its block lived: it is a moment.
  const [first, last] =
    row.block_state === 'unpaired' ? [end, start] : [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY]
  return { label: '', start: start ?? first ?? 0, end: end ?? last ?? 0 }
}

/** What other views understand: the profile and its steps. */
const windowless = ({ run, worker, span, steps }: Query): Query => ({ run, worker, span, steps })

/** An opened block: it stands on the curve while it is open. */
function BlockDetail({ row, table, onOpen }: { row: Row; table: Table; onOpen: (block: Band | null) => void }) {
  const [copied, copy] = useCopied()
  const start = timeOf(row, 'allocated_at_ns')
  const end = timeOf(row, 'released_at_ns')
  const isBlock = table.name === 'memory_events'
  useEffect(() => {
    onOpen(lifeOf(row, table))
    return () => onOpen(null)
  }, [row, table, onOpen])
  const at = start ?? end
  return (
    <div className={rowDetailCss.grid}>
      <div data-testid="detail-name" className={rowDetailCss.name}>
        <span className={textCss.mono}>{String(row[table.name_column] ?? '')}</span>
        <span className={textCss.row}>
          {isBlock && at !== null && (
            <Button size="compact-xs" variant="default" onClick={() => showInTimeline(null, at, (end ?? at) - at)}>
              Show in timeline
            </Button>
          )}
          <Button size="compact-xs" variant="default" onClick={() => copy(rowText(row, table.columns))}>
            {copied ? 'Copied' : 'Copy row'}
          </Button>
        </span>
      </div>
      <FigureList
        figures={table.columns.flatMap(({ metric }) =>
          row[metric.key] === null || row[metric.key] === undefined
            ? []
            : [{ metric, value: row[metric.key] ?? null, note: '' }],
        )}
        whole
      />
    </div>
  )
}
