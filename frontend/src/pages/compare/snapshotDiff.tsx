// Diff of two memory snapshots, by stack.

import { useEffect, useMemo } from 'react'
import type { Query } from '../../api/client'
import type { View } from '../../api/payloads'
import { resolveBaseline } from '../../lib/baselines'
import { familyScales, format } from '../../lib/format'
import { type Address, addressText, ofModel, spanOf, spanVersion } from '../../lib/profiles'
import { StackBlock } from '../../parts/detailBlock'
import { Answers, HeadlineCard } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { payloadByName } from '../../parts/payloadByName'
import { TablePage } from '../../parts/tablePage'
import type { Group } from '../../parts/tableSection'
import { useProfile, useView } from '../../state/data'
import { setRoute, useRoute } from '../../state/urlState'
import { Card } from '../../widgets/basics'
import { Headline } from '../../widgets/figures'
import { ProblemPanel } from '../../widgets/problem'
import { ProfilePickers } from '../../widgets/profilePickers'
import { FailedPanel, LoadingPanel } from '../../widgets/profileState'
import { SmallTable } from '../../widgets/smallTable'
import { Candidates, CandidatesMenu } from './candidates'
import { baselineState, setBaseline } from './compareBar'
import css from '../../parts/pageHead.module.css'
import frameCss from '../../parts/viewFrame.module.css'
import basicsCss from '../../widgets/basics.module.css'
import layoutCss from '../../widgets/layout.module.css'

const GROUPS: Group[] = [
  { table: 'peak_stacks', label: 'At the peak' },
  { table: 'end_stacks', label: 'At the snapshot' },
]

const CHANGE = 'delta_held_bytes'

export function SnapshotDiff({ catalog: all, profile, base }: PageProps) {
  const route = useRoute()
  const catalog = useMemo(() => ofModel(all, profile.model), [all, profile.model])
  const { run, worker, span } = profile
  const exp = useMemo<Address>(() => ({ run, worker, span }), [run, worker, span])
  const baseline = useMemo(() => resolveBaseline(catalog, route, exp), [catalog, route, exp])
  const ask = useProfile(baseline, spanVersion(spanOf(catalog, baseline)), '')
  const named = Boolean(route.base_run || route.base_worker || route.base_span)
  // Store the default baseline, so that a link keeps it when new runs arrive.
  useEffect(() => {
    if (baseline && !named) setRoute(baselineState(baseline))
  }, [baseline, named])
  const wanted = { run: route.base_run ?? '', worker: route.base_worker ?? '', span: route.base_span ?? '' }
  return (
    <div className={frameCss.page}>
      <section className={css.figures} aria-label="Comparison">
        <b>Baseline</b>
        <ProfilePickers catalog={catalog} address={baseline ?? wanted} onChange={(next) => setBaseline(next)} />
        <CandidatesMenu catalog={catalog} exp={exp} baseline={baseline} />
      </section>
      {!baseline ? (
        <div className={basicsCss.panel}>
          <h2>Choose a baseline snapshot</h2>
          <p>
            {named
              ? `Snapshot ${[wanted.run, wanted.worker, wanted.span].filter(Boolean).join(' · ')} was not found. `
              : ''}
            Choose one of these, or any other above:
          </p>
          <Candidates catalog={catalog} exp={exp} label="Suggested baselines" />
        </div>
      ) : ask.problem ? (
        <ProblemPanel problem={ask.problem} title={`Baseline: ${addressText(baseline)}`} />
      ) : ask.profile?.state === 'failed' ? (
        <FailedPanel profile={ask.profile} onRetry={ask.reload} side="Baseline" />
      ) : ask.profile?.state === 'ready' ? (
        <Compared base={base} baseline={baseline} />
      ) : (
        <LoadingPanel profile={ask.profile} span={spanOf(catalog, baseline)} side="Baseline" />
      )}
    </div>
  )
}

function Compared({ base, baseline }: { base: Query; baseline: Address }) {
  const { run, worker, span } = baseline
  const query = useMemo<Query>(() => ({ ...base, ...baselineState({ run, worker, span }) }), [base, run, worker, span])
  const resource = useView('snapshot_diff', query)
  return (
    <TablePage
      view="snapshot_diff"
      resource={resource}
      base={query}
      bones={240}
      top={(view) => <Top view={view} />}
      waits
      groups={GROUPS}
      placeholder="Search lines, text or /regex/"
      detail={(row) => {
        const stack = String(row.allocation_stack ?? '')
        return (
          <div className={css.detail}>
            <StackBlock title="Stack" small={format(stack.split(';').length, 'count')} stacks={[stack]} />
          </div>
        )
      }}
    />
  )
}

function Top({ view }: { view: View }) {
  const headline = payloadByName(view, 'headline', 'figures')
  const figures = payloadByName(view, 'snapshot_figures', 'table')
  // The sentence uses the table's unit, so that equal bytes have equal digits.
  const scale =
    figures?.columns && familyScales(figures.columns, (key) => figures.rows.map((row) => row[key] ?? null)).get(CHANGE)
  return (
    <div className={layoutCss.column}>
      <HeadlineCard className={css.head} below>
        <Answers view={view} scale={scale} />
        {headline && <Headline figures={headline.figures} scale={scale} />}
      </HeadlineCard>
      {figures && (
        <Card title={figures.title}>
          <SmallTable table={figures} />
        </Card>
      )}
    </div>
  )
}
