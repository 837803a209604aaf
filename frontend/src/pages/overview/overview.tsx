// Overview: answer, steps, findings, device time.

import { type CSSProperties, useMemo, useState } from 'react'
import type { Breakdown, Figure, Figures, Notice, Notices, Series, Severity, Slice, View } from '../../api/payloads'
import type { Scale } from '../../lib/format'
import { joinIds } from '../../lib/laneOrder'
import { parseSteps } from '../../lib/stepSelection'
import type { Row } from '../../lib/tableRows'
import { HeadlineCard, HeadlineSentence } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { payloadByName } from '../../parts/payloadByName'
import { ViewFrame } from '../../parts/viewFrame'
import { useView } from '../../state/data'
import { followLink, functionState } from '../../state/links'
import { openView, setRoute, useRoute } from '../../state/urlState'
import { Card, LinkButton, PagePlaceholder, Placeholder } from '../../widgets/basics'
import { BreakdownBar, BreakdownTable } from '../../widgets/breakdown'
import { Chart, SeriesTable } from '../../widgets/chart'
import { Switch } from '../../widgets/choice'
import { FigureList, Headline, WindowedList } from '../../widgets/figures'
import { Advice, BADGES, Sentence } from '../../widgets/notices'
import { PayloadCard } from '../../widgets/payload'
import { SavingBar, SavingText, savingsScale } from '../../widgets/saving'
import { useQueryWithoutDismissed } from './dismissedFindings'
import { JobSentence, useRankVerdict } from './jobSentence'
import layoutCss from '../../widgets/layout.module.css'
import textCss from '../../widgets/text.module.css'
import css from './overview.module.css'
import topFindingsCss from './topFindings.module.css'

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

/** Tables that say the same as the bars of devices, step by step. */
const BENEATH = new Set(['steps_of_devices', 'stated_steps'])

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
  const { base } = props
  const resource = useView('overview', useQueryWithoutDismissed(base))
  // The chart keeps all steps, so that others can be selected.
  const whole = useView('overview', { ...base, steps: '' }, Boolean(base.steps))
  return (
    <ViewFrame resource={resource} bones={bones} steps={String(base.steps ?? '')}>
      {(view) => <Page view={view} whole={whole.data ?? view} props={props} />}
    </ViewFrame>
  )
}

