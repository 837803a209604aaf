// Findings, ordered by saving.
import { useMemo, useState } from 'react'
import type { Query } from '../../api/client'
import type { Figure, Metric, Notice, Severity, View } from '../../api/payloads'
import { counted, format, formatRange } from '../../lib/format'
import { HeadlineCard, HeadlineSentence } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { payloadByName } from '../../parts/payloadByName'
import { ViewFrame } from '../../parts/viewFrame'
import { useView } from '../../state/data'
import { setRoute, useRoute } from '../../state/urlState'
import { Card, LinkButton } from '../../widgets/basics'
import { Headline } from '../../widgets/figures'
import { NoticeList, Sentence } from '../../widgets/notices'
import { savingsScale } from '../../widgets/saving'
import { DISMISSED, restoreButtonId, useDismissals, useQueryWithoutDismissed } from './dismissedFindings'
import { FindingCard } from './findingCard'
import { comparedWorkers, JobSentence, useRankVerdict } from './jobSentence'
import layoutCss from '../../widgets/layout.module.css'
import textCss from '../../widgets/text.module.css'
import css from './findings.module.css'

const LOUDEST: Severity[] = ['high', 'medium', 'low', 'info']

export function Findings(props: PageProps) {
  const { base, profile } = props
  const query = useQueryWithoutDismissed(base)
  const resource = useView('findings', query)
  return (
    <ViewFrame resource={resource} bones={330} steps={String(base.steps ?? '')}>
      {(view) => (
        <Page view={view} base={query} whole={profile.steps.length > 0 ? 'step' : 'recording'} props={props} />
      )}
    </ViewFrame>
  )
}

function Page({ view, base, whole, props }: { view: View; base: Query; whole: string; props: PageProps }) {
  const figures = payloadByName(view, 'summary', 'figures')?.figures ?? []
  const together = payloadByName(view, 'together', 'figures')?.figures ?? []
  const found = payloadByName(view, 'findings', 'notices')?.notices ?? []
  const dismissed = payloadByName(view, 'dismissed', 'notices')?.notices ?? []
  const ignored = payloadByName(view, 'ignored', 'notices')?.notices ?? []
  const about = [payloadByName(view, 'data_quality', 'notices'), payloadByName(view, 'failed', 'notices')].flatMap(
    (each) => each ?? [],
  )
  const saving = found.filter((notice) => notice.saving)
  const others = found
    .filter((notice) => !notice.saving)
    .sort((a, b) => LOUDEST.indexOf(a.severity) - LOUDEST.indexOf(b.severity))
  const inJob = comparedWorkers(props) > 0
  const verdict = useRankVerdict(props)
  const isRead = view.coverage.complete || view.coverage.window !== null
  // A severe finding without a number comes before a small saving.
  const isLouder = others[0]?.severity === 'high' && saving[0]?.severity === 'low'
  const first = isLouder ? others[0] : (saving[0] ?? others[0])
  const rulesOf = (notices: readonly Notice[]) => notices.map(({ rule }) => rule)
  const { dismiss, restore } = useDismissals(rulesOf([...saving, ...others]), rulesOf(dismissed), view)
  return (
    <div className={layoutCss.grid}>
      <HeadlineCard below>
        {isRead && <Headline figures={[...figures, ...totalText(together, found.length, whole)]} />}
        <JobSentence {...props} verdict={verdict} findings={found} leads={false} />
        {first ? (
          <HeadlineSentence severity={first.severity}>
            <b>
              {verdict ? 'On this rank, fix first' : 'Fix first'}: {first.title}.
              <TotalSaving notice={first} whole={whole} />
            </b>{' '}
            <Sentence notice={first} text={first.todo || first.text} />
          </HeadlineSentence>
        ) : (
          <HeadlineSentence severity="info">
            {isRead ? emptyText(together, whole) : 'Findings are limited: the file is truncated.'}
          </HeadlineSentence>
        )}
      </HeadlineCard>
      {saving.length > 0 && (
        <List
          title="By estimated saving"
          subtitle={`share of the mean ${whole}, largest first. Savings overlap; do not add them.`}
          notices={saving}
          base={base}
          inJob={inJob}
          onDismiss={dismiss}
        />
      )}
      {others.length > 0 && (
        <List
          title="Impact unknown"
          subtitle="cannot be estimated from this trace"
          notices={others}
          base={base}
          inJob={inJob}
          onDismiss={dismiss}
        />
      )}
      <DismissedList notices={dismissed} words="dismissed" onRestore={restore} />
      <DismissedList notices={ignored} words="ignored by torch_trace_ignore" />
      {isRead && <ChecksRun figures={together} isSaid={found.length === 0} />}
      {about.map(({ name, title, notices }) => (
        <Card key={name} className={layoutCss.span12} title={title}>
          <NoticeList notices={notices} onLink={() => undefined} none="" />
        </Card>
      ))}
    </div>
  )
}

const numberOf = (figures: readonly Figure[], key: string) => {
  const value = figures.find((figure) => figure.metric.key === key)?.value
  return typeof value === 'number' ? value : null
}

