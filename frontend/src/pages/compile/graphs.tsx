// Graphs: replayed device time, nodes and replays.

import type { Query } from '../../api/client'
import type { Column, Metric, Table, View } from '../../api/payloads'
import { deviceWord } from '../../lib/deviceWords'
import { counted, format } from '../../lib/format'
import type { Row } from '../../lib/tableRows'
import { DetailBlock, EventFacts, FirstRows, showEvent } from '../../parts/detailBlock'
import { HeadlineCard, HeadlineSentence } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { figureValue, payloadByName } from '../../parts/payloadByName'
import { TablePage } from '../../parts/tablePage'
import type { Group } from '../../parts/tableSection'
import { useView } from '../../state/data'
import { followLink } from '../../state/links'
import { joinList } from '../../state/tensorboardHash'
import { setRoute } from '../../state/urlState'
import { Card, SmallButton } from '../../widgets/basics'
import { BreakdownBar } from '../../widgets/breakdown'
import { Headline } from '../../widgets/figures'
import { TimelineIcon } from '../../widgets/icons'
import { Sentence } from '../../widgets/notices'
import frameCss from '../../parts/viewFrame.module.css'
import layoutCss from '../../widgets/layout.module.css'

const NODES: Group = { table: 'graph_nodes', label: 'Nodes', nameStyle: 'kernel', widest: 260 }
const REPLAYS: Group = { table: 'graph_replays', label: 'Replays', filters: ['captured_graph'], nameStyle: 'plain' }
const GRAPHS: Group = { table: 'graphs', label: 'Graphs', filters: ['captured_graph'], nameStyle: 'plain' }
const GROUPS = [GRAPHS, NODES, REPLAYS]
const FROM: Record<string, string> = {
  by_annotation: 'annotations',
  by_capture: 'the capture in this trace',
  by_capture_trace: 'the capture trace',
  by_eager: 'eager runs of the same work',
}
const OF_GRAPH = { nodes: 40, replays: 8 }

export function Graphs({ base }: PageProps) {
  const resource = useView('graphs', base)
  return (
    <TablePage
      view="graphs"
      resource={resource}
      base={base}
      bones={500}
      top={(view) => (
        <div className={layoutCss.grid}>
          <Answer view={view} />
          <CoverageCard view={view} />
        </div>
      )}
      groups={GROUPS}
      waits
      placeholder="Search, text or /regex/"
      detail={(row, table) => <Detail row={row} table={table} base={base} />}
    />
  )
}

function Answer({ view }: { view: View }) {
  const figures = payloadByName(view, 'summary', 'figures')?.figures ?? []
  const value = (key: string) => Number(figureValue({ figures }, key) ?? 0)
  const parts = payloadByName(view, 'coverage', 'breakdown')?.parts ?? []
  const notes = notesOf(view).filter(({ rule }) => ON_CAPTURES.has(rule))
  const most = [...parts].sort((a, b) => b.value - a.value)[0]
  return (
    <HeadlineCard label="Graphs" below>
      {value('replays') > 0 && (
        <HeadlineSentence severity="info">
          <b>{format(value('replayed_ratio'), 'ratio')}</b> of {deviceWord()} time is graph replays:{' '}
          <b>{format(value('graph_device_ns'), 'ns')}</b> in {counted(value('replays'), 'replay')} of{' '}
          {counted(value('graphs'), 'graph')}. Operators are known for{' '}
          <b>{format(value('graph_tied_ratio'), 'ratio')}</b> of this time
          {most && `; ${mainSourceText(most.metric, sourceOf(view))}`}.
        </HeadlineSentence>
      )}
      {notes.map((notice) => (
        <HeadlineSentence key={notice.rule} severity={notice.severity}>
          <Sentence notice={notice} text={notice.text} /> {notice.todo}
        </HeadlineSentence>
      ))}
      <Headline figures={figures} />
    </HeadlineCard>
  )
}

const ON_CAPTURES = new Set(['graphs.capture_missing', 'graphs.capture_empty'])

const notesOf = (view: View) => payloadByName(view, 'graph_notes', 'notices')?.notices ?? []

function mainSourceText({ key }: Metric, source: string): string {
  if (key === 'by_none') return 'most has no known operator'
  if (key === 'by_graph') return 'for most, only the operator that launched the graph is known'
  return `mostly from ${FROM[key] ?? 'other sources'}${key === 'by_capture_trace' ? source : ''}`
}

function sourceOf(view: View): string {
  const sources = new Set(payloadByName(view, 'graphs', 'table')?.rows.flatMap((row) => row.graph_source ?? []))
  return sources.size === 1 ? ` ${[...sources][0]}` : ''
}

function CoverageCard({ view }: { view: View }) {
  const coverage = payloadByName(view, 'coverage', 'breakdown')
  const notes = notesOf(view).filter(({ rule }) => !ON_CAPTURES.has(rule))
  if (!coverage || coverage.total === 0) return null
  // One source of everything is in the sentence above.
  const hasShares = coverage.parts.filter(({ value }) => value > 0).length > 1
  if (!hasShares && notes.length === 0) return null
  return (
    <Card className={layoutCss.span12} title={coverage.title}>
      {hasShares && <BreakdownBar payload={coverage} onLink={followLink} />}
      {notes.map((notice) => (
        <p key={notice.rule} className={frameCss.note}>
          <Sentence notice={notice} text={notice.text} />
        </p>
      ))}
    </Card>
  )
}

const isRecorded = ({ metric }: Column) => metric.key !== 'event'

function Detail({ row, table, base }: { row: Row; table: Table; base: Query }) {
  return (
    <EventFacts
      row={row}
      table={table}
      leftSection={<TimelineIcon />}
      isShown={isRecorded}
      more={table.name === 'graphs' && <OfGraph row={row} base={base} />}
    >
      {table.name === 'graphs' ? 'Show the first replay in the timeline' : 'Show in timeline'}
    </EventFacts>
  )
}

function OfGraph({ row, base }: { row: Row; base: Query }) {
  const where = `captured_graph:${row.captured_graph}`
  const open = (group: string) =>
    setRoute({ group, where: joinList([where]), row: '', sort: '', cols: '', search: '' }, true)
  const all = (group: string) => <SmallButton onClick={() => open(group)}>Show all</SmallButton>
  const show = { label: 'Show in the timeline', of: (each: Row) => showEvent(each) ?? (() => {}) }
  return (
    <>
      {typeof row.graph_repeats === 'number' && (
        <DetailBlock title="Repeats" small="inferred from kernel names" wide>
          <p className={frameCss.note}>
            {counted(row.graph_repeats, 'repeat')} of {counted(Number(row.repeat_nodes), 'node')}, usually layers:{' '}
            {format(row.repeat_ratio ?? null, 'ratio')} of the graph's {deviceWord()} time.
          </p>
        </DetailBlock>
      )}
      <FirstRows
        title="Nodes in order"
        view="graphs"
        table="graph_nodes"
        base={base}
        where={where}
        limit={OF_GRAPH.nodes}
        without={['captured_graph', 'node_replays']}
        nameStyle="kernel"
        show={show}
        more={all('graph_nodes')}
        testid="graph-nodes"
      />
      <FirstRows
        title="Replays"
        view="graphs"
        table="graph_replays"
        base={base}
        where={where}
        limit={OF_GRAPH.replays}
        without={['captured_graph']}
        show={show}
        more={all('graph_replays')}
        testid="graph-replays"
      />
    </>
  )
}
