// Distributed: what the workers of a run did together, who waited for whom, and how fast the data moved.
import { SegmentedControl } from '@mantine/core'
import { useMemo } from 'react'
import type { Query } from '../api/client'
import type { Series, View } from '../api/payloads'
import { columnScale, format } from '../lib/format'
import { useView } from '../state/data'
import { followLink } from '../state/links'
import { setRoute, useRoute } from '../state/route'
import { Bones, Card } from '../widgets/basics'
import { FigureList, Headline } from '../widgets/figures'
import { HeatMap } from '../widgets/heat'
import { NoticeList } from '../widgets/notices'
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
]

export function Distributed({ base }: ViewProps) {
  // The view is about all workers: which one is open does not matter to the answer.
  const query = useMemo<Query>(() => ({ ...base, worker: '' }), [base])
  const resource = useView('distributed', query)
  return (
    <div className={css.distributed}>
      <ViewFrame resource={resource} bones={<Reading fraction={resource.fraction} />} steps={String(base.steps ?? '')}>
        {(view) => <Page view={view} />}
      </ViewFrame>
      {resource.data && (
        <TableSection
          view="distributed"
          base={query}
          groups={GROUPS}
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
  const matrices = Object.keys(view.payloads).flatMap((name) =>
    name.startsWith('by_step_') ? (pick(view, name, 'series') ?? []) : [],
  )
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
      {matrices.length > 0 && <ByStep matrices={matrices} />}
      {devices && (
        <Card className={`${layoutCss.span12} ${css.short}`} title={devices.title} subtitle="per node and process">
          <SmallTable table={devices} />
        </Card>
      )}
      {groups && (
        <Card className={`${layoutCss.span12} ${css.short}`} title={groups.title} subtitle="as recorded">
          {groups.rows.length > 0 ? (
            <SmallTable table={groups} />
          ) : (
            <p className={textCss.none}>The traces name no process group.</p>
          )}
        </Card>
      )}
    </div>
  )
}

function ByStep({ matrices }: { matrices: Series[] }) {
  const route = useRoute()
  const shown = matrices.find((series) => series.name === route.by) ?? matrices[0]
  const unit = columnScale(
    'ns',
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
          onChange={(next) => setRoute({ by: next === matrices[0].name ? '' : next })}
          aria-label="What the heat map shows"
          data={matrices.map((series) => ({ value: series.name, label: series.title }))}
        />
      }
    >
      <HeatMap series={shown} row="Worker" />
    </Card>
  )
}
