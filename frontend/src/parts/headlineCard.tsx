// The first card: headline figures and key sentences.
import type { ComponentProps, ReactNode } from 'react'
import type { Notice, Severity, View } from '../api/payloads'
import type { Scale } from '../lib/format'
import { followLink } from '../state/links'
import { Card, LinkButton } from '../widgets/basics'
import { Headline } from '../widgets/figures'
import { NoticeList, Sentence } from '../widgets/notices'
import { payloadByName } from './payloadByName'
import layoutCss from '../widgets/layout.module.css'
import css from './headlineCard.module.css'

/** `below`: sentences below the numbers at full width. */
export function HeadlineCard(props: { label?: string; className?: string; below?: boolean; children: ReactNode }) {
  const { label = 'Headline', className = '', below = false, children } = props
  return (
    <Card className={`${layoutCss.span12} ${css.card} ${below ? css.below : ''} ${className}`} label={label}>
      {children}
    </Card>
  )
}

const SAYS: Record<Severity, string> = {
  high: `${css.say} ${css.high}`,
  medium: `${css.say} ${css.medium}`,
  low: css.say,
  info: css.say,
}

export const HeadlineSentence = ({ severity, children }: { severity: Severity; children: ReactNode }) => (
  <p className={SAYS[severity]} data-testid="answer">
    {children}
  </p>
)

/** The sentences of a view's answer. `add`: more of each. */
export const Answers = (props: { view: View; scale?: Scale; add?: (notice: Notice) => ReactNode }) =>
  payloadByName(props.view, 'answer', 'notices')?.notices.map((notice) => (
    <HeadlineSentence key={notice.text} severity={notice.severity}>
      <Sentence notice={notice} text={notice.text} scale={props.scale} />
      {props.add?.(notice)}
    </HeadlineSentence>
  ))

/** The advice of a notice, after its text. */
export const todoOf = (notice: Notice) =>
  notice.todo && [' ', <Sentence key="todo" notice={notice} text={notice.todo} />]

/** A link to the evidence of a notice. */
export const evidenceOf = ({ evidence }: Notice) =>
  evidence && [
    ' ',
    <LinkButton key="evidence" onClick={() => followLink(evidence)}>
      {evidence.text || 'Show evidence'}
    </LinkButton>,
  ]

/** A view's answer, and below it its headline figures. */
export function SummaryCard(props: { view: View; add?: (notice: Notice) => ReactNode; children?: ReactNode }) {
  const { view, add, children } = props
  const figures = payloadByName(view, 'summary', 'figures')?.figures ?? []
  if (figures.length === 0 && !children && !payloadByName(view, 'answer', 'notices')) return null
  return (
    <HeadlineCard below>
      <Answers view={view} add={add} />
      {children}
      {figures.length > 0 && <Headline figures={figures} />}
    </HeadlineCard>
  )
}

/** Notices of a view; nothing without any. */
export function NoticesCard(
  props: Pick<ComponentProps<typeof NoticeList>, 'wayOf'> & { view: View; name?: string; className?: string },
) {
  const { view, name = 'data_quality', className, wayOf } = props
  const list = payloadByName(view, name, 'notices')
  if (!list || list.notices.length === 0) return null
  return (
    <Card title={list.title} className={className}>
      <NoticeList notices={list.notices} onLink={followLink} none="" wayOf={wayOf} />
    </Card>
  )
}
