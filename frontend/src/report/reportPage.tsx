// The report: verdict, findings, timeline, and the answers of every page.
import { type ReactNode, useEffect, useMemo, useState } from 'react'
import type { Figures, Link, Notices, Payload, Report, Series, View } from '../api/payloads'
import { format } from '../lib/format'
import { modelNoun } from '../lib/modelNouns'
import { HeadlineCard, HeadlineSentence } from '../parts/headlineCard'
import { payloadByName } from '../parts/payloadByName'
import { useFirstSettle } from '../state/activity'
import { Card, CloseButton, LineKeys, LinkButton } from '../widgets/basics'
import { Chart } from '../widgets/chart'
import { Headline } from '../widgets/figures'
import { Advice } from '../widgets/notices'
import { PayloadCard } from '../widgets/payload'
import { Waterfall } from '../widgets/waterfall'
import { hasContent, isRecorded, openCommand, type Page, pagesOf, presentedView, stepCount } from './data'
import { Findings } from './findings'
import { ReportTable } from './reportTable'
import { ReportTimeline } from './reportTimeline'
import colorKeyCss from '../widgets/colorKey.module.css'
import textCss from '../widgets/text.module.css'
import css from './report.module.css'

const FINDINGS = 'findings'
const TIMELINE = 'timeline'
const idOf = (id: string) => `section-${id}`

/** The report's data and its links. */
export interface ReportContext {
  report: Report
  /** Goes to what a link shows, or says that the file does not hold it. */
  onLink: (link: Link) => void
  /** Shows an event in the timeline; null if the file does not hold it. */
  toEvent: (event: number) => (() => void) | null
}

export function ReportPage({ report }: { report: Report }) {
  const { profile, timeline } = report
  const steps = stepCount(report)
  const views = useMemo(
    () => report.views.map((each) => (each.view ? { ...each, view: presentedView(each.view, steps) } : each)),
    [report, steps],
  )
  const pages = useMemo(() => pagesOf(views), [views])
  const compared = report.compared_with ? pages.slice(0, 1) : []
  const others = pages.slice(compared.length)
  const [message, setMessage] = useState('')
  const [event, setEvent] = useState<number | null>(null)
  const events = useMemo(() => new Set(timeline?.events.event), [timeline])
  useFirstSettle()
  useEffect(() => {
    document.title = `${profile.run} / ${profile.worker} · Torch Trace report`
  }, [profile])
  const context: ReportContext = {
    report,
    onLink: (link) => {
      if (isRecorded(link, report)) goTo(link.view)
      else setMessage(`This file does not hold it: open the trace with ${openCommand(report)}.`)
    },
    toEvent: (wanted) =>
      events.has(wanted)
        ? () => {
            setEvent(wanted)
            goTo(TIMELINE)
          }
        : null,
  }
  const shown = (id: string) => views.find((each) => each.id === id)?.view ?? null
  const first = shown(profile.default_view)
  const findings = shown(FINDINGS)
  const entries = [
    ...compared.map(entryOf),
    ...(findings ? [{ id: FINDINGS, title: 'Findings' }] : []),
    ...(timeline ? [{ id: TIMELINE, title: 'Timeline' }] : []),
    ...others.map(entryOf),
  ]
  return (
    <main id="main" className={css.report}>
      <Head report={report} />
      {first && <Verdict view={first} job={shown('distributed')} context={context} />}
      <nav className={css.contents} aria-label="Contents">
        {entries.map(({ id, title }) => (
          <LinkButton key={id} onClick={() => goTo(id)}>
            {title}
          </LinkButton>
        ))}
      </nav>
      {compared.map((page) => (
        <PageSection key={page.id} page={page} first={profile.default_view} context={context} />
      ))}
      {findings && (
        <Section id={FINDINGS} title="Findings">
          <Findings view={findings} context={context} />
        </Section>
      )}
      {timeline && (
        <Section id={TIMELINE} title="Timeline">
          <ReportTimeline report={report} timeline={timeline} event={event} onEvent={setEvent} />
        </Section>
      )}
      {others.map((page) => (
        <PageSection key={page.id} page={page} first={profile.default_view} context={context} />
      ))}
      <Missing report={report} />
      {message && (
        <div className={css.message} role="status">
          {message} <CloseButton label="Close this message" onClick={() => setMessage('')} />
        </div>
      )}
    </main>
  )
}

const entryOf = ({ id, title }: Page) => ({ id: `page-${id}`, title })

function goTo(id: string): void {
  const section = document.getElementById(idOf(id))
  section?.scrollIntoView()
  section?.querySelector<HTMLElement>('[tabindex="-1"]')?.focus({ preventScroll: true })
}

const USUAL_SPANS = new Set(['1', 'default'])

function Head({ report }: { report: Report }) {
  const { profile, recorded_unix_ms: recorded, created_unix_ms: created, steps, phase, path, version } = report
  const facts: [string, string | null][] = [
    ['Recorded', recorded === null ? null : format(recorded, 'unix_ms')],
    ['Steps', steps || (profile.steps.length ? `all ${profile.steps.length}` : null)],
    ['Phase', phase || null],
    ['Compared with', report.compared_with || null],
    ['File', path || null],
    ['Report', `${format(created, 'unix_ms')}, Torch Trace ${version}`],
  ]
  return (
    <header className={css.head}>
      <h1>
        {profile.run} / {profile.worker}
        <small>{!USUAL_SPANS.has(profile.span) && `span ${profile.span} · `}Torch Trace report</small>
      </h1>
      <dl>
        {facts.map(
          ([name, value]) =>
            value !== null && (
              <div key={name}>
                <dt>{name}</dt>
                <dd>{value}</dd>
              </div>
            ),
        )}
      </dl>
      {report.is_redacted && <p>Redacted: names replace hosts and users, and … replaces directories.</p>}
      {report.other_profiles > 0 && (
        <p>
          This report is about one of {report.other_profiles + 1} profiles. For the others, open the trace with{' '}
          <code>{openCommand(report)}</code>.
        </p>
      )}
    </header>
  )
}

