// Segments: device memory after an allocator event.

import { Button } from '@mantine/core'
import { type KeyboardEvent, useMemo } from 'react'
import type { Query } from '../../../api/client'
import type { Link, MemoryMap, Series, Table, View } from '../../../api/payloads'
import { heaviestLines, lineColor, type MapChoice, pieceOf, STATES, stateOf } from '../../../canvas/memoryMap'
import { isTyping } from '../../../canvas/typing'
import { categoryColor } from '../../../lib/color'
import { format } from '../../../lib/format'
import type { Row } from '../../../lib/tableRows'
import { RowFigures } from '../../../parts/detailBlock'
import { Answers, HeadlineCard } from '../../../parts/headlineCard'
import type { PageProps } from '../../../parts/page'
import { figureValue, payloadByName } from '../../../parts/payloadByName'
import { EditorSetting, StackFrames } from '../../../parts/stack'
import { type Group, TableSection } from '../../../parts/tableSection'
import { ViewFrame } from '../../../parts/viewFrame'
import { useQuery, useView } from '../../../state/data'
import { followLink } from '../../../state/links'
import { usePages } from '../../../state/tablePages'
import { setRoute, useRoute } from '../../../state/urlState'
import { Card, LineKeys, LinkButton, Placeholder, SmallButton, Swatch } from '../../../widgets/basics'
import { Chart } from '../../../widgets/chart'
import { Choice, Switch } from '../../../widgets/choice'
import { Curve } from '../../../widgets/curve'
import { Headline } from '../../../widgets/figures'
import { MemoryMapPicture } from '../../../widgets/memoryMap'
import { DevicePicker } from '../devicePicker'
import { AllocatorEvents } from './allocatorEvents'
import { MomentBar, stepOf } from './momentBar'
import pageCss from '../../../parts/pageHead.module.css'
import frameCss from '../../../parts/viewFrame.module.css'
import breakdownCss from '../../../widgets/breakdown.module.css'
import layoutCss from '../../../widgets/layout.module.css'
import textCss from '../../../widgets/text.module.css'
import css from './segments.module.css'
import selectedBlockCss from './selectedBlock.module.css'

const HEIGHT = 470
const GROUPS: Group[] = [
  { table: 'pools_at', label: 'Pools', filters: ['stream_name', 'pool_name'] },
  { table: 'segments_at', label: 'Segments', filters: ['stream_name', 'pool_name', 'segment_kind'] },
  { table: 'blocks_at', label: 'Blocks', filters: ['allocation_line', 'stream_name', 'pool_name', 'block_row'] },
  { table: 'blocks_in_way', label: 'Blocking release', filters: ['allocation_line'] },
]
const OOM_GROUPS: Group[] = [
  { table: 'oom_obstacles', label: 'Blocking the request', filters: ['allocation_line'] },
  { table: 'oom_moments', label: 'Out of memory' },
]

export function Segments({ base }: PageProps) {
  const { device = '', at = '', size = '' } = useRoute()
  const query = useQuery(base, { device, at, size })
  const resource = useView('segments', query)
  return (
    <div className={frameCss.page}>
      <ViewFrame resource={resource} bones={600}>
        {(view) => <Page view={view} base={base} />}
      </ViewFrame>
      {resource.data && <Tables view={resource.data} base={query} />}
    </div>
  )
}

const choose = (event: number, step = false) => setRoute({ at: String(event), row: '' }, !step)

function Page({ view, base }: { view: View; base: Query }) {
  const { device = '', step = '', find = '' } = useRoute()
  const moment = payloadByName(view, 'moment', 'figures')
  const place = payloadByName(view, 'place', 'figures')
  const map = payloadByName(view, 'map', 'memory_map')
  const devices = payloadByName(view, 'devices', 'figures')
  if (!moment || !place || !map) return null
  const hasEvents = Number(figureValue(place, 'history_events')) > 0
  const onKey = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return
    if (event.key !== ',' && event.key !== '.') return
    const to = stepOf(place, step, event.key === '.' ? 1 : -1)
    if (to !== null) choose(to, true)
  }
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the buttons of the bar do the same
    <div className={layoutCss.column} onKeyDown={onKey}>
      <HeadlineCard className={css.head} label={moment.title} below>
        <Answers view={view} add={(notice) => notice.evidence && <Way link={notice.evidence} />} />
        <span className={pageCss.figures}>
          {devices && (
            <DevicePicker devices={devices} chosen={moment.title} cleared={{ at: '', block: '', only: '', row: '' }} />
          )}
          <Headline figures={moment.figures} />
        </span>
      </HeadlineCard>
      {hasEvents && (
        <Card label="Selected event">
          <MomentBar place={place} kind={step} onKind={(next) => setRoute({ step: next })} onChoose={choose} />
        </Card>
      )}
      <div className={hasEvents ? css.state : undefined}>
        {hasEvents && (
          <Card title="Events">
            <AllocatorEvents
              base={base}
              device={device}
              at={map.event}
              height={HEIGHT}
              search={find}
              onSearch={(next) => setRoute({ find: next })}
              onChoose={choose}
            />
          </Card>
        )}
        <MapCard map={map} view={view} base={base} />
      </div>
    </div>
  )
}

