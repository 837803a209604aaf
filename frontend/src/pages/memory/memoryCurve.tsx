// A memory curve: drag zooms, click selects a time.
import { type ReactNode, useMemo } from 'react'
import type { Profile, Series } from '../../api/payloads'
import { format } from '../../lib/format'
import { setRoute, useRoute } from '../../state/urlState'
import { Card, LineKeys } from '../../widgets/basics'
import { Curve, CurveButtons } from '../../widgets/curve'
import { type CurveMarks, windowOf } from '../../widgets/curveOption'
import textCss from '../../widgets/text.module.css'

export function CurveCard(props: {
  series: Series
  profile: Profile
  hasBlocks: boolean
  peak: CurveMarks['peak']
  failures?: CurveMarks['failures']
  axis?: string
  lead?: ReactNode
  children?: ReactNode
}) {
  const { series, profile, hasBlocks, peak, failures, axis, lead, children } = props
  const route = useRoute()
  const moment = route.at_ns ? Number(route.at_ns) : null
  const marks = useMemo<CurveMarks>(() => {
    const bands = profile.steps.map((step) => ({ label: step.label, start: step.host_start_ns, end: step.host_end_ns }))
    return { bands, peak, failures, moment, axis }
  }, [profile, peak, failures, moment, axis])
  const zoomed = Boolean(route.start_ns || route.end_ns)
  const [start, end] = windowOf(series)
  const zoom = (low: number, high: number) => setRoute({ start_ns: String(low), end_ns: String(high), row: '' }, true)
  const reset = () => setRoute({ start_ns: '', end_ns: '', row: '' }, true)
  const buttons = <CurveButtons window={[start, end]} zoomed={zoomed} onWindow={zoom} onReset={reset} />
  return (
    <Card
      title={series.title}
      subtitle={
        zoomed
          ? `${format(start, 'ns')} to ${format(end, 'ns')}: the tables use this window`
          : `drag to zoom${hasBlocks ? ' · click: live memory at that time' : ''}`
      }
      actions={
        lead ? (
          <span className={textCss.row}>
            {lead}
            {buttons}
          </span>
        ) : (
          buttons
        )
      }
    >
      <Curve
        series={series}
        marks={marks}
        height={232}
        onWindow={zoom}
        // A double click's first click selected a moment by accident.
        onReset={() => setRoute({ start_ns: '', end_ns: '', at_ns: '', row: '' }, true)}
        onMoment={hasBlocks ? (at) => setRoute({ at_ns: String(at) }, true) : undefined}
      >
        {children}
      </Curve>
      <LineKeys lines={series.lines}>
        {profile.steps.length > 0 && <li>Numbers at the top: profiler steps</li>}
      </LineKeys>
    </Card>
  )
}
