// Distributed: stragglers, waiting, communication.

import { useEffect, useMemo, useRef, useState } from 'react'
import type { Query } from '../../api/client'
import type { Catalog, Figure, Link, Series, Table, View } from '../../api/payloads'
import { recordersText } from '../../lib/flightRecorders'
import { counted } from '../../lib/format'
import { modelNoun } from '../../lib/modelNouns'
import { firstSentence } from '../../lib/noticeTemplate'
import { missingTraceText, spansOfRun, withoutTraces } from '../../lib/profiles'
import { ranksShort } from '../../lib/rankLists'
import { type RankZoom, rankZoom } from '../../lib/rankZoom'
import type { Row } from '../../lib/tableRows'
import { areUniform } from '../../lib/uniformBars'
import { RowFacts } from '../../parts/answerPage'
import { PeerCalls } from '../../parts/collectivePeers'
import { HeadlineCard, HeadlineSentence } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { figureValue, payloadByName } from '../../parts/payloadByName'
import { type Group, TableSection } from '../../parts/tableSection'
import { ViewFrame } from '../../parts/viewFrame'
import { useQuery, useView } from '../../state/data'
import { followLink } from '../../state/links'
import { setRunRead } from '../../state/readRuns'
import { readRoute, useRoute } from '../../state/urlState'
import { Card, LineKeys, SmallButton } from '../../widgets/basics'
import { Chart } from '../../widgets/chart'
import { FigureList, Headline } from '../../widgets/figures'
import { NoticeList, Sentence } from '../../widgets/notices'
import { SmallTable } from '../../widgets/smallTable'
import { ReadingAll } from './allWorkers'
import { Bandwidth } from './bandwidth'
import { LinkMaps } from './linkMaps'
import { RankBarsCard } from './rankBars'
import {
  COMPARE_LABEL,
  OpenRank,
  openRank,
  openTwoRanks,
  type Place,
  RankCharts,
  ROWS,
  scrollToTables,
} from './rankCharts'
import layoutCss from '../../widgets/layout.module.css'
import textCss from '../../widgets/text.module.css'
import css from './distributed.module.css'
import rankGroupsCss from './rankGroups.module.css'

const GROUPS: Group[] = [
  { table: 'operation_kinds', label: 'Operations' },
  { table: 'operations', label: 'Operations by worker' },
  { table: 'collectives', label: 'Single collectives' },
  { table: 'stragglers', label: 'Stragglers' },
  { table: 'workers', label: 'Workers' },
  { table: 'steps', label: 'Steps' },
  { table: 'bandwidths', label: 'Bandwidths', filters: ['collective', 'group'] },
  { table: 'clocks', label: 'Clocks' },
]
const JOB_PATH: Group = { table: 'job_path', label: 'Critical path' }
const OF_SEVERAL = ['operation_kinds', 'stragglers']
const ALWAYS = new Set(GROUPS.map(({ table }) => table).filter((table) => !OF_SEVERAL.includes(table)))
const TRAFFIC: Group = { table: 'traffic', label: 'Traffic', nameStyle: 'plain', filters: ['group'] }
/** Tables of vendor data and flight recorders. */
const STATED: Group[] = [
  { table: 'recorders', label: 'Flight recorders' },
  { table: 'rank_steps', label: 'Steps (vendor tables)' },
  { table: 'operation_types', label: 'Call types' },
  { table: 'kinds_of_links', label: 'Link types', nameStyle: 'plain' },
  { table: 'links', label: 'Links', nameStyle: 'plain' },
]

export function Distributed({ base, profile, catalog }: PageProps) {
  // The answer is the same for every worker.
  const query = useQuery(base, { worker: '' })
  const resource = useView('distributed', query)
  const shown = resource.data
  // The paths of all ranks are computed for their table only.
  const { group } = useRoute()
  const rows = useMemo(() => (group === JOB_PATH.table ? { ...query, path: '1' } : query), [query, group])
  useEffect(() => {
    if (shown) setRunRead(base)
  }, [shown, base])
  const { run, span } = profile
  const workers = spansOfRun(catalog, profile, profile.model).length
  const place = useMemo(() => ({ run, span, absent: withoutTraces(catalog, { run, span }) }), [catalog, run, span])
  const page = useRef<HTMLDivElement>(null)
  useArrival(page)
  return (
    <div className={css.distributed} ref={page}>
      <ViewFrame
        resource={resource}
        bones={<ReadingAll all={{ resource, workers, noun: modelNoun(profile.model) }} />}
        steps={String(base.steps ?? '')}
      >
        {(view) => <Page view={view} base={query} place={place} />}
      </ViewFrame>
      {shown && (
        <div id={ROWS} className={css.rows} tabIndex={-1}>
          <TableSection
            view="distributed"
            base={rows}
            groups={[...GROUPS, JOB_PATH, TRAFFIC, ...STATED].filter(
              ({ table }) =>
                ALWAYS.has(table) ||
                payloadByName(shown, table, 'table') ||
                (table === JOB_PATH.table && payloadByName(shown, 'stragglers', 'table')),
            )}
            bounded
            placeholder="Search workers and collectives, text or /regex/"
            detail={(row, table) => (
              <>
                {table.name === 'collectives' && <OtherCalls base={query} catalog={catalog} row={row} />}
                <RowFacts row={row} table={table}>
                  {typeof row.worker === 'string' && (
                    <OpenRank
                      place={place}
                      worker={row.worker}
                      steps={typeof row.step === 'string' ? row.step : ''}
                      usual={typeof row.usual_worker === 'string' ? row.usual_worker : undefined}
                      sight={typeof row.step === 'string' ? undefined : zoomOfWorker(shown, row)}
                    />
                  )}
                </RowFacts>
              </>
            )}
          />
        </div>
      )}
    </div>
  )
}

