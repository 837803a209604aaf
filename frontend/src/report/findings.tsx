// Findings of a report: what, why, fix and evidence.
import { useMemo } from 'react'
import type { Notice, Table, View } from '../api/payloads'
import { counted, type Scale } from '../lib/format'
import { payloadByName } from '../parts/payloadByName'
import { Card, CopyButton, LinkButton } from '../widgets/basics'
import { BADGES, References, Sentence } from '../widgets/notices'
import { SavingBlock, savingsScale } from '../widgets/saving'
import { usePrinting } from '../widgets/usePrinting'
import { evidenceOf } from './data'
import type { ReportContext } from './reportPage'
import { FirstRows, showEvent } from './reportTable'
import textCss from '../widgets/text.module.css'
import css from './findings.module.css'

/** Findings that are open at first. */
const OPEN = 3
const FIRST_EVENTS = 5
const RULE = ['rule']

export function Findings({ view, context }: { view: View; context: ReportContext }) {
  const notices = payloadByName(view, 'findings', 'notices')?.notices ?? []
  const events = payloadByName(view, 'finding_events', 'table')
  const scale = useMemo(() => savingsScale(notices), [notices])
  return (
    <Card label="Findings">
      {notices.length === 0 && <p className={textCss.none}>No problems found.</p>}
      <ul className={css.findings}>
        {notices.map((notice, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a rule may speak twice; the order is fixed
          <li key={`${notice.rule} ${i}`} data-testid="finding" data-rule={notice.rule}>
            <Finding notice={notice} scale={scale} events={events} isOpen={i < OPEN} context={context} />
          </li>
        ))}
      </ul>
    </Card>
  )
}

function Finding(props: {
  notice: Notice
  scale: Scale
  events: Table | null
  isOpen: boolean
  context: ReportContext
}) {
  const { notice, scale, events, isOpen, context } = props
  const { evidence, snippet, saving } = notice
  const isPrinting = usePrinting()
  const table = useMemo(() => events && evidenceOf(events, notice.rule), [events, notice.rule])
  return (
    <>
      <div className={css.head}>
        <div className={css.words}>
          <h3>
            <span className={BADGES[notice.severity]}>{notice.severity}</span> {notice.title || notice.rule}
          </h3>
          <Sentence notice={notice} text={notice.text} />
        </div>
        {saving && <SavingBlock saving={saving} scale={scale} />}
      </div>
      <details open={isOpen || isPrinting} className={css.more}>
        <summary>Fix and evidence</summary>
        {notice.why && (
          <p>
            <b>Why it matters:</b> <Sentence notice={notice} text={notice.why} />
          </p>
        )}
        {notice.todo && (
          <p>
            <b>Fix:</b> <Sentence notice={notice} text={notice.todo} />
            <References notice={notice} />
          </p>
        )}
        {snippet && (
          <div className={css.snippet}>
            <pre tabIndex={0}>{snippet}</pre>
            <CopyButton label="Copy" text={() => snippet} />
          </div>
        )}
        {table && table.rows.length > 0 && (
          <>
            <h4>
              {table.rows.length < notice.event_count
                ? `${table.rows.length} of ${counted(notice.event_count, 'event')}`
                : counted(notice.event_count, 'event')}
            </h4>
            <FirstRows table={table} first={FIRST_EVENTS} without={RULE} nameStyle="kernel" show={showEvent(context)} />
          </>
        )}
        <p className={textCss.mute}>
          {notice.confidence && `Confidence: ${notice.confidence}. `}Rule {notice.rule}.{' '}
          {evidence && (
            <LinkButton onClick={() => context.onLink(evidence)}>{evidence.text || 'Show evidence'}</LinkButton>
          )}
        </p>
      </details>
    </>
  )
}
