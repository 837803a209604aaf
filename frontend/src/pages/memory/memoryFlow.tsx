// Memory flow: addresses and lifetimes of tensors.

import { Button } from '@mantine/core'
import { useMemo, useState } from 'react'
import type { Query } from '../../api/client'
import type { Figures, MemoryFlowMap, Series, Table, View } from '../../api/payloads'
import { COLORED, LIVES, operatorColor } from '../../canvas/memoryFlow'
import { boxColors } from '../../canvas/surface'
import { categoryColor } from '../../lib/color'
import { ofWorker } from '../../lib/companions'
import { counted, format } from '../../lib/format'
import type { Address } from '../../lib/profiles'
import type { Pages, Row } from '../../lib/tableRows'
import { RowFigures } from '../../parts/detailBlock'
import { firstEvent } from '../../parts/firstEvent'
import { NoticesCard, SummaryCard } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { figureValue, payloadByName } from '../../parts/payloadByName'
import { TablePage } from '../../parts/tablePage'
import type { Group } from '../../parts/tableSection'
import { useQuery, useView } from '../../state/data'
import { timelineState } from '../../state/links'
import { usePages } from '../../state/tablePages'
import { openViewOfProfile, setRoute, useRoute } from '../../state/urlState'
import { Card, Placeholder, SmallButton, Swatch, useTheme } from '../../widgets/basics'
import { Switch } from '../../widgets/choice'
import { Curve, CurveButtons } from '../../widgets/curve'
import type { CurveMarks } from '../../widgets/curveOption'
import { FigureList } from '../../widgets/figures'
import { type FlowPart, MemoryFlowPicture } from '../../widgets/memoryFlow'
import breakdownCss from '../../widgets/breakdown.module.css'
import layoutCss from '../../widgets/layout.module.css'
import textCss from '../../widgets/text.module.css'
import css from './memoryFlow.module.css'

const HEIGHT = 400
const GROUPS: Group[] = [
  { table: 'tensors_at', label: 'Live at this time' },
  { table: 'flow_producers', label: 'By operator' },
  { table: 'tensors', label: 'All tensors' },
]
const WHOLE = { start_ns: '', end_ns: '', low: '', high: '' }

export function MemoryFlow({ base, catalog, profile }: PageProps) {
  const { start_ns = '', end_ns = '', low = '', high = '', at_ns = '' } = useRoute()
  const query = useQuery(base, { start_ns, end_ns, low, high, at_ns })
  const asked = useQuery(base, { at_ns })
  const resource = useView('memory_flow', query)
  return (
    <TablePage
      view="memory_flow"
      resource={resource}
      base={asked}
      bones={600}
      top={(view) => <Page view={view} base={base} traces={ofWorker(catalog, profile, 'trace')} />}
      groups={GROUPS}
      waits
      placeholder="Search tensors, layouts, addresses or /regex/"
      detail={(row, table) => <RowDetail row={row} table={table} />}
    />
  )
}

const figure = (figures: Figures | null, key: string) => Number(figureValue(figures, key) ?? 0)

function Page({ view, base, traces }: { view: View; base: Query; traces: readonly Address[] }) {
  const summary = payloadByName(view, 'summary', 'figures')
  const series = payloadByName(view, 'curve', 'series')
  const flow = payloadByName(view, 'flow', 'memory_flow')
  const moment = payloadByName(view, 'moment', 'figures')
  if (!summary || !series || !flow || !moment) return null
  return (
    <div className={layoutCss.column}>
      <SummaryCard view={view} />
      <div className={css.top}>
        <Picture flow={flow} series={series} summary={summary} moment={moment} />
        <CompanionLink base={base} moment={moment} traces={traces} />
      </div>
      <NoticesCard view={view} />
    </div>
  )
}

const look = ({ start, end, low, high }: FlowPart) =>
  setRoute({ start_ns: String(start), end_ns: String(end), low: String(low), high: String(high) }, true)

