// Cluster: a whole-job analysis by rank.
import { SegmentedControl } from '@mantine/core'
import type { Series, View } from '../../api/payloads'
import { columnScale } from '../../lib/format'
import { RowFacts } from '../../parts/answerPage'
import { HeadlineCard } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { payloadByName } from '../../parts/payloadByName'
import { type Group, TableSection } from '../../parts/tableSection'
import { ViewFrame } from '../../parts/viewFrame'
import { useView } from '../../state/data'
import { followLink } from '../../state/links'
import { setRoute, useRoute } from '../../state/urlState'
import { Card, Placeholder } from '../../widgets/basics'
import { Headline } from '../../widgets/figures'
import { HeatMap } from '../../widgets/heat'
import { NoticeList } from '../../widgets/notices'
import { RankBarsCard } from './rankBars'
import frameCss from '../../parts/viewFrame.module.css'
import layoutCss from '../../widgets/layout.module.css'

const GROUPS: Group[] = [
  { table: 'job_steps', label: 'Steps', nameStyle: 'plain' },
  { table: 'job_communication', label: 'Communication' },
  { table: 'job_bands', label: 'Link types', nameStyle: 'plain' },
  { table: 'job_links', label: 'Links', nameStyle: 'plain' },
  { table: 'job_groups', label: 'Groups', nameStyle: 'plain' },
]

export function Cluster({ base }: PageProps) {
  const resource = useView('cluster', base)
  return (
    <div className={frameCss.page}>
      <ViewFrame resource={resource} bones={<Placeholder height={420} />}>
        {(view) => <Page view={view} />}
      </ViewFrame>
      {resource.data && (
        <TableSection
          view="cluster"
          base={base}
          groups={GROUPS}
          placeholder="Search ranks, stages and groups, text or /regex/"
          detail={(row, table) => <RowFacts row={row} table={table} />}
        />
      )}
    </div>
  )
}

function Page({ view }: { view: View }) {
  const headline = payloadByName(view, 'headline', 'figures')
  const lists = [payloadByName(view, 'findings', 'notices'), payloadByName(view, 'data_quality', 'notices')]
  const [ranks, stages] = [payloadByName(view, 'rank_times', 'series'), payloadByName(view, 'stage_times', 'series')]
  const calls = payloadByName(view, 'rank_calls', 'series')
  const maps = ['map_link_bandwidth', 'map_link_bytes'].flatMap((name) => payloadByName(view, name, 'series') ?? [])
  return (
    <div className={layoutCss.grid}>
      {headline && (
        <HeadlineCard>
          <Headline figures={headline.figures} alarms={new Map()} />
        </HeadlineCard>
      )}
      {lists.map(
        (list) =>
          list &&
          list.notices.length > 0 && (
            <Card key={list.name} className={layoutCss.span12} title={list.title}>
              <NoticeList notices={list.notices} onLink={followLink} none="" />
            </Card>
          ),
      )}
      {ranks && <RankBarsCard series={ranks} wide={!stages} />}
      {stages && <RankBarsCard series={stages} wide={!ranks} />}
      {calls && <RankBarsCard series={calls} wide />}
      {maps.length > 0 && <LinksCard maps={maps} />}
    </div>
  )
}

function LinksCard({ maps }: { maps: Series[] }) {
  const route = useRoute()
  const shown = maps.find((series) => series.name === route.by) ?? maps[0]
  const { unit } = shown.lines[0].metric
  const values = shown.lines.flatMap((line) => line.values)
  return (
    <Card
      className={layoutCss.span12}
      title={`${shown.title} (${columnScale(unit, values).symbol})`}
      subtitle={shown.subtitle}
      actions={
        <SegmentedControl
          size="xs"
          value={shown.name}
          onChange={(next) => setRoute({ by: next === maps[0].name ? '' : next })}
          aria-label="Value of the link map"
          data={maps.map((series) => ({ value: series.name, label: series.title }))}
        />
      }
    >
      <HeatMap series={shown} row="From" />
    </Card>
  )
}
