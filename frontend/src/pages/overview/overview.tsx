// Overview: answer, steps, findings, device time. Findings are its body.

import { type CSSProperties, useMemo, useState } from 'react'
import type { Query } from '../../api/client'
import type { Breakdown, Figure, Figures, Notice, Notices, Saving, Severity, View } from '../../api/payloads'
import { formatRange } from '../../lib/format'
import { joinIds } from '../../lib/laneOrder'
import { firstSentence } from '../../lib/noticeTemplate'
import { viewInfo } from '../../lib/profiles'
import type { Row } from '../../lib/tableRows'
import { HeadlineCard, HeadlineSentence } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { figureOf, payloadByName } from '../../parts/payloadByName'
import { ViewFrame } from '../../parts/viewFrame'
import { useView } from '../../state/data'
import { followLink, functionState } from '../../state/links'
import { openView, setRoute } from '../../state/urlState'
import { Card, LinkButton, PagePlaceholder, Placeholder, SmallButton } from '../../widgets/basics'
import { BreakdownBar, BreakdownTable } from '../../widgets/breakdown'
import { FigureList, Headline, WindowedList } from '../../widgets/figures'
import { Advice, Sentence } from '../../widgets/notices'
import { PayloadCard } from '../../widgets/payload'
import { useQueryWithoutDismissed } from './dismissedFindings'
import { FindingsCard } from './findings'
import { type Job, JobSentence, needsJob, useJob } from './jobSentence'
import { StepsCard } from './stepsCard'
import layoutCss from '../../widgets/layout.module.css'
import textCss from '../../widgets/text.module.css'
import css from './overview.module.css'

const KNOWN = new Set([
  'headline',
  'largest_costs',
  'steps',
  'average_step',
  'outside_steps',
  'findings',
  'left_out',
  'trace_health',
  'configuration',
  'data_quality',
])

/** Tables that say the same as the bars of devices, step by step: nothing new with one step. */
const BENEATH = new Set(['steps_of_devices'])

const ROWS: Readonly<Record<string, (row: Row) => void>> = {
  longest_ranges: (row) => openView('stacks', functionState(String(row.name))),
  busiest_threads: (row) => openView('stacks', { thread: joinIds([String(row.thread_key)]) }),
}

/** Up to this many device cards are stacked; more get their own rows. */
const BESIDE = 2

/** The least width of a card in a row of them. */
const width = (pixels: number) => ({ '--tt-card': `${pixels}px` }) as CSSProperties

const bones = (
  <div className={layoutCss.grid}>
    <PagePlaceholder />
    <div className={layoutCss.span8}>
      <Placeholder height={200} />
    </div>
    <div className={layoutCss.span4}>
      <Placeholder height={200} />
    </div>
  </div>
)

export function Overview(props: PageProps) {
  const { base, profile } = props
  const query = useQueryWithoutDismissed(base)
  const resource = useView('overview', query)
  // The chart keeps all steps, so that others can be selected.
  const whole = useView('overview', { ...base, steps: '' }, Boolean(base.steps))
  const findings = useView('findings', query, viewInfo(profile, 'findings')?.available)
  return (
    <ViewFrame resource={resource} bones={bones} steps={String(base.steps ?? '')}>
      {(view) => <Page view={view} whole={whole.data ?? view} findings={findings.data} query={query} props={props} />}
    </ViewFrame>
  )
}