function Page({ view, whole, props }: { view: View; whole: View; props: PageProps }) {
  const headline = payloadByName(view, 'headline', 'figures')
  const costs = payloadByName(view, 'largest_costs', 'notices')
  const every = payloadByName(whole, 'steps', 'series')
  // A table of parts says more than one bar.
  const steps = every && every.x.length > 1 ? every : null
  const average = payloadByName(view, 'average_step', 'breakdown')
  const advice = payloadByName(view, 'findings', 'notices')
  const left = payloadByName(view, 'left_out', 'figures')
  const outside = payloadByName(view, 'outside_steps', 'figures')
  const about = [
    payloadByName(view, 'trace_health', 'figures'),
    payloadByName(view, 'configuration', 'figures'),
  ].flatMap((card) => (card?.figures.length ? card : []))
  const lacking = payloadByName(view, 'data_quality', 'notices')?.notices.some(
    (notice) => notice.rule === 'kernels_missing',
  )
  const names = Object.keys(view.payloads)
  const times = names.flatMap((name) =>
    /^device_(steps|time|idle|classes|cores)/.test(name) ? (payloadByName(view, name, 'breakdown') ?? []) : [],
  )
  const devices = names.flatMap((name) =>
    name.startsWith('device_') && !name.startsWith('device_time') ? (payloadByName(view, name, 'figures') ?? []) : [],
  )
  const many = devices.length > BESIDE
  const rest = names.filter((name) => !KNOWN.has(name) && !name.startsWith('device_'))
  // Without steps and devices, time by range takes the place of device time.
  const beside = times.length === 0 && !average ? rest : rest.filter((name) => BENEATH.has(name) && !many)
  return (
    <div className={layoutCss.grid}>
      {headline && <Answer headline={headline} costs={costs} advice={advice} props={props} />}
      {advice && (
        <TopFindings
          payload={advice}
          left={left}
          none={
            !view.coverage.complete && !view.coverage.window
              ? 'Findings are limited: the file is truncated.'
              : lacking
                ? 'The trace has no kernels: idle time and communication overlap are not checked.'
                : `No${left ? ' other' : ''} problems found.`
          }
        />
      )}
      {steps && <StepsCard series={steps} wide={!average} calls={callsOf(average)} />}
      {average && <AverageCard payload={average} outside={outside} recorded={every !== null} wide={!steps} />}
      <div className={`${layoutCss.span8} ${layoutCss.column}`}>
        {!many && times.map((payload) => <TimeCard key={payload.name} payload={payload} />)}
        {beside.map((name) => (
          <PayloadCard key={name} payload={view.payloads[name]} onLink={followLink} onName={ROWS[name]} />
        ))}
      </div>
      <SideCards cards={many ? about : [...devices, ...about]} />
      {many && (
        <>
          <div className={`${layoutCss.span12} ${css.cards}`} style={width(400)}>
            {times.map((payload) => (
              <TimeCard key={payload.name} payload={payload} />
            ))}
          </div>
          <div className={`${layoutCss.span12} ${css.cards}`} style={width(250)} data-testid="devices">
            {devices.map((device) => (
              <DeviceCard key={device.name} device={device} />
            ))}
          </div>
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

function Answer(of: { headline: Figures; costs: Notices | null; advice: Notices | null; props: PageProps }) {
  const { headline, costs, advice, props } = of
  const verdict = useRankVerdict(props)
  const alarms = useMemo(() => {
    const out = new Map<string, Severity>()
    for (const notice of advice?.notices ?? []) {
      if (notice.measure && (notice.severity === 'high' || notice.severity === 'medium') && !out.has(notice.measure))
        out.set(notice.measure, notice.severity)
    }
    return out
  }, [advice])
  return (
    <HeadlineCard below>
      <Headline figures={headline.figures} alarms={alarms} />
      <JobSentence {...props} verdict={verdict} findings={advice?.notices ?? []} leads />
      {costs?.notices.map((notice, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the order is fixed
        <HeadlineSentence key={i} severity="info">
          <Advice notice={notice} />{' '}
          {notice.evidence && (
            <LinkButton onClick={() => notice.evidence && followLink(notice.evidence)}>
              {notice.evidence.text || 'Show evidence'}
            </LinkButton>
          )}
        </HeadlineSentence>
      ))}
    </HeadlineCard>
  )
}

/** Link target of the step's runtime part; null if there is none. */
const callsOf = (average: Breakdown | null) =>
  average?.parts.find((part) => part.link?.view === 'launches' && part.value > 0) ?? null

function StepsCard({ series, wide, calls }: { series: Series; wide: boolean; calls: Slice | null }) {
  const route = useRoute()
  const [form, setForm] = useState('chart')
  const selected = useMemo(() => new Set((route.steps ?? '').split(',').filter(Boolean)), [route.steps])
  const choose = (label: string) => setRoute({ steps: selected.has(label) && selected.size === 1 ? '' : label }, true)
  const atIndex = (x: string, category: string | null) => {
    const label = String(series.x[Number(x)] ?? x)
    if (calls?.link && category === calls.category) followLink({ ...calls.link, params: { steps: label } })
    else choose(label)
  }
  const bars = calls ? `click a step, or ${calls.metric.title} for calls` : 'click a bar to select its step'
  const lit = useMemo(() => parseSteps(route.steps ?? '', series.x.map(String)), [route.steps, series])
  return (
    <Card
      className={wide ? layoutCss.span12 : layoutCss.span8}
      title={series.title}
      subtitle={[series.subtitle, bars].filter(Boolean).join(' · ')}
      actions={
        <Switch
          value={form}
          onChange={setForm}
          label="View of the steps"
          options={{ chart: 'Chart', table: 'Table' }}
        />
      }
    >
      <div className={layoutCss.chart}>
        {form === 'chart' ? (
          <Chart series={series} height="100%" selected={lit} onBar={atIndex} />
        ) : (
          <SeriesTable series={series} onPick={choose} pick="Select this step" />
        )}
      </div>
    </Card>
  )
}

function AverageCard(props: { payload: Breakdown; outside: Figures | null; recorded: boolean; wide: boolean }) {
  const { payload, outside, recorded, wide } = props
  return (
    <Card className={wide ? layoutCss.span12 : layoutCss.span4} title={payload.title} subtitle={payload.subtitle}>
      <BreakdownTable payload={payload} onLink={followLink} of={recorded ? '% of step' : '% of recording'} />
      {outside && (
        <>
          <h3>
            {outside.title} <small className={textCss.mute}>{outside.subtitle}</small>
          </h3>
          <FigureList figures={outside.figures} />
        </>
      )}
    </Card>
  )
}

const DeviceCard = ({ device }: { device: Figures }) => (
  <Card title={device.title} subtitle={device.subtitle}>
    <WindowedList figures={device.figures} />
  </Card>
)

function SideCards({ cards }: { cards: Figures[] }) {
  if (cards.length === 0) return null
  return (
    <div className={`${layoutCss.span4} ${layoutCss.column}`}>
      {cards.map((card) => (
        <DeviceCard key={card.name} device={card} />
      ))}
    </div>
  )
}

function TimeCard({ payload }: { payload: Breakdown }) {
  return (
    <Card title={payload.title} subtitle={payload.subtitle}>
      <BreakdownBar payload={payload} onLink={followLink} />
    </Card>
  )
}

const SHOWN = 4

function TopFindings(props: { payload: Notices; left: Figures | null; none: string }) {
  const { payload, left, none } = props
  const { notices, title } = payload
  const shown = notices.slice(0, SHOWN)
  const scale = savingsScale(shown)
  return (
    <Card
      className={layoutCss.span12}
      title={title}
      subtitle={notices.some((notice) => notice.saving) ? 'by maximum saving per step' : undefined}
      actions={
        notices.length > 0 && (
          <LinkButton onClick={() => openView('findings', {})}>
            {notices.length === 1 ? 'Show the finding' : `All ${notices.length} findings`}
          </LinkButton>
        )
      }
    >
      {notices.length === 0 && <p className={textCss.none}>{none}</p>}
      {shown.length > 0 && (
        <ol className={topFindingsCss.rows}>
          {shown.map((notice) => (
            <li key={notice.rule}>
              <button
                type="button"
                className={topFindingsCss.row}
                onClick={() => openView('findings', { rule: notice.rule })}
              >
                <b>{notice.title || notice.rule}</b>
                <span className={topFindingsCss.words}>
                  <Sentence notice={notice} text={notice.todo || notice.text} />
                </span>
                <FindingSaving notice={notice} scale={scale} />
              </button>
            </li>
          ))}
        </ol>
      )}
      {left && <DismissedCount figures={left.figures} />}
    </Card>
  )
}

function DismissedCount({ figures }: { figures: readonly Figure[] }) {
  const counts = figures.flatMap(({ metric, value }) =>
    typeof value === 'number' && value > 0 ? `${value} ${lowerFirst(metric.title)}` : [],
  )
  return (
    <p className={topFindingsCss.left}>
      {counts.join(', ')}. <LinkButton onClick={() => openView('findings', {})}>Show in Findings</LinkButton>
    </p>
  )
}

const lowerFirst = (text: string) => text.charAt(0).toLowerCase() + text.slice(1)

function FindingSaving({ notice, scale }: { notice: Notice; scale: Scale }) {
  if (!notice.saving)
    return (
      <>
        <span>
          <span className={BADGES[notice.severity]}>{notice.severity}</span>
        </span>
        <span className={topFindingsCss.unknown}>impact unknown</span>
      </>
    )
  return (
    <>
      <SavingBar saving={notice.saving} />
      <SavingText saving={notice.saving} scale={scale} short />
    </>
  )
}
