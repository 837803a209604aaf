// Cluster: a whole-job analysis by rank.

import type { Series, View } from '../../api/payloads'
import { columnScale } from '../../lib/format'
import { RowFacts } from '../../parts/answerPage'
import { HeadlineCard, NoticesCard } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { payloadByName } from '../../parts/payloadByName'
import { TablePage } from '../../parts/tablePage'
import type { Group } from '../../parts/tableSection'
import { useView } from '../../state/data'
import { setRoute, useRoute } from '../../state/urlState'
import { Card } from '../../widgets/basics'
import { Switch } from '../../widgets/choice'
import { Headline } from '../../widgets/figures'
import { HeatMap } from '../../widgets/heat'
import { RankBarsCard } from './rankBars'
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
    <TablePage
      view="cluster"
      resource={resource}
      base={base}
      bones={420}
      top={(view) => <Page view={view} />}
      groups={GROUPS}
      waits
      placeholder="Search ranks, stages and groups, text or /regex/"
      detail={(row, table) => <RowFacts row={row} table={table} />}
    />
  )
}

function Page({ view }: { view: View }) {
  const headline = payloadByName(view, 'headline', 'figures')
  const [ranks, stages] = [payloadByName(view, 'rank_times', 'series'), payloadByName(view, 'stage_times', 'series')]
  const calls = payloadByName(view, 'rank_calls', 'series')
  const maps = ['map_link_bandwidth', 'map_link_bytes'].flatMap((name) => payloadByName(view, name, 'series') ?? [])
  return (
    <div className={layoutCss.grid}>
      {headline && (
        <HeadlineCard>
          <Headline figures={headline.figures} />
        </HeadlineCard>
      )}
      <NoticesCard view={view} name="findings" className={layoutCss.span12} />
      <NoticesCard view={view} className={layoutCss.span12} />
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
        <Switch
          value={shown.name}
          onChange={(next) => setRoute({ by: next === maps[0].name ? '' : next })}
          label="Value of the link map"
          options={maps.map((series) => ({ value: series.name, label: series.title }))}
        />
      }
    >
      <HeatMap series={shown} row="From" />
    </Card>
  )
}