function Page(of: { view: View; whole: View; findings: View | null; query: Query; props: PageProps }) {
  const { view, whole, findings, query, props } = of
  const job = useJob(props)
  const headline = payloadByName(view, 'headline', 'figures')
  const costs = payloadByName(view, 'largest_costs', 'notices')
  const every = payloadByName(whole, 'steps', 'series')
  // A bar of parts says more than one column.
  const steps = every && every.x.length > 1 ? every : null
  const average = payloadByName(view, 'average_step', 'breakdown')
  const advice = payloadByName(view, 'findings', 'notices')
  const outside = payloadByName(view, 'outside_steps', 'figures')
  const about = [
    payloadByName(view, 'trace_health', 'figures'),
    payloadByName(view, 'configuration', 'figures'),
  ].flatMap((card) => (card?.figures.length ? card : []))
  const names = Object.keys(view.payloads)
  const bars = names.flatMap((name) =>
    /^device_(steps|time|idle|classes|cores)/.test(name) ? (payloadByName(view, name, 'breakdown') ?? []) : [],
  )
  // With one step, the time per step may be all of the time.
  const times = bars.filter(
    (bar) => !bars.some((other) => bar.name === other.name.replace('_steps_', '_time_') && areAlike(bar, other)),
  )
  const devices = names.flatMap((name) =>
    name.startsWith('device_') && !name.startsWith('device_time') ? (payloadByName(view, name, 'figures') ?? []) : [],
  )
  const many = devices.length > BESIDE
  const rest = names.filter(
    (name) =>
      !KNOWN.has(name) &&
      !name.startsWith('device_') &&
      !(BENEATH.has(name) && times.length > 0 && payloadByName(view, name, 'table')?.matched_rows === 1),
  )
  // Without steps and devices, time by range takes the place of device time.
  const beside = times.length === 0 && !average ? rest : rest.filter((name) => BENEATH.has(name) && !many)
  const left = many ? [] : times
  const cards = many ? about : [...devices, ...about]
  return (
    <div className={layoutCss.grid}>
      {headline && (
        <Answer headline={headline} costs={costs} first={advice?.notices[0] ?? null} job={job} props={props} />
      )}
      {steps && <StepsCard series={steps} average={average} base={props.base} />}
      {average && <AverageCard payload={average} outside={outside} recorded={every !== null} wide={!steps} />}
      {findings && (
        <FindingsCard
          view={findings}
          base={query}
          whole={every ? 'step' : 'recording'}
          isJobRead={job.isRead}
          page={props}
        />
      )}
      {left.length + beside.length > 0 ? (
        <>
          <div className={`${layoutCss.span8} ${layoutCss.column}`}>
            {left.map((payload) => (
              <TimeCard key={payload.name} payload={payload} />
            ))}
            {beside.map((name) => (
              <PayloadCard key={name} payload={view.payloads[name]} onLink={followLink} onName={ROWS[name]} />
            ))}
          </div>
          <div className={`${layoutCss.span4} ${layoutCss.column}`}>
            {cards.map((card) => (
              <DeviceCard key={card.name} device={card} />
            ))}
          </div>
        </>
      ) : (
        <CardRow cards={cards} />
      )}
      {many && (
        <>
          <div className={`${layoutCss.span12} ${css.cards}`} style={width(400)}>
            {times.map((payload) => (
              <TimeCard key={payload.name} payload={payload} />
            ))}
          </div>
          <CardRow cards={devices} name="devices" />
        </>
      )}
      {rest
        .filter((name) => !beside.includes(name))
        .map((name) => (
          <div key={name} className={layoutCss.span12}>
            <PayloadCard payload={view.payloads[name]} onLink={followLink} />
          </div>
        ))}
    </div>
  )
}

const timesOf = ({ parts }: Breakdown) => parts.flatMap(({ value }) => value || []).join(' ')

/** Whether two different bars show the same times. */
const areAlike = (a: Breakdown, b: Breakdown) => a !== b && timesOf(a) === timesOf(b)

/** Share of the step that a headline figure loses. */
const LOST: Record<string, (value: number) => number> = {
  utilization: (busy) => 1 - busy,
  waiting_for_input: (share) => share,
  communication_exposed: (share) => share,
}
/** Lost shares from which a figure is medium or high; the server's severities use the same (analysis/severity.py). */
const MEDIUM = 0.05
const HIGH = 0.2
/** The figures of an incomplete recording are no alarm. */
const NO_ALARM = new Set(['recording', 'GPU work not recorded', 'recording started late', 'file truncated'])

function alarmsOf(figures: readonly Figure[]): Map<string, Severity> {
  const out = new Map<string, Severity>()
  for (const { metric, value } of figures) {
    const lost = typeof value === 'number' ? (LOST[metric.key]?.(value) ?? 0) : 0
    if (lost >= MEDIUM) out.set(metric.key, lost >= HIGH ? 'high' : 'medium')
  }
  return out
}