/** The curve, and below it on the same axis of time the tensors. */
function Picture(props: { flow: MemoryFlowMap; series: Series; summary: Figures; moment: Figures }) {
  const { flow, series, summary } = props
  const { tensor = '', colour = '', at_ns = '' } = useRoute()
  const byLife = colour === 'life'
  const moment = figure(props.moment, 'flow_moment_ns')
  const [peak, when] = [figure(summary, 'flow_peak_bytes'), figure(summary, 'flow_peak_time_ns')]
  const marks = useMemo<CurveMarks>(
    () => ({
      bands: [],
      peak: when >= flow.start_ns && when <= flow.end_ns ? { x: when, y: peak, label: format(peak, 'bytes') } : null,
      moment: at_ns ? moment : null,
      window: [flow.start_ns, flow.end_ns],
    }),
    [flow, peak, when, at_ns, moment],
  )
  const [isPartOfTime, isPartOfMemory] = [
    flow.start_ns > flow.first_ns || flow.end_ns < flow.last_ns,
    flow.low_bytes > 0 || flow.high_bytes < flow.extent_bytes,
  ]
  const zoom = (start: number, end: number) =>
    look({
      start: Math.max(flow.first_ns, start),
      end: Math.min(flow.last_ns, end),
      low: flow.low_bytes,
      high: flow.high_bytes,
    })
  return (
    <Card
      title={flow.title}
      subtitle="drag: zoom · click a tensor: details · click the curve: memory at that time"
      className={css.picture}
      actions={
        <span className={textCss.row}>
          <Switch
            label="Color of tensors"
            value={byLife ? 'life' : ''}
            onChange={(next) => setRoute({ colour: next })}
            options={{ '': 'Operator', life: 'Lifetime' }}
          />
          <span className={textCss.mute}>Memory</span>
          <MemoryButtons flow={flow} zoomed={isPartOfMemory} />
          <span className={textCss.mute}>Time</span>
          <CurveButtons
            window={[flow.start_ns, flow.end_ns]}
            zoomed={isPartOfTime}
            onWindow={zoom}
            onReset={() => setRoute({ start_ns: '', end_ns: '' }, true)}
          />
        </span>
      }
    >
      <Curve
        series={series}
        marks={marks}
        height={150}
        onWindow={zoom}
        onMoment={(at) => setRoute({ at_ns: String(at), row: '' }, true)}
        onReset={() => setRoute({ ...WHOLE, at_ns: '' }, true)}
      />
      <MemoryFlowPicture
        flow={flow}
        height={HEIGHT}
        byLife={byLife}
        moment={moment}
        selected={tensor === '' ? -1 : Number(tensor)}
        onSelect={(row) => setRoute({ tensor: row < 0 ? '' : String(row) })}
        onPart={look}
        onAll={() => setRoute(WHOLE, true)}
      />
      <Legend flow={flow} byLife={byLife} lines={series} />
    </Card>
  )
}

function MemoryButtons({ flow, zoomed }: { flow: MemoryFlowMap; zoomed: boolean }) {
  const { start_ns: start, end_ns: end, low_bytes: low, high_bytes: high } = flow
  const quarter = Math.max(1, Math.round((high - low) / 4))
  const move = (down: number, up: number) =>
    look({ start, end, low: Math.max(0, low + down), high: Math.min(flow.extent_bytes, high + up) })
  const buttons: [string, string, () => void, boolean][] = [
    ['Lower addresses', '↑', () => move(-quarter, -quarter), low > 0],
    ['Higher addresses', '↓', () => move(quarter, quarter), high < flow.extent_bytes],
    ['Zoom into memory', '+', () => move(quarter, -quarter), high - low > 64],
    ['Zoom out of memory', '−', () => move(-2 * quarter, 2 * quarter), zoomed],
  ]
  return (
    <Button.Group>
      {buttons.map(([title, sign, action, enabled]) => (
        <SmallButton key={title} title={title} aria-label={title} disabled={!enabled} onClick={action}>
          {sign}
        </SmallButton>
      ))}
    </Button.Group>
  )
}

function Legend({ flow, byLife, lines }: { flow: MemoryFlowMap; byLife: boolean; lines: Series }) {
  const theme = useTheme()
  const present = new Set(flow.operator)
  const others = flow.operators.filter((_, i) => i >= COLORED && present.has(i)).length
  const lives = LIVES.map(([most, strength], i): [string, string] => [
    boxColors('kernel', strength, theme).fill,
    Number.isFinite(most) ? `to ${format(most, 'ns')}` : `more than ${format(LIVES[i - 1][0], 'ns')}`,
  ])
  const operators = flow.operators
    .slice(0, COLORED)
    .flatMap((name, i): [string, string][] => (present.has(i) ? [[categoryColor(operatorColor(i)), name]] : []))
  const keys = byLife
    ? lives
    : others > 0
      ? [...operators, [categoryColor('rest'), counted(others, 'other')]]
      : operators
  return (
    <ul className={breakdownCss.key} aria-label={byLife ? 'Lifetimes' : 'Operators'}>
      {keys.map(([color, label]) => (
        <li key={label}>
          <Swatch color={color} />
          {label}
        </li>
      ))}
      {lines.lines.length > 1 &&
        lines.lines.map(({ metric, category }) => (
          <li key={metric.key} title={metric.definition}>
            <Swatch color={categoryColor(category)} />
            {`${metric.title} (curve)`}
          </li>
        ))}
      {flow.hidden > 0 && (
        <li>
          <Swatch color={boxColors('rest', 0.5, theme).fill} />
          {`${counted(flow.hidden, 'small tensor')}: zoom in to see them`}
        </li>
      )}
    </ul>
  )
}

