// Any payload, drawn by kind.

import { useState } from 'react'
import type { Breakdown, Counters, Link, Payload, Table, TimelineTrack, Tree } from '../api/payloads'
import { counted } from '../lib/format'
import type { Row } from '../lib/tableRows'
import { Card, SmallButton, Value } from './basics'
import { BreakdownBar, BreakdownTable, Donut } from './breakdown'
import { Chart } from './chart'
import { FiguresBlock } from './figures'
import { FlameGraph } from './flameGraph'
import { NoticeList } from './notices'
import { ScatterPlot } from './scatter'
import { SmallTable } from './smallTable'
import { TreeTable } from './tree'
import plainTableCss from './plainTable.module.css'
import textCss from './text.module.css'

function BreakdownBlock({ payload, onLink }: { payload: Breakdown; onLink: (link: Link) => void }) {
  if (payload.style === 'donut') return <Donut payload={payload} onLink={onLink} />
  if (payload.style === 'table') return <BreakdownTable payload={payload} onLink={onLink} of="%" />
  return <BreakdownBar payload={payload} onLink={onLink} />
}

interface Props {
  payload: Payload
  onLink: (link: Link) => void
  onName?: (row: Row) => void
}

function PayloadBlock({ payload, onLink, onName }: Props) {
  switch (payload.kind) {
    case 'figures':
      return <FiguresBlock payload={payload} />
    case 'breakdown':
      return <BreakdownBlock payload={payload} onLink={onLink} />
    case 'series':
      return <Chart series={payload} height={260} />
    case 'scatter':
      return <ScatterPlot scatter={payload} height={260} />
    case 'notices':
      return <NoticeList notices={payload.notices} onLink={onLink} none="No notices." />
    case 'table':
      return <FoldedTable table={payload} onName={onName} />
    case 'tree':
      return <TreeBlock tree={payload} />
    case 'timeline':
      return <TrackList tracks={payload.tracks} />
    case 'flows':
      return <p>{counted(payload.total, 'arrow')} between events, drawn in the Timeline.</p>
    case 'bands':
      return <p>{counted(payload.block.length, 'block')}, drawn on the page Memory.</p>
    case 'counters':
      return <CountersText data={payload} />
    case 'memory_flow':
      return <p>{counted(payload.row.length, 'tensor')}, drawn on the page Memory flow.</p>
    case 'heat':
      return <p>{counted(payload.rows.length, 'rank')} by step, drawn on the page Ranks.</p>
    case 'memory_map':
      return (
        <p>
          {counted(payload.row_bytes.length, 'segment')} after event {payload.event.toLocaleString('en-US')}, drawn on
          the page Segments.
        </p>
      )
  }
}

/** More rows than this are folded, but for the first. */
const MOST = 12
const FOLDED = 8

function FoldedTable({ table, onName }: { table: Table; onName?: (row: Row) => void }) {
  const [all, setAll] = useState(false)
  if (table.rows.length <= MOST) return <SmallTable table={table} onName={onName} />
  return (
    <>
      <SmallTable table={table} limit={all ? undefined : FOLDED} onName={onName} counted={!all} />
      <SmallButton aria-expanded={all} onClick={() => setAll(!all)}>
        {all ? 'Fewer rows' : `${(table.matched_rows - FOLDED).toLocaleString('en-US')} more rows`}
      </SmallButton>
    </>
  )
}

const UNTITLED = { timeline: 'Timeline', flows: 'Flow arrows', counters: 'Counters', memory_map: 'Memory map' }

export function PayloadCard({ payload, onLink, onName }: Props) {
  const title = 'title' in payload ? payload.title : UNTITLED[payload.kind]
  const subtitle = 'subtitle' in payload ? payload.subtitle : undefined
  return (
    <Card title={title} subtitle={subtitle}>
      <PayloadBlock payload={payload} onLink={onLink} onName={onName} />
    </Card>
  )
}

function TrackList({ tracks }: { tracks: readonly TimelineTrack[] }) {
  return (
    <table className={plainTableCss.table}>
      <caption className={textCss.sr}>Timeline tracks</caption>
      <thead>
        <tr>
          <th scope="col">Track</th>
          <th scope="col">Events</th>
        </tr>
      </thead>
      <tbody>
        {tracks.map((track) => (
          <tr key={track.id}>
            <th scope="row">{track.subtitle ? `${track.title} · ${track.subtitle}` : track.title}</th>
            <td className={textCss.num}>{track.events.toLocaleString('en-US')}</td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

/** Counters and their maxima. */
function CountersText({ data }: { data: Counters }) {
  return (
    <ul>
      {data.counters.map(({ key, title, subtitle, metric, max }) => (
        <li key={key}>
          {title}, {subtitle}: at most <Value value={max} unit={metric.unit} />
        </li>
      ))}
    </ul>
  )
}

const moduleColor = () => 'module'

function TreeBlock({ tree }: { tree: Tree }) {
  const [open, setOpen] = useState<ReadonlySet<number>>(
    new Set(tree.parent.flatMap((parent, i) => (parent < 0 ? [i] : []))),
  )
  const [selected, setSelected] = useState(-1)
  const [zoom, setZoom] = useState(-1)
  const value = tree.value_columns[0]
  return (
    <>
      {value && (
        <FlameGraph
          tree={tree}
          valueKey={value}
          noun="nodes"
          categoryOf={moduleColor}
          match={null}
          zoom={zoom}
          onZoom={setZoom}
          selected={selected}
          onSelect={setSelected}
        />
      )}
      <div style={{ height: 400 }}>
        <TreeTable tree={tree} open={open} onOpen={setOpen} selected={selected} onSelect={setSelected} match={null} />
      </div>
    </>
  )
}