const isAnswer = (payload: Payload): payload is Notices => payload.kind === 'notices' && payload.about === 'answer'
const isHeadline = (payload: Payload): payload is Figures => payload.kind === 'figures' && payload.style === 'headline'

/** The note of a change within noise. */
const WITHIN_NOISE = 'within noise'

/** The answer of a view: its sentences and headline figures. */
function Verdict({ view, job, context }: { view: View; job?: View | null; context: ReportContext }) {
  const payloads = Object.values(view.payloads)
  const verdict = job ? (payloadByName(job, 'verdict', 'notices')?.notices ?? []) : []
  const notices = [...verdict, ...payloads.filter(isAnswer).flatMap((each) => each.notices)]
  const figures = payloads.find(isHeadline)?.figures ?? []
  if (notices.length === 0 && figures.length === 0) return null
  return (
    <HeadlineCard label={`Answer: ${view.title}`} below>
      {notices.map((notice) => (
        <HeadlineSentence key={`${notice.rule} ${notice.text}`} severity={notice.severity}>
          <Advice notice={notice} />{' '}
          {notice.evidence && (
            <LinkButton onClick={() => notice.evidence && context.onLink(notice.evidence)}>
              {notice.evidence.text || 'Show evidence'}
            </LinkButton>
          )}
        </HeadlineSentence>
      ))}
      <Headline figures={figures} noise={figures.find(({ note }) => note === WITHIN_NOISE)?.metric.key} />
    </HeadlineCard>
  )
}

const Section = ({ id, title, children }: { id: string; title: string; children: ReactNode }) => (
  <section id={idOf(id)} className={css.section}>
    <h2 tabIndex={-1}>{title}</h2>
    {children}
  </section>
)

function PageSection({ page, first, context }: { page: Page; first: string; context: ReportContext }) {
  const views = page.views.filter(({ id }) => id !== FINDINGS)
  const isOne = views.length === 1
  return (
    <Section id={`page-${page.id}`} title={page.title}>
      {views.map(
        ({ id, title, view, omitted }) =>
          view && (
            <div key={id} id={idOf(id)} className={css.view}>
              {!isOne && <h3 tabIndex={-1}>{title}</h3>}
              {isOne && <span tabIndex={-1} />}
              {id !== first && <Verdict view={view} context={context} />}
              <Payloads view={view} context={context} />
              {omitted.length > 0 && (
                <p className={textCss.none}>
                  This file does not hold: {omitted.join(', ')}. Open the trace with{' '}
                  <code>{openCommand(context.report)}</code>.
                </p>
              )}
            </div>
          ),
      )}
    </Section>
  )
}

/** A view whose findings have a section of their own. */
const OVERVIEW = 'overview'
/** Figures for the controls of a page. */
const OF_CONTROLS = new Set(['compared', 'devices', 'names'])
const WATERFALL = 'waterfall'
const WIDE = new Set<Payload['kind']>(['table', 'tree', 'notices'])

function Payloads({ view, context }: { view: View; context: ReportContext }) {
  const headline = Object.values(view.payloads).find(isHeadline)
  const rest = Object.entries(view.payloads).filter(
    ([name, payload]) =>
      payload !== headline &&
      !isAnswer(payload) &&
      hasContent(payload) &&
      !OF_CONTROLS.has(name) &&
      !(view.id === OVERVIEW && name === FINDINGS),
  )
  return (
    <div className={css.cards}>
      {rest.map(([name, payload]) => (
        <div key={name} className={WIDE.has(payload.kind) || name === WATERFALL ? css.wide : css.narrow}>
          {payload.kind === 'table' ? (
            <ReportTable table={payload} view={view.id} context={context} />
          ) : payload.kind === 'breakdown' && name === WATERFALL ? (
            <Card title={payload.title} subtitle={payload.subtitle}>
              <Waterfall payload={payload} height={300} onLink={context.onLink} />
            </Card>
          ) : payload.kind === 'series' ? (
            <SeriesCard series={payload} />
          ) : (
            <PayloadCard payload={payload} onLink={context.onLink} />
          )}
        </div>
      ))}
    </div>
  )
}

/** A chart with its colour key: paper has no tooltips. */
function SeriesCard({ series }: { series: Series }) {
  const lines = series.lines.filter(({ values }) => values.some((value) => value))
  const colors = new Set(lines.map(({ category }) => category))
  return (
    <Card title={series.title} subtitle={series.subtitle}>
      <Chart series={series} height={260} />
      {lines.length > 1 && colors.size === lines.length && <LineKeys lines={lines} className={colorKeyCss.key} />}
    </Card>
  )
}

function Missing({ report }: { report: Report }) {
  const absent = report.views.filter(({ view }) => view === null)
  return (
    <Section id="missing" title="Not in this file">
      <p>
        For single events, search, further rows and other steps, open the {modelNoun(report.profile.model)} with{' '}
        <code>{openCommand(report)}</code>.
      </p>
      {absent.length > 0 && (
        <dl className={css.missing}>
          {absent.map(({ id, title, why }) => (
            <div key={id}>
              <dt>{title}</dt>
              <dd>{why}</dd>
            </div>
          ))}
        </dl>
      )}
    </Section>
  )
}
