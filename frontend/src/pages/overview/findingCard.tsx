// One finding: saving, text, fix and evidence.

import { Button } from '@mantine/core'
import { useEffect, useMemo, useRef } from 'react'
import type { Query } from '../../api/client'
import type { Notice } from '../../api/payloads'
import { counted, format, type Scale } from '../../lib/format'
import type { Row, TableQuery } from '../../lib/tableRows'
import { figureOf } from '../../parts/payloadByName'
import { followLink, GAPS, showInTimeline } from '../../state/links'
import { usePages } from '../../state/tablePages'
import { setRoute, useRoute } from '../../state/urlState'
import { MetricName } from '../../widgets/basics'
import { BADGES, References, Sentence } from '../../widgets/notices'
import { ProblemPanel } from '../../widgets/problem'
import { SavingBlock } from '../../widgets/saving'
import { SmallTable } from '../../widgets/smallTable'
import { openButtonId } from './dismissedFindings'
import { WaitingTimeLink } from './jobSentence'
import textCss from '../../widgets/text.module.css'
import css from './findingCard.module.css'

export function FindingCard(props: {
  notice: Notice
  rank?: number
  scale: Scale
  base: Query
  /** Other workers' traces say more. */
  inJob: boolean
  isOpen: boolean
  onToggle: () => void
  onDismiss: () => void
}) {
  const { notice, rank, scale, base, inJob, isOpen, onToggle, onDismiss } = props
  const item = useRef<HTMLLIElement>(null)
  useEffect(() => {
    if (isOpen) item.current?.scrollIntoView({ block: 'nearest' })
  }, [isOpen])
  const id = `finding-${notice.rule}`
  return (
    <li className={css.finding} ref={item} data-testid="finding" data-rule={notice.rule}>
      <span className={css.rank}>{rank}</span>
      <div className={css.words}>
        <h3>
          <button
            type="button"
            id={openButtonId(notice.rule)}
            className={css.title}
            aria-expanded={isOpen}
            aria-controls={id}
            onClick={onToggle}
          >
            {notice.title || notice.rule}
          </button>
        </h3>
        <div>
          <Sentence notice={notice} text={notice.text} />
          {inJob && <WaitingTimeLink notice={notice} />}
        </div>
        {notice.todo && (
          <div className={isOpen ? css.todo : `${css.todo} ${css.folded}`}>
            <Sentence notice={notice} text={notice.todo} />
          </div>
        )}
      </div>
      <div className={css.gain}>
        {notice.saving ? (
          <SavingBlock saving={notice.saving} scale={scale} />
        ) : (
          <span className={BADGES[notice.severity]}>{notice.severity}</span>
        )}
      </div>
      <div id={id} className={css.more} hidden={!isOpen}>
        {isOpen && <More notice={notice} base={base} onDismiss={onDismiss} />}
      </div>
    </li>
  )
}

function More({ notice, base, onDismiss }: { notice: Notice; base: Query; onDismiss: () => void }) {
  const { evidence } = notice
  return (
    <>
      {notice.why && (
        <p>
          <b>Why it matters:</b> <Sentence notice={notice} text={notice.why} />
        </p>
      )}
      <p className={textCss.mute}>
        {notice.confidence && `Confidence: ${notice.confidence}. `}
        <Threshold notice={notice} />
        Rule <code className={textCss.mono}>{notice.rule}</code> of docs/reference/rules.md.
        <References notice={notice} />
      </p>
      {notice.rule in TABLES && <OwnTable name={TABLES[notice.rule] ?? ''} base={base} />}
      <Events notice={notice} base={base} />
      <span className={textCss.row}>
        {evidence && (
          <Button size="compact-sm" variant="default" onClick={() => followLink(evidence)}>
            {evidence.text || 'Show evidence'}
          </Button>
        )}
        <Button size="compact-sm" variant="default" onClick={onDismiss}>
          Dismiss
        </Button>
      </span>
    </>
  )
}

function Threshold({ notice }: { notice: Notice }) {
  const measure = figureOf(notice, notice.measure)
  if (!measure || notice.threshold === null || typeof measure.value !== 'number') return null
  return (
    <>
      Threshold: {measure.value < notice.threshold && 'below '}
      {format(notice.threshold, measure.metric.unit)}; here {format(measure.value, measure.metric.unit)} (
      <MetricName metric={measure.metric} />
      ).{' '}
    </>
  )
}

const TABLES: Record<string, string> = { unfused_kernels: 'fusible_kernels' }
const AS_SENT: TableQuery = { sort: '', desc: true, search: '', where: [] }

function OwnTable({ name, base }: { name: string; base: Query }) {
  const pages = usePages('findings', name, base, AS_SENT, true)
  if (pages.problem) return <ProblemPanel problem={pages.problem} />
  if (!pages.table) return <p className={textCss.none}>Loading the table</p>
  return (
    <>
      <h4 className={css.count}>{pages.table.title}</h4>
      <SmallTable table={pages.table} nameStyle="sequence" limit={10} className={css.events} />
    </>
  )
}

/** The first evidence events, in URL order, else by importance. */
function Events({ notice, base }: { notice: Notice; base: Query }) {
  const { sort = '', desc } = useRoute()
  const query = useMemo<TableQuery>(
    () => ({ sort, desc: desc !== '0', search: '', where: [`rule:${notice.rule}`] }),
    [notice.rule, sort, desc],
  )
  const pages = usePages('findings', 'finding_events', base, query, notice.events.length > 0)
  if (notice.events.length === 0) return null
  if (pages.problem) return <ProblemPanel problem={pages.problem} />
  if (!pages.table) return <p className={textCss.none}>Loading events</p>
  const [listed, all] = [notice.events.length, counted(notice.event_count, 'event')]
  return (
    <>
      <h4 className={css.count}>{listed < notice.event_count ? `The first ${listed} of ${all}` : all}</h4>
      <SmallTable
        table={pages.table}
        without={['rule']}
        nameStyle="kernel"
        className={css.events}
        show={{ label: 'Show in timeline', of: goTo }}
        onSort={(key, descending) => setRoute({ sort: key, desc: descending ? '1' : '0' })}
        counted
      />
    </>
  )
}

function goTo({ event, start_ns: start, dur_ns: dur }: Row): (() => void) | null {
  if (typeof event !== 'number' || typeof start !== 'number' || typeof dur !== 'number') return null
  return () => showInTimeline(event, start, dur, GAPS)
}
