// A view's answer, its time per step, and the parts of the mean step.

import type { ComponentProps } from 'react'
import { followLink } from '../state/links'
import { Card } from '../widgets/basics'
import { BreakdownTable } from '../widgets/breakdown'
import { Chart } from '../widgets/chart'
import { SummaryCard } from './headlineCard'
import { payloadByName } from './payloadByName'
import layoutCss from '../widgets/layout.module.css'

/** `parts`: name of the breakdown; `of`: title of its shares. */
export function StepsSummary(props: ComponentProps<typeof SummaryCard> & { parts: string; of: string }) {
  const { parts, of, ...summary } = props
  const every = payloadByName(summary.view, 'steps', 'series')
  // A table of parts says more than one bar.
  const steps = every && every.x.length > 1 ? every : null
  const average = payloadByName(summary.view, parts, 'breakdown')
  return (
    <div className={layoutCss.grid}>
      <SummaryCard {...summary} />
      {steps && (
        <Card className={layoutCss.span8} title={steps.title} subtitle={steps.subtitle}>
          <div className={layoutCss.chart}>
            <Chart series={steps} height="100%" />
          </div>
        </Card>
      )}
      {average && (
        <Card className={steps ? layoutCss.span4 : layoutCss.span12} title={average.title} subtitle={average.subtitle}>
          <BreakdownTable payload={average} onLink={followLink} of={of} />
        </Card>
      )}
    </div>
  )
}
