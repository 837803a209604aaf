// Memory: the curve of a device, who held what at its peak, and the tables of the part of the curve that is chosen.
import { Button, NativeSelect, SegmentedControl } from '@mantine/core'
import { useEffect, useMemo, useState } from 'react'
import type { Query } from '../api/client'
import type { Breakdown, Figures, Notices, Profile, Series, Table, View } from '../api/payloads'
import { categoryColor } from '../lib/color'
import { format } from '../lib/format'
import type { Row } from '../lib/pages'
import { useView } from '../state/data'
import { followLink, showInTimeline } from '../state/links'
import { setRoute, useRoute } from '../state/route'
import { Bones, Card, Swatch, useCopied } from '../widgets/basics'
import { BreakdownBar } from '../widgets/breakdown'
import { Curve, CurveButtons } from '../widgets/curve'
import { type Band, type CurveMarks, windowOf } from '../widgets/curveOption'
import { FigureList, Headline } from '../widgets/figures'
import { NoticeList } from '../widgets/notices'
import { rowText } from '../widgets/table'
import { ViewFrame } from './parts/frame'
import { pick } from './parts/pick'
import { RowDetail } from './parts/rowDetail'
import { type Group, TableSection } from './parts/tableSection'
import type { ViewProps } from './view'

const GROUPS: Group[] = [
  { table: 'memory_operators', label: 'By operator', filters: ['name', 'device'] },
  { table: 'memory_events', label: 'Blocks', filters: ['name', 'device', 'module', 'caller', 'block_state'] },
  { table: 'memory_peak', label: 'Live at the peak', filters: ['name', 'device', 'module'] },
]
const KIND = { kind: 'operator' }
const SIZES = [1, 2 ** 10, 2 ** 20, 2 ** 24, 2 ** 27, 2 ** 30]
const LIVES = [1, 1e3, 1e6, 1e7, 1e8, 1e9]

export function Memory({ base, profile }: ViewProps) {
  const route = useRoute()
  const { device = '', start_ns = '', end_ns = '', at_ns = '' } = route
  const query = useMemo<Query>(
    () => ({ ...base, device, start_ns, end_ns, at_ns }),
    [base, device, start_ns, end_ns, at_ns],
  )
  const resource = useView('memory', query)
  const [block, setBlock] = useState<Band | null>(null)
  const shown = deviceOf(resource.data, device)
  return (
    <div className="tt-page-table">
      <ViewFrame resource={resource} bones={<Bones height={330} />} steps={String(base.steps ?? '')}>
        {(view) => <Top view={view} profile={profile} block={block} />}
      </ViewFrame>
      {shown && <Tables base={query} device={shown} onBlock={setBlock} />}
    </div>
  )
}

function deviceOf(view: View | null, chosen: string): string {
  const summary = view ? pick(view, 'summary', 'figures') : null
  return chosen || (summary?.title ?? '')
}

function Top({ view, profile, block }: { view: View; profile: Profile; block: Band | null }) {
  const summary = pick(view, 'summary', 'figures')
  const series = pick(view, 'curve', 'series')
  const devices = pick(view, 'devices', 'figures')
  const advice = pick(view, 'advice', 'notices')
  const calls = pick(view, 'driver_calls', 'figures')
  const bars = ['live_operators', 'live_modules'].flatMap((name) => pick(view, name, 'breakdown') ?? [])
  return (
    <div className="tt-column">
      {summary && (
        <Card className="tt-headline-card tt-memory-head" label={summary.title}>
          {devices && <DevicePicker devices={devices} chosen={summary.title} />}
          <Headline figures={summary.figures} alarms={new Map()} />
        </Card>
      )}
      <div className="tt-memory-top">
        {series && <CurveCard series={series} summary={summary} profile={profile} block={block} />}
        {bars.length > 0 && <LiveCard bars={bars} />}
      </div>
      <Notes advice={advice} calls={calls} />
    </div>
  )
}

function DevicePicker({ devices, chosen }: { devices: Figures; chosen: string }) {
  const names = devices.figures.map((figure) => figure.metric.title)
  const choose = (name: string) =>
    setRoute({ device: name === names[0] ? '' : name, where: '', row: '', at_ns: '' }, true)
  if (names.length === 1) return <b className="tt-memory-device">{chosen}</b>
  if (names.length > 4) {
    return (
      <NativeSelect
        className="tt-memory-device"
        aria-label="Device"
        value={chosen}
        onChange={(event) => choose(event.currentTarget.value)}
        data={names}
      />
    )
  }
  return (
    <SegmentedControl className="tt-memory-device" aria-label="Device" value={chosen} onChange={choose} data={names} />
  )
}

const figureOf = (figures: Figures | null, key: string) =>
  figures?.figures.find((figure) => figure.metric.key === key) ?? null

function marksOf(
  series: Series,
  summary: Figures | null,
  profile: Profile,
  block: Band | null,
  moment: number | null,
): CurveMarks {
  const bands = profile.steps.map((step) => ({ label: step.label, start: step.start_ns, end: step.end_ns }))
  const top = figureOf(summary, 'peak_allocated_bytes')
  const when = figureOf(summary, 'peak_time_ns')?.value
  const [start, end] = windowOf(series)
  const peak =
    top && typeof top.value === 'number' && typeof when === 'number' && when >= start && when <= end
      ? { x: when, y: top.value, label: `${format(top.value, 'bytes')} ${top.note}` }
      : null
  return { bands, peak, block, moment }
}

