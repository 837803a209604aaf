// The first card: headline figures and key sentences.
import type { ReactNode } from 'react'
import type { Severity } from '../api/payloads'
import { Card } from '../widgets/basics'
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
