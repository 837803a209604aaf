// Peak memory of all ranks.

import { useMemo } from 'react'
import type { Series, View } from '../../api/payloads'
import { columnScale } from '../../lib/format'
import { withoutShared } from '../../lib/names'
import { rowFigures } from '../../parts/detailBlock'
import { Answers, HeadlineCard, NoticesCard } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { payloadByName } from '../../parts/payloadByName'
import { type Group, TableSection } from '../../parts/tableSection'
import { openViewOfProfile, workerLink } from '../../state/urlState'
import { Card, LineKeys, SmallButton } from '../../widgets/basics'
import { Chart } from '../../widgets/chart'
import { FigureList, Headline } from '../../widgets/figures'
import { AllWorkersFrame, useAllWorkers } from './allWorkers'
import css from '../../parts/pageHead.module.css'
import frameCss from '../../parts/viewFrame.module.css'
import layoutCss from '../../widgets/layout.module.css'

const GROUPS: Group[] = [{ table: 'rank_memory', label: 'Ranks' }]

export function RanksMemory(props: PageProps) {
  const { profile } = props
  const all = useAllWorkers('ranks_memory', props)
  const place = { run: profile.run, span: profile.span }
  return (
    <div className={frameCss.page}>
      <AllWorkersFrame all={all} why="The view compares memory on all ranks.">
        {(view) => <Page view={view} place={place} />}
      </AllWorkersFrame>
      {all.resource.data && (
        <TableSection
          view="ranks_memory"
          base={all.query}
          groups={GROUPS}
          nameStyle="plain"
          placeholder="Search ranks, text or /regex/"
          detail={(row, table) => (
            <div className={css.detail}>
              <span>
                <SmallButton
                  onClick={() => openViewOfProfile({ ...place, worker: String(row.worker) }, 'allocations', {})}
                >
                  Open memory of this rank
                </SmallButton>
              </span>
              <FigureList figures={rowFigures(row, table, () => true)} />
            </div>
          )}
        />
      )}
    </div>
  )
}

function Page({ view, place }: { view: View; place: { run: string; span: string } }) {
  const headline = payloadByName(view, 'headline', 'figures')
  const bars = payloadByName(view, 'rank_categories', 'series')
  // The same peaks appear in sentence and table: one unit.
  const sizes = headline?.figures.flatMap(({ metric, value }) => (metric.unit === 'bytes' ? value : [])) ?? []
  const scale = columnScale('bytes', sizes)
  return (
    <div className={layoutCss.column}>
      {headline && (
        <HeadlineCard label={headline.title} className={css.head} below>
          <Answers view={view} scale={scale} />
          <Headline figures={headline.figures} scale={scale} />
        </HeadlineCard>
      )}
      <NoticesCard view={view} name="advice" wayOf={workerLink(place)} />
      <NoticesCard view={view} wayOf={workerLink(place)} />
      {bars && bars.lines.length > 0 && <BarsCard series={bars} />}
    </div>
  )
}

function BarsCard({ series }: { series: Series }) {
  const bars = useMemo(() => ({ ...series, x: withoutShared(series.x.map(String)) }), [series])
  return (
    <Card title={series.title} subtitle="by category">
      <LineKeys lines={series.lines} help />
      <Chart series={bars} height={260} compact />
    </Card>
  )
}