function Answer(of: { headline: Figures; costs: Notices | null; first: Notice | null; job: Job; props: PageProps }) {
  const { headline, costs, first, job, props } = of
  const { profile } = props
  const limit = costs?.notices[0] && figureOf(costs.notices[0], 'limit')?.value
  const alarms = useMemo(
    () => (NO_ALARM.has(String(limit)) ? new Map() : alarmsOf(headline.figures)),
    [headline, limit],
  )
  // A small wait of this rank is no headline.
  const leads = job.verdict === null || job.verdict.severity !== 'info'
  // Communication is not the first fix if ranks wait for each other, or if this is not known yet.
  const ranksWait = job.fraction !== null || job.verdict?.severity === 'high'
  const isSaid = costs?.notices.some(({ todo }) => todo)
  const fix =
    first && isWorthwhile(first) && !isSaid && !(ranksWait && needsJob(first)) ? firstSentence(first.todo) : ''
  return (
    <HeadlineCard below>
      {leads && <JobSentence job={job} profile={profile} />}
      {costs?.notices.map((notice, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the order is fixed
        <HeadlineSentence key={i} severity={notice.severity}>
          <Advice notice={notice} />{' '}
          {notice.evidence && (
            <LinkButton onClick={() => notice.evidence && followLink(notice.evidence)}>
              {notice.evidence.text || 'Show evidence'}
            </LinkButton>
          )}
        </HeadlineSentence>
      ))}
      {!leads && <JobSentence job={job} profile={profile} />}
      {fix && first && (
        <HeadlineSentence severity="info">
          <b>
            {job.verdict ? 'On this rank, fix first: ' : 'Fix first: '}
            <LinkButton onClick={() => setRoute({ rule: first.rule }, true)}>{first.title}</LinkButton>
          </b>
          {first.saving && (
            <TotalSaving saving={first.saving} whole={profile.steps.length > 0 ? 'step' : 'recording'} />
          )}
          . <Sentence notice={first} text={fix} />
        </HeadlineSentence>
      )}
      <Headline figures={headline.figures} alarms={alarms} />
    </HeadlineCard>
  )
}

/** A fix that saves less than this share of the step is not the first one. */
const LEAST_FIX = 0.01

/** Whether a finding is worth to be named in the headline. */
export const isWorthwhile = ({ saving, severity }: Pick<Notice, 'saving' | 'severity'>) =>
  saving ? saving.high_ns >= LEAST_FIX * (saving.step_ns ?? 0) : severity === 'high' || severity === 'medium'

const TotalSaving = ({ saving, whole }: { saving: Saving; whole: string }) => (
  <>
    {' '}
    (saves <b>{formatRange(saving.low_ns, saving.high_ns, 'ns')}</b> {whole === 'step' ? 'per step' : 'in total'})
  </>
)

function AverageCard(props: { payload: Breakdown; outside: Figures | null; recorded: boolean; wide: boolean }) {
  const { payload, outside, recorded, wide } = props
  return (
    <Card className={wide ? layoutCss.span12 : layoutCss.span4} title={payload.title} subtitle={payload.subtitle}>
      {wide ? (
        <BreakdownBar payload={payload} onLink={followLink} />
      ) : (
        <BreakdownTable payload={payload} onLink={followLink} of={recorded ? '% of step' : '% of recording'} />
      )}
      {outside && (
        <>
          <h3>
            {outside.title} <small className={textCss.mute}>{outside.subtitle}</small>
          </h3>
          <div className={wide ? css.outsideWide : css.outside}>
            <FigureList figures={outside.figures} />
          </div>
        </>
      )}
    </Card>
  )
}

/** More figures than this are folded, but for the first. */
const MOST = 12
const FOLDED = 8

function DeviceCard({ device: { title, subtitle, figures } }: { device: Figures }) {
  const [all, setAll] = useState(false)
  const folds = figures.length > MOST
  return (
    <Card title={title} subtitle={subtitle}>
      <WindowedList figures={folds && !all ? figures.slice(0, FOLDED) : figures} />
      {folds && (
        <SmallButton aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? 'Fewer' : `${figures.length - FOLDED} more`}
        </SmallButton>
      )}
    </Card>
  )
}

const CardRow = ({ cards, name }: { cards: Figures[]; name?: string }) =>
  cards.length > 0 && (
    <div className={`${layoutCss.span12} ${css.cards}`} style={width(250)} data-testid={name}>
      {cards.map((card) => (
        <DeviceCard key={card.name} device={card} />
      ))}
    </div>
  )

function TimeCard({ payload }: { payload: Breakdown }) {
  return (
    <Card title={payload.title} subtitle={payload.subtitle}>
      <BreakdownBar payload={payload} onLink={followLink} />
    </Card>
  )
}
