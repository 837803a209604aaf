// Findings, most important first, and what fixing the selected ones leaves.
import { useMemo, useState } from 'react'
import type { Query } from '../../api/client'
import type { Figure, Notice, View } from '../../api/payloads'
import { counted, format, formatRange } from '../../lib/format'
import type { PageProps } from '../../parts/page'
import { payloadByName } from '../../parts/payloadByName'
import { useQuery, useView } from '../../state/data'
import { setRoute, useRoute } from '../../state/urlState'
import { Card, LinkButton } from '../../widgets/basics'
import { NoticeList, Sentence } from '../../widgets/notices'
import { savingsScale } from '../../widgets/saving'
import { DISMISSED, restoreButtonId, useDismissals } from './dismissedFindings'
import { FindingCard } from './findingCard'
import { comparedWorkers, WaitingTimeLink } from './jobSentence'
import layoutCss from '../../widgets/layout.module.css'
import textCss from '../../widgets/text.module.css'
import css from './findings.module.css'

const noticesOf = (view: View, name: string) => payloadByName(view, name, 'notices')?.notices ?? []
const rulesOf = (notices: readonly Notice[]) => notices.map(({ rule }) => rule)
const toggled = (list: readonly string[], one: string) =>
  list.includes(one) ? list.filter((each) => each !== one) : [...list, one]

export function FindingsCard(props: { view: View; base: Query; whole: string; isJobRead: boolean; page: PageProps }) {
  const { view, base, whole, isJobRead, page } = props
  const { rule, fixed = '' } = useRoute()
  const found = noticesOf(view, 'findings')
  const dismissed = noticesOf(view, 'dismissed')
  const together = payloadByName(view, 'together', 'figures')?.figures ?? []
  const isRead = view.coverage.complete || view.coverage.window !== null
  const { dismiss, restore } = useDismissals(rulesOf(found), rulesOf(dismissed), view)
  const scale = useMemo(() => savingsScale(found), [found])
  const chosen = useMemo(
    () => fixed.split(',').filter((each) => found.some((notice) => notice.rule === each)),
    [fixed, found],
  )
  const choose = (rules: readonly string[]) => setRoute({ fixed: rules.join(',') }, true)
  const inJob = comparedWorkers(page) > 0
  const about = ['data_quality', 'failed'].flatMap((name) => payloadByName(view, name, 'notices') ?? [])
  const saving = found.filter((notice) => notice.saving)
  return (
    <>
      <Card
        className={layoutCss.span12}
        title="Findings"
        subtitle={
          saving.length > 0 ? 'most important first · savings overlap: select findings to combine them' : undefined
        }
        actions={
          saving.length > 1 && (
            <LinkButton onClick={() => choose(chosen.length > 0 ? [] : rulesOf(saving))}>
              {chosen.length > 0
                ? 'Clear selection'
                : `Select all ${saving.length}${saving.length < found.length ? ' with an estimate' : ''}`}
            </LinkButton>
          )
        }
      >
        {chosen.length > 0 && <Combined rules={chosen} base={base} whole={whole} />}
        {found.length === 0 && (
          <p className={textCss.none}>
            {isRead ? emptyText(together, dismissed.length > 0) : 'Findings are limited: the file is incomplete.'}
          </p>
        )}
        <ol className={css.list}>
          {found.map((notice) => (
            <FindingCard
              key={notice.rule}
              notice={notice}
              scale={scale}
              base={base}
              isFixed={chosen.includes(notice.rule)}
              onFix={() => choose(toggled(chosen, notice.rule))}
              isOpen={notice.rule === rule}
              onToggle={() => setRoute({ rule: notice.rule === rule ? '' : notice.rule, sort: '', desc: '' }, true)}
              onDismiss={() => dismiss(notice.rule)}
            >
              {inJob && !isJobRead && <WaitingTimeLink notice={notice} />}
            </FindingCard>
          ))}
        </ol>
        <DismissedList notices={dismissed} words="dismissed" onRestore={restore} />
        <DismissedList notices={noticesOf(view, 'ignored')} words="ignored by torch_trace_ignore" />
        {isRead && <ChecksRun figures={together} isSaid={found.length === 0} />}
      </Card>
      {about.map(({ name, title, notices }) => (
        <Card key={name} className={layoutCss.span12} title={title}>
          <NoticeList notices={notices} onLink={() => undefined} none="" />
        </Card>
      ))}
    </>
  )
}

/** The step time that the selected fixes leave: one simulation, no sum. */
function Combined({ rules, base, whole }: { rules: readonly string[]; base: Query; whole: string }) {
  const query = useQuery(base, { fixed: [...rules].sort().join(',') })
  const resource = useView('findings', query)
  const notice = resource.data && payloadByName(resource.data, 'after_fixes', 'notices')?.notices[0]
  if (!notice?.saving) return <p className={css.combined}>Estimating the step time that remains</p>
  const { low_ns: low, high_ns: high, step_ns: step } = notice.saving
  return (
    <p className={css.combined} role="status" aria-busy={resource.busy} data-testid="combined">
      {high > 0 && (
        <>
          With {counted(rules.length, 'fix', 'fixes')}, the {whole} takes{' '}
          <b>{formatRange(step - high, step - low, 'ns')}</b> instead of <b>{format(step, 'ns')}</b> (up to{' '}
          {format(high / step, 'ratio')} less).{' '}
        </>
      )}
      <Sentence notice={notice} text={notice.text} />
    </p>
  )
}

const numberOf = (figures: readonly Figure[], key: string) => {
  const value = figures.find((figure) => figure.metric.key === key)?.value
  return typeof value === 'number' ? value : null
}

function emptyText(figures: readonly Figure[], hasDismissed: boolean): string {
  const looked = counted(numberOf(figures, 'rules_looked') ?? 0, 'check')
  const by = numberOf(figures, 'rules_silent') ? ` by the ${looked} that ran` : ` (${looked})`
  return `No ${hasDismissed ? 'other ' : ''}problems found${by}.`
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
    <p className={css.looked}>
      {looked === rules ? `All ${rules} checks ran` : `${looked} of ${rules} checks ran`}
      {left}.{silent}
      {lacks && ` Some checks need data that is not recorded: ${lacks}.`}
    </p>
  )
}

function DismissedList(props: { notices: Notice[]; words: string; onRestore?: (rule: string) => void }) {
  const { notices, words, onRestore } = props
  const [isOpen, setOpen] = useState(false)
  if (notices.length === 0) return null
  return (
    <section className={css.left} aria-label={words}>
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