function CurveCard(props: { series: Series; summary: Figures | null; profile: Profile; block: Band | null }) {
  const { series, summary, profile, block } = props
  const route = useRoute()
  const moment = route.at_ns ? Number(route.at_ns) : null
  const marks = useMemo(
    () => marksOf(series, summary, profile, block, moment),
    [series, summary, profile, block, moment],
  )
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
        onReset={reset}
        onMoment={(at) => setRoute({ at_ns: String(at) }, true)}
      />
      <ul className="tt-key tt-curve-key">
        {series.lines.map((line) => (
          <LineKey key={line.metric.key} title={line.metric.title} category={line.category} />
        ))}
        {profile.steps.length > 0 && <li>Numbers above: profiler steps</li>}
      </ul>
    </Card>
  )
}

const LineKey = ({ title, category }: { title: string; category: string }) => (
  <li>
    <Swatch color={categoryColor(category)} />
    {title}
  </li>
)

function LiveCard({ bars }: { bars: Breakdown[] }) {
  const route = useRoute()
  const [by, setBy] = useState('live_operators')
  const bar = bars.find((item) => item.name === by) ?? bars[0]
  return (
    <Card
      className="tt-memory-live"
      title={bar.title.replace(/ by (operator|module)$/, '')}
      subtitle={route.at_ns ? format(Number(route.at_ns), 'ns') : undefined}
      actions={
        <span className="tt-row">
          {route.at_ns && (
            <Button size="compact-xs" variant="default" onClick={() => setRoute({ at_ns: '' }, true)}>
              At the peak
            </Button>
          )}
          {bars.length > 1 && (
            <SegmentedControl
              size="xs"
              aria-label="Group live memory by"
              value={bar.name}
              onChange={setBy}
              data={[
                { value: 'live_operators', label: 'Operator' },
                { value: 'live_modules', label: 'Module' },
              ]}
            />
          )}
        </span>
      }
    >
      <div className="tt-scroll" tabIndex={0}>
        {bar.total > 0 ? (
          <BreakdownBar payload={bar} onLink={followLink} />
        ) : (
          <p className="tt-none">Nothing known to be live.</p>
        )}
      </div>
    </Card>
  )
}

function Notes({ advice, calls }: { advice: Notices | null; calls: Figures | null }) {
  const any = calls?.figures.some((figure) => typeof figure.value === 'number' && figure.value > 0)
  if ((!advice || advice.notices.length === 0) && !any) return null
  return (
    <div className="tt-memory-notes">
      {advice && advice.notices.length > 0 && (
        <Card title={advice.title}>
          <NoticeList notices={advice.notices} onLink={followLink} none="" />
        </Card>
      )}
      {any && calls && (
        <Card title={calls.title}>
          <FigureList figures={calls.figures} />
        </Card>
      )}
    </div>
  )
}

function Tables({ base, device, onBlock }: { base: Query; device: string; onBlock: (block: Band | null) => void }) {
  const route = useRoute()
  const { min_size = '', min_life = '', group = '' } = route
  const query = useMemo<Query>(
    () => ({ ...base, device, min_block_bytes: min_size, min_lifetime_ns: min_life }),
    [base, device, min_size, min_life],
  )
  const lead =
    group === 'memory_events' ? (
      <>
        <Least label="Size" name="min_size" value={min_size} steps={SIZES} unit="bytes" />
        <Least label="Lifetime" name="min_life" value={min_life} steps={LIVES} unit="ns" />
      </>
    ) : null
  return (
    <TableSection
      view="memory"
      base={query}
      groups={GROUPS}
      lead={lead}
      placeholder="Search operators, text or /regex/"
      detail={(row, table) =>
        table.name === 'memory_operators' ? (
          <RowDetail row={row} table={table} base={windowless(query)} stacks extra={KIND} />
        ) : (
          <BlockDetail row={row} table={table} onBlock={onBlock} />
        )
      }
    />
  )
}

/** What other views understand: the profile and its steps. */
const windowless = ({ run, worker, span, steps }: Query): Query => ({ run, worker, span, steps })

function Least(props: {
  label: string
  name: 'min_size' | 'min_life'
  value: string
  steps: readonly number[]
  unit: 'bytes' | 'ns'
}) {
  const { label, name, value, steps, unit } = props
  const own = value !== '' && !steps.includes(Number(value)) ? [Number(value)] : []
  return (
    <NativeSelect
      size="sm"
      aria-label={`Least ${label.toLowerCase()}`}
      value={value}
      onChange={(event) => setRoute({ [name]: event.currentTarget.value, row: '' })}
      data={[
        { value: '', label: `${label}: any` },
        ...[...own, ...steps].map((least) => ({ value: String(least), label: `${label} ≥ ${format(least, unit)}` })),
      ]}
    />
  )
}

/** An opened block: it stands on the curve while it is open. */
function BlockDetail({ row, table, onBlock }: { row: Row; table: Table; onBlock: (block: Band | null) => void }) {
  const [copied, copy] = useCopied()
  const start = typeof row.allocated_at_ns === 'number' ? row.allocated_at_ns : null
  const end = typeof row.released_at_ns === 'number' ? row.released_at_ns : null
  const isBlock = table.name === 'memory_events'
  useEffect(() => {
    if (!isBlock) return
    onBlock({ label: '', start: start ?? Number.MIN_SAFE_INTEGER, end: end ?? Number.MAX_SAFE_INTEGER })
    return () => onBlock(null)
  }, [isBlock, start, end, onBlock])
  const at = start ?? end
  return (
    <div className="tt-detail-grid">
      <div className="tt-detail-name">
        <span className="tt-mono">{String(row[table.name_column] ?? '')}</span>
        <span className="tt-row">
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