const Way = ({ link }: { link: Link }) => (
  <>
    {' '}
    <LinkButton onClick={() => followLink(link)}>{link.text}</LinkButton>
  </>
)

const SEGMENTS = { '': 'All segments', small: 'Small', large: 'Large', expandable: 'Expandable' }

function MapCard({ map, view, base }: { map: MemoryMap; view: View; base: Query }) {
  const { order = '', only = '', segments = '', line = '', colour = '', block = '' } = useRoute()
  const choice = useMemo<MapChoice>(
    () => ({ order: order === 'size' ? 'size' : 'address', group: only, segments, line: Number(line) || 0 }),
    [order, only, segments, line],
  )
  const heaviest = useMemo(() => heaviestLines(map), [map])
  const byLine = colour === 'line'
  const colorOf = useMemo(() => (byLine ? lineColor(map, heaviest) : stateOf(map)), [map, heaviest, byLine])
  const selected = block === '' ? -1 : pieceOf(map, Number(block))
  const groups = map.groups.map((group, i) => ({ value: String(i), label: `${group.pool}, stream ${group.stream}` }))
  const zoom = (factor: number) => setRoute({ line: String(Math.round(usual(choice.line) * factor)) })
  const usual = (now: number) =>
    now || Number(document.querySelector('[data-line-bytes]')?.getAttribute('data-line-bytes'))
  return (
    <Card
      className={css.map}
      title="Segments and their blocks"
      actions={
        <span className={css.choices}>
          {groups.length > 1 && (
            <Choice
              label="Pool and stream"
              value={only}
              onChange={(next) => setRoute({ only: next })}
              options={[{ value: '', label: 'All pools' }, ...groups]}
            />
          )}
          <Choice
            label="Kind of segments"
            value={segments}
            onChange={(next) => setRoute({ segments: next })}
            options={SEGMENTS}
          />
          <Choice
            label="Order of segments"
            value={order}
            onChange={(next) => setRoute({ order: next })}
            options={{ '': 'By address', size: 'By size' }}
          />
          <Switch
            label="Color of blocks"
            value={byLine ? 'line' : ''}
            onChange={(next) => setRoute({ colour: next })}
            options={{ '': 'State', line: 'Line' }}
          />
          <Button.Group>
            <SmallButton aria-label="Zoom out" onClick={() => zoom(2)}>
              −
            </SmallButton>
            <SmallButton aria-label="Zoom in" onClick={() => zoom(0.5)}>
              +
            </SmallButton>
            <SmallButton disabled={!line} onClick={() => setRoute({ line: '' })}>
              All
            </SmallButton>
          </Button.Group>
        </span>
      }
    >
      <MemoryMapPicture
        map={map}
        choice={choice}
        colorOf={colorOf}
        height={block ? HEIGHT - 190 : HEIGHT - 20}
        selected={selected}
        onSelect={(piece) => setRoute({ block: piece < 0 ? '' : String(map.piece_block[piece]) })}
      />
      <Legend map={map} heaviest={byLine ? heaviest : null} />
      {block && <SelectedBlock block={block} base={base} view={view} />}
    </Card>
  )
}

function Legend({ map, heaviest }: { map: MemoryMap; heaviest: readonly number[] | null }) {
  const keys: [string, string][] = heaviest
    ? heaviest.map((line, i) => [`slice${i}`, shortLine(map.lines[line] ?? '(no stack recorded)')])
    : [
        [STATES.allocated, 'Allocated'],
        [STATES.pending, 'Pending free'],
        ...(map.piece_in_way.includes(true) ? [[STATES.inWay, 'Blocking'] as [string, string]] : []),
      ]
  return (
    <ul className={breakdownCss.key}>
      {keys.map(([category, label]) => (
        <li key={label}>
          <Swatch color={categoryColor(category)} />
          {label}
        </li>
      ))}
      <li>
        <Swatch color="" idle />
        Free
      </li>
      <li title="Known only for blocks that remain at the end. Requested sizes of other blocks were not recorded.">
        <Swatch color={categoryColor(STATES.unused)} />
        Lost to rounding
      </li>
      {map.cell_bytes > 0 && <li>Blocks below {format(map.cell_bytes, 'bytes')} are merged with their neighbors</li>}
    </ul>
  )
}

const shortLine = (text: string) => text.slice(text.lastIndexOf('/') + 1)