const showRows = () => document.getElementById(ROWS)?.scrollIntoView()

/** A link to some rows brings their table into sight, and keeps it there while things above it come, until a person acts. */
function useArrival(page: React.RefObject<HTMLDivElement | null>): void {
  useEffect(() => {
    const { where, row } = readRoute()
    if (!page.current || (!where && !row)) return
    const observer = new ResizeObserver(showRows)
    observer.observe(page.current)
    const abort = new AbortController()
    const options = { capture: true, passive: true, signal: abort.signal }
    const stop = () => {
      observer.disconnect()
      abort.abort()
    }
    for (const act of ['wheel', 'pointerdown', 'keydown'] as const) window.addEventListener(act, stop, options)
    return stop
  }, [page])
}

/** Findings may link to this page's tables. */
function follow(link: Link): void {
  followLink(link)
  if (link.view === 'distributed') scrollToTables()
}

/** A link to the timeline with a rank and a typical one; a text if a trace is missing. */
function compareOnTimeline(
  place: Place,
  { worker, usual_worker: usual }: Row,
  sight: RankZoom,
): (() => void) | string | null {
  if (typeof usual !== 'string') return null
  const absent = [String(worker), usual].find((one) => place.absent.has(one))
  return absent === undefined ? () => openTwoRanks(place, String(worker), usual, sight) : missingTraceText(absent)
}

function zoomOfWorker(view: View, { worker }: Row): RankZoom {
  const rowsOf = (table: string) =>
    payloadByName(view, table, 'table')?.rows.filter((row) => row.worker === worker) ?? []
  const devices = rowsOf('devices')
  return rankZoom(
    rowsOf('stragglers').find((row) => row.stands_out),
    devices.length > 0 && devices.every(({ device }) => device === 'CPU'),
  )
}

/** The way from a worker that a sentence or a headline names: the same as from its name in a table. */
const wayOf =
  (place: Place) =>
  ({ metric: { key }, value }: Figure) =>
    key === 'worker' && typeof value === 'string' ? () => openRank(place, value, 'overview', '') : null

/** The calls of one collective on other ranks. */
const OtherCalls = ({ base, catalog, row }: { base: Query; catalog: Catalog; row: Row }) => (
  <>
    <h3>On other ranks</h3>
    <PeerCalls base={base} catalog={catalog} call={{ worker: String(row.worker), start: Number(row.start_ns) }} />
  </>
)

/** So few bars need no more room than half of the page. */
const FEW = 4
/** From this many ranks on the map comes first. */
const MAP_FIRST = 16

function Page({ view, base, place }: { view: View; base: Query; place: Place }) {
  const headline = payloadByName(view, 'headline', 'figures')
  const findings = payloadByName(view, 'findings', 'notices')
  const worst = payloadByName(view, 'worst', 'table')
  const recorders = payloadByName(view, 'recorders', 'table')
  const ranks = figureValue(headline, 'workers')
  const way = useMemo(() => wayOf(place), [place])
  const first = findings?.notices.find(({ severity }) => severity !== 'info')
  const mapFirst = Number(ranks ?? 0) > MAP_FIRST
  const pictures = <RankCharts base={base} place={place} />
  return (
    <div className={layoutCss.column}>
      {headline && (
        <HeadlineCard below>
          {first ? (
            <HeadlineSentence severity={first.severity}>
              <Sentence notice={first} text={firstSentence(first.text)} wayOf={way} />
            </HeadlineSentence>
          ) : (
            Number(ranks ?? 0) > 1 && (
              <HeadlineSentence severity="info">No rank delays the other ranks significantly.</HeadlineSentence>
            )
          )}
          <Headline figures={headline.figures} wayOf={way} />
        </HeadlineCard>
      )}
      {findings && findings.notices.length > 0 && (
        <Card title={findings.title} subtitle={String(findings.notices.length)}>
          <NoticeList notices={findings.notices} onLink={follow} none="" wayOf={way} />
        </Card>
      )}
      {recorders && recorders.rows.length > 0 && (
        <Card>
          <p className={css.say} data-testid="recorders">
            {recordersText(recorders)}
          </p>
        </Card>
      )}
      {worst && (
        <Card title={worst.title} subtitle={worst.rows.length > 1 ? `the worst ${worst.rows.length} ranks` : ''}>
          <SmallTable
            table={worst}
            without={['usual_worker']}
            onName={(row) => openRank(place, String(row.worker), 'overview', '')}
            show={{ label: COMPARE_LABEL, of: (row) => compareOnTimeline(place, row, zoomOfWorker(view, row)) }}
            counted
          />
        </Card>
      )}
      {mapFirst && pictures}
      <Bars view={view} />
      {!mapFirst && pictures}
      <Stages view={view} />
      <Bandwidth view={view} />
      <VendorCharts view={view} />
      <RankGroups view={view} />
    </div>
  )
}

