// Peak memory of all ranks.
import { Button } from '@mantine/core'
import { useMemo } from 'react'
import type { Series, View } from '../../api/payloads'
import { categoryColor } from '../../lib/color'
import { columnScale } from '../../lib/format'
import { withoutShared } from '../../lib/names'
import { HeadlineCard, HeadlineSentence } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { payloadByName } from '../../parts/payloadByName'
import { type Group, TableSection } from '../../parts/tableSection'
import { followLink } from '../../state/links'
import { openViewOfProfile, workerLink } from '../../state/urlState'
import { Card, MetricName, Swatch } from '../../widgets/basics'
import { Chart } from '../../widgets/chart'
import { FigureList, Headline } from '../../widgets/figures'
import { NoticeList, Sentence } from '../../widgets/notices'
import { AllWorkersFrame, useAllWorkers } from './allWorkers'
import css from '../../parts/pageHead.module.css'
import frameCss from '../../parts/viewFrame.module.css'
import breakdownCss from '../../widgets/breakdown.module.css'
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
                <Button
                  size="compact-xs"
                  variant="default"
                  onClick={() => openViewOfProfile({ ...place, worker: String(row.worker) }, 'allocations', {})}
                >
                  Open memory of this rank
                </Button>
              </span>
              <FigureList
                figures={table.columns.map(({ metric }) => ({ metric, value: row[metric.key] ?? null, note: '' }))}
              />
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
  const answer = payloadByName(view, 'answer', 'notices')?.notices ?? []
  const lists = [payloadByName(view, 'advice', 'notices'), payloadByName(view, 'data_quality', 'notices')]
  return (
    <div className={layoutCss.column}>
      {headline && (
        <HeadlineCard label={headline.title} className={css.head} below>
          {answer.map((notice) => (
            <HeadlineSentence key={notice.rule} severity={notice.severity}>
              <Sentence notice={notice} text={notice.text} scale={scale} />
            </HeadlineSentence>
          ))}
          <Headline figures={headline.figures} alarms={new Map()} scale={scale} />
        </HeadlineCard>
      )}
      {lists.map(
        (list) =>
          list &&
          list.notices.length > 0 && (
            <Card key={list.name} title={list.title}>
              <NoticeList notices={list.notices} onLink={followLink} none="" wayOf={workerLink(place)} />
            </Card>
          ),
      )}
      {bars && bars.lines.length > 0 && <BarsCard series={bars} />}
    </div>
  )
}

function BarsCard({ series }: { series: Series }) {
  const bars = useMemo(() => ({ ...series, x: withoutShared(series.x.map(String)) }), [series])
  return (
    <Card title={series.title} subtitle="by category">
      <ul className={breakdownCss.key}>
        {series.lines.map((line) => (
          <li key={line.metric.key}>
            <Swatch color={categoryColor(line.category)} />
            <MetricName metric={line.metric} />
          </li>
        ))}
      </ul>
      <Chart series={bars} height={260} compact />
    </Card>
  )
}