function totalText(figures: readonly Figure[], count: number, whole: string): Figure[] {
  const upper = figures.find((figure) => figure.metric.key === 'saving_high_ns')
  const [low, high, share] = ['saving_low_ns', 'saving_high_ns', 'saving_ratio'].map(
    (key) => numberOf(figures, key) ?? 0,
  )
  if (!upper || high === 0) return []
  const title = count > 1 ? 'Fixing all findings saves' : 'Fixing this finding saves'
  const metric: Metric = { ...upper.metric, title, unit: 'text' }
  return [{ metric, value: formatRange(low, high, 'ns'), note: `up to ${format(share, 'ratio')} of the mean ${whole}` }]
}

function TotalSaving({ notice, whole }: { notice: Notice; whole: string }) {
  if (!notice.saving) return null
  const { low_ns: low, high_ns: high, step_ns: step } = notice.saving
  return (
    <>
      {' '}
      Saves {formatRange(low, high, 'ns')} {whole === 'step' ? 'per step' : `of the ${whole}`}
      {step > 0 && ` (up to ${format(high / step, 'ratio')})`}.
    </>
  )
}

function emptyText(figures: readonly Figure[], whole: string): string {
  const busy = numberOf(figures, 'utilization')
  const note = figures.find((figure) => figure.metric.key === 'utilization')?.note
  const looked = counted(numberOf(figures, 'rules_looked') ?? 0, 'check')
  const lacks = skippedText(figures) && ' The trace has no kernels.'
  return `No problems found (${looked} run).${busy === null ? '' : ` Kernels run for ${format(busy, 'ratio')} of the ${whole}s${note && ` ${note}`}.`}${lacks}`
}

/** Skipped checks that need kernels. */
function skippedText(figures: readonly Figure[]): string {
  const count = numberOf(figures, 'rules_silent') ?? 0
  const titles = figures.find((figure) => figure.metric.key === 'silent_rules')?.value
  return count ? ` ${counted(count, 'check')} skipped because kernels are missing from the trace: ${titles}.` : ''
}

/** How many checks ran: few findings may mean little data. `isSaid`: the sentence above gives the count. */
function ChecksRun(props: { figures: readonly Figure[]; isSaid: boolean }) {
  const { figures, isSaid } = props
  const [looked, rules] = ['rules_looked', 'rules'].map((key) => numberOf(figures, key) ?? 0)
  const lacks = String(figures.find((figure) => figure.metric.key === 'not_recorded')?.value ?? '')
  const out = rules - looked - (numberOf(figures, 'rules_silent') ?? 0)
  const left = out > 0 ? ` (${out} ignored)` : ''
  const silent = skippedText(figures)
  if (isSaid && !lacks && !left && !silent) return null
  return (
    <p className={`${layoutCss.span12} ${css.looked}`}>
      {looked === rules ? `All ${rules} checks ran` : `${looked} of ${rules} checks ran`}
      {left}.{silent}
      {lacks && ` Not checked, because not recorded: ${lacks}.`}
    </p>
  )
}

function List(props: {
  title: string
  subtitle: string
  notices: Notice[]
  base: Query
  inJob: boolean
  onDismiss: (rule: string) => void
}) {
  const { title, subtitle, notices, base, inJob, onDismiss } = props
  const { rule } = useRoute()
  const scale = useMemo(() => savingsScale(notices), [notices])
  return (
    <Card className={layoutCss.span12} title={title} subtitle={subtitle}>
      <ol className={css.list}>
        {notices.map((notice, i) => (
          <FindingCard
            key={notice.rule}
            notice={notice}
            rank={notice.saving ? i + 1 : undefined}
            scale={scale}
            base={base}
            inJob={inJob}
            isOpen={notice.rule === rule}
            onToggle={() => setRoute({ rule: notice.rule === rule ? '' : notice.rule, sort: '', desc: '' }, true)}
            onDismiss={() => onDismiss(notice.rule)}
          />
        ))}
      </ol>
    </Card>
  )
}

function DismissedList(props: { notices: Notice[]; words: string; onRestore?: (rule: string) => void }) {
  const { notices, words, onRestore } = props
  const [isOpen, setOpen] = useState(false)
  if (notices.length === 0) return null
  return (
    <section className={`${layoutCss.span12} ${css.left}`} aria-label={words}>
      <span className={textCss.mute}>
        {notices.length} {words}:
      </span>{' '}
      <LinkButton id={onRestore && DISMISSED} aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {isOpen ? 'Hide' : 'Show'}
      </LinkButton>
      {isOpen && (
        <ul>
          {notices.map((notice) => (
            <li key={notice.rule}>
              <b>{notice.title}</b> <Sentence notice={notice} text={notice.text} />{' '}
              {onRestore && (
                <LinkButton id={restoreButtonId(notice.rule)} onClick={() => onRestore(notice.rule)}>
                  Restore
                </LinkButton>
              )}
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}