function Bars({ view }: { view: View }) {
  const overlap = payloadByName(view, 'overlap', 'series')
  const waiting = payloadByName(view, 'waiting', 'series')
  if (!overlap && !waiting) return null
  return (
    <div className={`${layoutCss.grid} ${css.cards}`}>
      {overlap && <RankBars series={overlap} wide={!waiting && (overlap.x.length > FEW || overlap.x.length === 1)} />}
      {waiting && <RankBars series={waiting} wide={false} />}
    </div>
  )
}

/** A bar per rank; one rank's numbers if all are alike. */
function RankBars({ series, wide }: { series: Series; wide: boolean }) {
  if (!areUniform(series)) return <RankBarsCard series={series} wide={wide} />
  const middle = Math.floor(series.x.length / 2)
  return (
    <Card
      className={wide ? layoutCss.span12 : layoutCss.span6}
      title={series.title}
      subtitle={`mean step of one rank, because the ${series.x.length} compared ranks differ by at most 2 %`}
    >
      <FigureList
        figures={series.lines.map(({ metric, values }) => ({ metric, value: values[middle] ?? null, note: '' }))}
      />
    </Card>
  )
}

function Stages({ view }: { view: View }) {
  const stages = payloadByName(view, 'stages', 'series')
  const bubbles = payloadByName(view, 'stage_bubbles', 'table')
  if (!stages || !bubbles) return null
  return (
    <Card title={stages.title} subtitle={stages.subtitle}>
      <div className={layoutCss.grid}>
        <div className={layoutCss.span6}>
          <LineKeys lines={stages.lines} help />
          <Chart series={stages} height={240} compact />
        </div>
        <SmallTable className={layoutCss.span6} table={bubbles} />
      </div>
    </Card>
  )
}

function VendorCharts({ view }: { view: View }) {
  const series = (name: string) => payloadByName(view, name, 'series') ?? []
  const stated = ['step_times', 'call_times'].flatMap(series)
  const links = ['map_traffic', 'map_link_bandwidth', 'map_link_bytes'].flatMap(series)
  if (stated.length + links.length === 0) return null
  return (
    <div className={`${layoutCss.grid} ${css.cards}`}>
      {stated.map((series) => (
        <RankBarsCard key={series.name} series={series} wide={stated.length === 1} />
      ))}
      {links.length > 0 && <LinkMaps maps={links} />}
    </div>
  )
}

function RankGroups({ view }: { view: View }) {
  const groups = payloadByName(view, 'process_groups', 'table')
  const devices = payloadByName(view, 'devices', 'table')
  return (
    <>
      {devices && !devices.rows.every(({ device }) => device === 'CPU') && (
        <Kinds
          all={devices}
          kinds={payloadByName(view, 'device_kinds', 'table')}
          what="per node and process"
          noun="device"
          none="The traces contain no device names."
        />
      )}
      {groups && (
        <Kinds
          all={readable(groups)}
          kinds={payloadByName(view, 'group_kinds', 'table')}
          what={`${groups.matched_rows.toLocaleString('en-US')}, as recorded`}
          noun="group"
          none="The traces contain no process groups."
        />
      )}
    </>
  )
}

function Kinds(props: { all: Table; kinds: Table | null; what: string; noun: string; none: string }) {
  const { all, kinds, what, noun, none } = props
  const [isOpen, setOpen] = useState(false)
  const isEach = !kinds || isOpen
  return (
    <Card
      className={isEach && all.rows.length > SHORT ? rankGroupsCss.short : ''}
      title={all.title}
      subtitle={kinds ? `${counted(all.matched_rows, noun)}, identical ones merged` : what}
      actions={
        kinds && (
          <SmallButton aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            {isOpen ? 'Merge identical' : 'Show all'}
          </SmallButton>
        )
      }
    >
      {all.rows.length === 0 ? <p className={textCss.none}>{none}</p> : <SmallTable table={isEach ? all : kinds} />}
    </Card>
  )
}

/** Rows visible without scrolling. */
const SHORT = 24

/** Group description and ranks, before the library's name. */
function readable(table: Table): Table {
  const first = ['group_description', 'group_ranks']
  const named = (key: string) => first.includes(key) && table.rows.some((row) => row[key])
  const columns = [...table.columns].sort((a, b) => Number(named(b.metric.key)) - Number(named(a.metric.key)))
  const rows = table.rows.map((row) => ({
    ...row,
    group_ranks: typeof row.group_ranks === 'string' ? ranksShort(row.group_ranks) : row.group_ranks,
  }))
  return { ...table, columns, rows }
}
