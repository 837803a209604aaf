// One finding: what, why, fix and evidence.

import { Button, Checkbox } from '@mantine/core'
import { type ReactNode, useEffect, useMemo, useRef, useState } from 'react'
import type { Query } from '../../api/client'
import type { Notice } from '../../api/payloads'
import { counted, format, type Scale } from '../../lib/format'
import type { Row, TableQuery } from '../../lib/tableRows'
import { figureOf } from '../../parts/payloadByName'
import { followLink, GAPS, showInTimeline } from '../../state/links'
import { usePages } from '../../state/tablePages'
import { setRoute, useRoute } from '../../state/urlState'
import { CopyButton, LinkButton, MetricName } from '../../widgets/basics'
import { BADGES, References, Sentence } from '../../widgets/notices'
import { ProblemPanel } from '../../widgets/problem'
import { SavingBlock } from '../../widgets/saving'
import { SmallTable } from '../../widgets/smallTable'
import { openButtonId } from './dismissedFindings'
import textCss from '../../widgets/text.module.css'
import css from './findingCard.module.css'

export function FindingCard(props: {
  notice: Notice
  scale: Scale
  base: Query
  isFixed: boolean
  onFix: () => void
  isOpen: boolean
  onToggle: () => void
  onDismiss: () => void
  /** After the text: what other workers' traces say. */
  children?: ReactNode
}) {
  const { notice, scale, base, isFixed, onFix, isOpen, onToggle, onDismiss, children } = props
  const item = useRef<HTMLLIElement>(null)
  useEffect(() => {
    if (isOpen) item.current?.scrollIntoView({ block: 'nearest' })
  }, [isOpen])
  const id = `finding-${notice.rule}`
  const title = notice.title || notice.rule
  return (
    <li className={css.finding} ref={item} data-testid="finding" data-rule={notice.rule}>
      <Checkbox size="xs" mt={3} checked={isFixed} onChange={onFix} aria-label={`Estimate with fixed: ${title}`} />
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
            {title}
          </button>
        </h3>
        <div className={isOpen ? undefined : css.folded}>
          <Sentence notice={notice} text={notice.text} />
          {children}
        </div>
      </div>
      <div className={css.gain}>
        {notice.saving ? (
          <SavingBlock saving={notice.saving} scale={scale} />
        ) : (
          <span className={css.unknown}>
            <span className={BADGES[notice.severity]}>{notice.severity}</span> saving not estimated
          </span>
        )}
      </div>
      <div id={id} className={css.more} hidden={!isOpen}>
        {isOpen && <More notice={notice} base={base} onDismiss={onDismiss} />}
      </div>
    </li>
  )
}

/** Sentences of `why` that explain the bounds of the saving. */
const BOUNDS = /(?<=\. )(?=(?:Upper|Lower) bound|(?:Both|The) bounds|The saving)/

function More({ notice, base, onDismiss }: { notice: Notice; base: Query; onDismiss: () => void }) {
  const { evidence, snippet } = notice
  const [why, ...bounds] = notice.why.split(BOUNDS)
  const line = notice.figures.find(({ metric, value }) => metric.unit === 'code' && /_line$/.test(metric.key) && value)
  return (
    <>
      {why && (
        <p>
          <b>Why it matters:</b> <Sentence notice={notice} text={why} />
        </p>
      )}
      {notice.todo && (
        <p>
          <b>Fix{line && <> at {<Sentence notice={notice} text={`{${line.metric.key}}`} />}</>}:</b>{' '}
          <Sentence notice={notice} text={notice.todo} />
          <References notice={notice} />
        </p>
      )}
      {snippet && (
        <div className={css.snippet}>
          <pre tabIndex={0}>{snippet}</pre>
          <CopyButton label="Copy" text={() => snippet} />
        </div>
      )}
      {notice.rule in TABLES && <OwnTable name={TABLES[notice.rule] ?? ''} base={base} />}
      <Events notice={notice} base={base} />
      <p className={css.small}>
        {bounds.length > 0 && <Sentence notice={notice} text={`Estimate: ${bounds.join('')} `} />}
        {notice.confidence && `Confidence: ${notice.confidence}. `}
        <Threshold notice={notice} />
        Rule {notice.rule}.
      </p>
      <span className={textCss.row}>
        {evidence && <LinkButton onClick={() => followLink(evidence)}>{evidence.text || 'Show evidence'}</LinkButton>}
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
/** Events that are listed before all are asked for. */
const FIRST = 10

function OwnTable({ name, base }: { name: string; base: Query }) {
  const pages = usePages('findings', name, base, AS_SENT, true)
  if (pages.problem) return <ProblemPanel problem={pages.problem} />
  if (!pages.table) return <p className={textCss.none}>Loading the table</p>
  return (
    <>
      <h4 className={css.count}>{pages.table.title}</h4>
      <SmallTable table={pages.table} nameStyle="sequence" limit={FIRST} className={css.events} />
    </>
  )
}

/** The first evidence events, in URL order, else by importance. */
function Events({ notice, base }: { notice: Notice; base: Query }) {
  const { sort = '', desc } = useRoute()
  const [isAll, setAll] = useState(false)
  const query = useMemo<TableQuery>(
    () => ({ sort, desc: desc !== '0', search: '', where: [`rule:${notice.rule}`] }),
    [notice.rule, sort, desc],
  )
  const pages = usePages('findings', 'finding_events', base, query, notice.events.length > 0)
  if (notice.events.length === 0) return null
  if (pages.problem) return <ProblemPanel problem={pages.problem} />
  if (!pages.table) return <p className={textCss.none}>Loading events</p>
  const [listed, all] = [notice.events.length, counted(notice.event_count, 'event')]
  const first = pages.table.rows[0] && goTo(pages.table.rows[0])
  const rows = isAll ? listed : Math.min(FIRST, listed)
  return (
    <>
      <h4 className={css.count}>
        {rows < notice.event_count ? `${rows} of ${all}` : all}
        {listed > FIRST && (
          <LinkButton onClick={() => setAll(!isAll)}>
            {isAll ? `Show ${FIRST}` : listed < notice.event_count ? `Show the first ${listed}` : `Show all ${listed}`}
          </LinkButton>
        )}
        {first && <LinkButton onClick={first}>Show the first in the timeline</LinkButton>}
      </h4>
      <SmallTable
        table={pages.table}
        without={['rule']}
        nameStyle="kernel"
        className={css.events}
        limit={rows}
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