function CompanionLink({ base, moment, traces }: { base: Query; moment: Figures; traces: readonly Address[] }) {
  const { tensor = '', at_ns = '' } = useRoute()
  const one = useMemo(() => ({ sort: '', desc: true, search: '', where: [`tensor_number:${tensor}`] }), [tensor])
  const pages = usePages('memory_flow', 'tensors', base, one)
  const row = pages.row(0)
  return (
    <div className={layoutCss.column}>
      <Card
        title={moment.title}
        actions={at_ns && <SmallButton onClick={() => setRoute({ at_ns: '', row: '' }, true)}>At the peak</SmallButton>}
      >
        <FigureList figures={moment.figures} />
      </Card>
      <Card
        title="Selected tensor"
        actions={tensor && <SmallButton onClick={() => setRoute({ tensor: '' })}>Deselect</SmallButton>}
      >
        {tensor ? (
          <SelectedTensor pages={pages} />
        ) : (
          <p className={textCss.none}>Click a tensor or select one with the arrow keys.</p>
        )}
      </Card>
      <EventsAtMoment traces={traces} operator={tensor ? operatorOf(row) : null} />
    </div>
  )
}

/** Operator number of a tensor's allocation; null if unknown. */
const operatorOf = (row: Row | undefined) =>
  typeof row?.tensor_operator_number === 'number' ? row.tensor_operator_number : null

function EventsAtMoment({ traces, operator }: { traces: readonly Address[]; operator: number | null }) {
  const [asking, setAsking] = useState('')
  const [lost, setLost] = useState(-1)
  if (traces.length === 0) return null
  const go = async (address: Address, number: number) => {
    setAsking(address.span)
    const hit = await firstEvent({ ...address, where: [`external_id:${number}`, 'kind:operator'] })
    setAsking('')
    if (hit) openViewOfProfile({ ...address }, 'timeline', timelineState(hit.event, hit.start, hit.end - hit.start))
    else setLost(number)
  }
  const isKnown = operator !== null && operator !== lost
  return (
    <Card title={isKnown ? 'Allocating operator' : 'Events at that time'}>
      {operator !== null && !isKnown && <p className={textCss.none}>Operator {operator} is not in the timeline.</p>}
      {traces.map((address) => (
        <SmallButton
          key={address.span}
          loading={asking === address.span}
          onClick={() => (isKnown ? void go(address, operator) : openViewOfProfile({ ...address }, 'timeline', {}))}
        >
          {isKnown ? 'Operator on the timeline' : 'Timeline of this worker'}
          {traces.length > 1 && `, span ${address.span}`}
        </SmallButton>
      ))}
    </Card>
  )
}

function SelectedTensor({ pages }: { pages: Pages }) {
  const row = pages.row(0)
  if (!pages.table) return <Placeholder height={160} />
  return (
    <div data-testid="chosen-tensor" className={css.chosen}>
      {row ? <Detail row={row} table={pages.table} /> : <p className={textCss.none}>Tensor not found.</p>}
    </div>
  )
}

const Detail = ({ row, table }: { row: Row; table: Table }) => (
  <RowFigures
    row={row}
    table={table}
    isShown={({ metric }) => row[metric.key] !== null && metric.key !== 'tensor_number'}
  />
)

function RowDetail({ row, table }: { row: Row; table: Table }) {
  return (
    <div>
      {row.tensor_number !== undefined && (
        <SmallButton onClick={() => setRoute({ ...WHOLE, tensor: String(row.tensor_number) }, true)}>
          Show in the chart
        </SmallButton>
      )}
      <Detail row={row} table={table} />
    </div>
  )
}