function Tables({ view, base }: { view: View; base: Query }) {
  const ooms = payloadByName(view, 'oom_moments', 'table')?.total_rows ?? 0
  const groups = useMemo(() => (ooms > 0 ? [...GROUPS, ...OOM_GROUPS] : GROUPS), [ooms])
  const request = payloadByName(view, 'request', 'figures')
  const reserved = payloadByName(view, 'reserved', 'series')
  return (
    <>
      <div className={reserved ? css.charts : css.histograms}>
        {reserved && (
          <ReservedCard
            series={reserved}
            at={Number(figureValue(payloadByName(view, 'place', 'figures'), 'event_number'))}
          />
        )}
        {['gap_sizes', 'gap_counts'].map((name) => {
          const series = payloadByName(view, name, 'series')
          return series && <SeriesCard key={name} series={series} />
        })}
      </div>
      <TableSection
        view="segments"
        base={base}
        groups={groups}
        filters={() => <RequestSize asked={format(figureValue(request, 'request_bytes'), 'bytes')} />}
        placeholder="Search lines, addresses, text or /regex/"
        detail={(row, table) => <RowBlock row={row} table={table} />}
      />
    </>
  )
}

const MIB = 2 ** 20
const REQUESTS = [1, 2, 8, 20, 64, 256, 1024, 4096].map((mib) => mib * MIB)

/** The size of a request: gaps that are smaller are of no use to it. */
function RequestSize({ asked }: { asked: string }) {
  const { size = '' } = useRoute()
  const known = size === '' || REQUESTS.includes(Number(size))
  const sizes = known ? REQUESTS : [...REQUESTS, Number(size)]
  return (
    <Choice
      size="sm"
      label="Request size to compare with free gaps"
      value={size}
      onChange={(next) => setRoute({ size: next }, true)}
      options={[
        { value: '', label: size === '' ? `Request of ${asked}` : 'No request size' },
        ...sizes.map((bytes) => ({ value: String(bytes), label: `Request of ${format(bytes, 'bytes')}` })),
      ]}
    />
  )
}

function ReservedCard({ series, at }: { series: Series; at: number }) {
  const marks = useMemo(() => ({ bands: [], peak: null, moment: at }), [at])
  return (
    <Card title={series.title} subtitle="click: memory at that time">
      <Curve
        series={series}
        marks={marks}
        height={200}
        onWindow={(low) => choose(low)}
        onMoment={(event) => choose(event)}
        onReset={() => {}}
      />
      <LineKeys lines={series.lines} />
    </Card>
  )
}

const SeriesCard = ({ series }: { series: Series }) => (
  <Card title={series.title}>
    <Chart series={series} height={220} compact />
  </Card>
)

function RowBlock({ row, table }: { row: Row; table: Table }) {
  const event = table.name === 'oom_moments' ? Number(row.event_number) : null
  return (
    <div className={css.row}>
      <span className={textCss.row}>
        {row.block_row !== undefined && (
          <SmallButton onClick={() => setRoute({ block: String(row.block_row) }, true)}>Show in the map</SmallButton>
        )}
        {event !== null && <SmallButton onClick={() => choose(event)}>Show memory at this event</SmallButton>}
      </span>
      <BlockDetail row={row} table={table} />
    </div>
  )
}

/** The block that was clicked, with its stack; it stays while one steps, as long as it lives. */
function SelectedBlock({ block, base, view }: { block: string; base: Query; view: View }) {
  const { device = '', at = '' } = useRoute()
  const asked = useQuery(base, { device, at })
  const one = useMemo(() => ({ sort: '', desc: true, search: '', where: [`block_row:${block}`] }), [block])
  const pages = usePages('segments', 'blocks_at', asked, one)
  const row = pages.table?.row_key ? pages.row(0) : undefined
  if (!pages.table) return <Placeholder height={120} />
  return (
    <div className={selectedBlockCss.block} data-testid="chosen-block">
      <header>
        <b>Selected block</b>
        <span className={textCss.row}>
          <EditorSetting />
          <SmallButton onClick={() => setRoute({ block: '' })}>Deselect</SmallButton>
        </span>
      </header>
      {row ? <BlockDetail row={row} table={pages.table} /> : <p className={textCss.none}>{goneText(view)}</p>}
    </div>
  )
}

const goneText = (view: View) =>
  `Not allocated after event ${format(payloadByName(view, 'map', 'memory_map')?.event ?? null, 'count')}, or not among the 50,000 largest blocks.`

function BlockDetail({ row, table }: { row: Row; table: Table }) {
  return (
    <div className={selectedBlockCss.detail}>
      <RowFigures
        row={row}
        table={table}
        isShown={({ metric }) => row[metric.key] !== null && !/^allocation_|^block_row$/.test(metric.key)}
      />
      {row.allocation_stack ? (
        <StackFrames stack={String(row.allocation_stack)} />
      ) : (
        <p className={textCss.none}>No stack recorded.</p>
      )}
    </div>
  )
}
