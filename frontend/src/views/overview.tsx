// Overview: the answer in a sentence and a few numbers, the steps, what to do, and where the device's time went.
import { SegmentedControl } from '@mantine/core'
import { type CSSProperties, useMemo, useState } from 'react'
import type { Breakdown, Figures, Link, Notices, Series, Severity, Slice, View } from '../api/payloads'
import { parseSteps } from '../lib/steps'
import { useView } from '../state/data'
import { followLink } from '../state/links'
import { setRoute, useRoute } from '../state/route'
import { Bones, Card, PageBones } from '../widgets/basics'
import { BreakdownBar, BreakdownTable } from '../widgets/breakdown'
import { Chart, SeriesTable } from '../widgets/chart'
import { FigureList, Headline } from '../widgets/figures'
import { NoticeList, Sentence } from '../widgets/notices'
import { PayloadCard } from '../widgets/payload'
import { ViewFrame } from './parts/frame'
import { HeadlineCard, Say } from './parts/headline'
import { pick } from './parts/pick'
import type { ViewProps } from './view'
import layoutCss from '../widgets/layout.module.css'
import textCss from '../widgets/text.module.css'
import css from './overview.module.css'

const KNOWN = new Set(['headline', 'steps', 'average_step', 'recommendations', 'configuration', 'data_quality'])

/** Cards of so many devices stand one below another; those of more have rows of their own, side by side. */
const BESIDE = 2

/** The least width of a card in a row of them. */
const width = (pixels: number) => ({ '--tt-card': `${pixels}px` }) as CSSProperties

const bones = (
  <div className={layoutCss.grid}>
    <PageBones />
    <div className={layoutCss.span8}>
      <Bones height={200} />
    </div>
    <div className={layoutCss.span4}>
      <Bones height={200} />
    </div>
  </div>
)

export function Overview({ base }: ViewProps) {
  const resource = useView('overview', base)
  // The chart keeps all steps, whichever are chosen: they are what one chooses from.
  const whole = useView('overview', { ...base, steps: '' }, Boolean(base.steps))
  return (
    <ViewFrame resource={resource} bones={bones} steps={String(base.steps ?? '')}>
      {(view) => <Page view={view} whole={whole.data ?? view} />}
    </ViewFrame>
  )
}

function Page({ view, whole }: { view: View; whole: View }) {
  const headline = pick(view, 'headline', 'figures')
  const steps = pick(whole, 'steps', 'series')
  const average = pick(view, 'average_step', 'breakdown')
  const advice = pick(view, 'recommendations', 'notices')
  const configuration = pick(view, 'configuration', 'figures')
  const names = Object.keys(view.payloads)
  const times = names.flatMap((name) => (name.startsWith('device_time') ? (pick(view, name, 'breakdown') ?? []) : []))
  const devices = names.flatMap((name) =>
    name.startsWith('device_') && !name.startsWith('device_time') ? (pick(view, name, 'figures') ?? []) : [],
  )
  const many = devices.length > BESIDE
  const rest = names.filter((name) => !KNOWN.has(name) && !name.startsWith('device_'))
  return (
    <div className={layoutCss.grid}>
      {headline && <Answer headline={headline} advice={advice} />}
      {steps && <StepsCard series={steps} wide={!average} calls={callsOf(average)} />}
      {average && <AverageCard payload={average} wide={!steps} />}
      <div className={`${layoutCss.span8} ${layoutCss.column}`}>
        {advice && (
          <Card title={advice.title} subtitle={advice.notices.length > 0 ? String(advice.notices.length) : undefined}>
            <NoticeList
              notices={advice.notices}
              onLink={followLink}
              none="No rule found anything to improve in this trace."
            />
          </Card>
        )}
        {!many && times.map((payload) => <TimeCard key={payload.name} payload={payload} />)}
      </div>
      <SideCards devices={many ? [] : devices} configuration={configuration} />
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
      {rest.map((name) => (
        <div key={name} className={layoutCss.span12}>
          <PayloadCard payload={view.payloads[name]} onLink={followLink} />
        </div>
      ))}
    </div>
  )
}

function Answer({ headline, advice }: { headline: Figures; advice: Notices | null }) {
  const first = advice?.notices[0]
  const alarms = useMemo(() => {
    const out = new Map<string, Severity>()
    for (const notice of advice?.notices ?? []) {
      if (notice.measure && (notice.severity === 'high' || notice.severity === 'medium') && !out.has(notice.measure))
        out.set(notice.measure, notice.severity)
    }
    return out
  }, [advice])
  return (
    <HeadlineCard>
      <Headline figures={headline.figures} alarms={alarms} />
      {first && (
        <Say severity={first.severity}>
          <Sentence notice={first} text={first.text} /> {first.evidence && <LinkButton link={first.evidence} />}
        </Say>
      )}
    </HeadlineCard>
  )
}

const LinkButton = ({ link }: { link: Link }) => (
  <button type="button" className={textCss.link} onClick={() => followLink(link)}>
    {link.text || 'Show evidence'}
  </button>
)

/** Where the calls behind the runtime part of a step stand; null where there are none. */
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
  const bars = calls ? `click a step, or ${calls.metric.title} for calls` : 'click a bar to choose its step'
  const lit = useMemo(() => parseSteps(route.steps ?? '', series.x.map(String)), [route.steps, series])
  return (
    <Card
      className={wide ? layoutCss.span12 : layoutCss.span8}
      title={series.title}
      subtitle={[series.subtitle, bars].filter(Boolean).join(' · ')}
      actions={
        <SegmentedControl
          size="xs"
          value={form}
          onChange={setForm}
          aria-label="Form of the steps"
          data={[
            { value: 'chart', label: 'Chart' },
            { value: 'table', label: 'Table' },
          ]}
        />
      }
    >
      <div className={layoutCss.chart}>
        {form === 'chart' ? (
          <Chart series={series} height="100%" selected={lit} onBar={atIndex} />
        ) : (
          <SeriesTable series={series} onPick={choose} pick="Choose this step" />
        )}
      </div>
    </Card>
  )
}

function AverageCard({ payload, wide }: { payload: Breakdown; wide: boolean }) {
  return (
    <Card className={wide ? layoutCss.span12 : layoutCss.span4} title={payload.title} subtitle={payload.subtitle}>
      <BreakdownTable payload={payload} onLink={followLink} of={wide ? '% of recording' : '% of step'} />
    </Card>
  )
}

const DeviceCard = ({ device }: { device: Figures }) => (
  <Card title={device.title} subtitle={device.subtitle}>
    <FigureList figures={device.figures} />
  </Card>
)

function SideCards({ devices, configuration }: { devices: Figures[]; configuration: Figures | null }) {
  if (devices.length === 0 && !configuration) return null
  return (
    <div className={`${layoutCss.span4} ${layoutCss.column}`}>
      {devices.map((device) => (
        <DeviceCard key={device.name} device={device} />
      ))}
      {configuration && (
        <Card title={configuration.title} subtitle={configuration.subtitle}>
          <FigureList figures={configuration.figures} />
        </Card>
      )}
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
