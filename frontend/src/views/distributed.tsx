// Distributed: what the workers of a run did together, who waited for whom, and how fast the data moved.
import { SegmentedControl } from '@mantine/core'
import { useMemo } from 'react'
import type { Query } from '../api/client'
import type { Series, Table, View } from '../api/payloads'
import { columnScale, format } from '../lib/format'
import { useView } from '../state/data'
import { followLink } from '../state/links'
import { setRoute, useRoute } from '../state/route'
import { Bones, Card } from '../widgets/basics'
import { FigureList, Headline } from '../widgets/figures'
import { HeatMap } from '../widgets/heat'
import { NoticeList } from '../widgets/notices'
import { SizePlot } from '../widgets/sizePlot'
import { SmallTable } from '../widgets/smallTable'
import { BarsCard } from './parts/bars'
import { ViewFrame } from './parts/frame'
import { HeadlineCard } from './parts/headline'
import { pick } from './parts/pick'
import { type Group, TableSection } from './parts/tableSection'
import type { ViewProps } from './view'
import layoutCss from '../widgets/layout.module.css'
import textCss from '../widgets/text.module.css'
import css from './distributed.module.css'

const GROUPS: Group[] = [
  { table: 'operations', label: 'Operations' },
  { table: 'collectives', label: 'Single collectives' },
  { table: 'workers', label: 'Workers' },
  { table: 'steps', label: 'Steps' },
  { table: 'bandwidths', label: 'Bandwidths' },
  { table: 'clocks', label: 'Clocks' },
]
/** Tables of what profiles state, and of what flight recorders kept, where there are any. */
const STATED: Group[] = [
  { table: 'recorders', label: 'Flight recorders' },
  { table: 'rank_steps', label: 'Steps, as stated' },
  { table: 'operation_types', label: 'Kinds of calls' },
  { table: 'kinds_of_links', label: 'Kinds of links', nameStyle: 'plain' },
  { table: 'links', label: 'Links', nameStyle: 'plain' },
]

export function Distributed({ base }: ViewProps) {
  // The view is about all workers: which one is open does not matter to the answer.
  const query = useMemo<Query>(() => ({ ...base, worker: '' }), [base])
  const resource = useView('distributed', query)
  const shown = resource.data
  return (
    <div className={css.distributed}>
      <ViewFrame resource={resource} bones={<Reading fraction={resource.fraction} />} steps={String(base.steps ?? '')}>
        {(view) => <Page view={view} />}
      </ViewFrame>
      {shown && (
        <TableSection
          view="distributed"
          base={query}
          groups={[...GROUPS, ...STATED.filter(({ table }) => pick(shown, table, 'table'))]}
          placeholder="Search workers and collectives, text or /regex/"
          detail={(row, table) => (
            <FigureList
              figures={table.columns.map(({ metric }) => ({ metric, value: row[metric.key] ?? null, note: '' }))}
            />
          )}
        />
      )}
    </div>
  )
}

/** The other workers' traces are read when this view is first opened. */
function Reading({ fraction }: { fraction: number | null }) {
  return (
    <>
      {fraction !== null && (
        <p className={textCss.none} role="status">
          Reading the traces of all workers: {format(fraction, 'ratio')}
        </p>
      )}
      <Bones height={420} />
    </>
  )
}

function Page({ view }: { view: View }) {
  const headline = pick(view, 'headline', 'figures')
  const findings = pick(view, 'findings', 'notices')
  const overlap = pick(view, 'overlap', 'series')
  const waiting = pick(view, 'waiting', 'series')
  const groups = pick(view, 'process_groups', 'table')
  const devices = pick(view, 'devices', 'table')
  const bandwidth = pick(view, 'bandwidth', 'series')
  const fits = pick(view, 'bandwidth_fits', 'table')
  const nodes = pick(view, 'nodes', 'table')
  const matrices = Object.keys(view.payloads).flatMap((name) =>
    name.startsWith('by_step_') ? (pick(view, name, 'series') ?? []) : [],
  )
  const series = (name: string) => pick(view, name, 'series') ?? []
  const stated = ['step_times', 'call_times'].flatMap(series)
  const links = ['map_link_bandwidth', 'map_link_bytes'].flatMap(series)
  return (
    <div className={`${layoutCss.grid} ${css.cards}`}>
      {headline && (
        <HeadlineCard>
          <Headline figures={headline.figures} alarms={new Map()} />
        </HeadlineCard>
      )}
      {findings && findings.notices.length > 0 && (
        <Card className={layoutCss.span12} title={findings.title} subtitle={String(findings.notices.length)}>
          <NoticeList notices={findings.notices} onLink={followLink} none="" />
        </Card>
      )}
      {overlap && <BarsCard series={overlap} wide={!waiting} />}
      {waiting && <BarsCard series={waiting} wide={false} />}
      {matrices.length > 0 && <MapCard maps={matrices} row="Worker" param="by" label="What the heat map shows" />}
      {stated.map((series) => (
        <BarsCard key={series.name} series={series} wide={stated.length === 1} />
      ))}
      {bandwidth && (
        <Card className={layoutCss.span12} title={bandwidth.title} subtitle={bandwidth.subtitle}>
          <SizePlot series={bandwidth} height={280} />
          {fits && <SmallTable table={fits} />}
        </Card>
      )}
      {nodes && nodes.rows.length > 1 && (
        <Card className={`${layoutCss.span12} ${css.short}`} title={nodes.title} subtitle="slowest first">
          <SmallTable table={nodes} />
        </Card>
      )}
      {links.length > 0 && <MapCard maps={links} row="From" param="links" label="What the map of links shows" />}
      {devices && (
        <Card className={`${layoutCss.span12} ${css.short}`} title={devices.title} subtitle="per node and process">
          <SmallTable table={devices} />
        </Card>
      )}
      {groups && (
        <Card
          className={`${layoutCss.span12} ${groups.rows.length > SHORT ? css.short : ''}`}
          title={groups.title}
          subtitle={`${groups.matched_rows.toLocaleString('en-US')}, as recorded`}
        >
          {groups.rows.length > 0 ? (
            <SmallTable table={namedFirst(groups)} />
          ) : (
            <p className={textCss.none}>The traces name no process group.</p>
          )}
        </Card>
      )}
    </div>
  )
}

/** So many groups are seen without scrolling. */
const SHORT = 24

/** What a group is called and its ranks before the name that the library gave it. */
function namedFirst(table: Table): Table {
  const first = ['group_description', 'group_ranks']
  const named = (key: string) => first.includes(key) && table.rows.some((row) => row[key])
  const columns = [...table.columns].sort((a, b) => Number(named(b.metric.key)) - Number(named(a.metric.key)))
  return { ...table, columns }
}

/** Heat maps of which one is shown; which one stands in the URL. */
function MapCard({ maps, row, param, label }: { maps: Series[]; row: string; param: string; label: string }) {
  const route = useRoute()
  const shown = maps.find((series) => series.name === route[param]) ?? maps[0]
  const unit = columnScale(
    shown.lines[0]?.metric.unit ?? 'number',
    shown.lines.flatMap((line) => line.values),
  )
  return (
    <Card
      className={layoutCss.span12}
      title={`${shown.title} (${unit.symbol})`}
      subtitle={shown.subtitle}
      actions={
        <SegmentedControl
          size="xs"
          value={shown.name}
          onChange={(next) => setRoute({ [param]: next === maps[0].name ? '' : next })}
          aria-label={label}
          data={maps.map((series) => ({ value: series.name, label: series.title }))}
        />
      }
    >
      <HeatMap series={shown} row={row} />
    </Card>
  )
}
