// The answer of a comparison, with the step times of both sides beside it.
import type { ReactNode } from 'react'
import type { View } from '../../api/payloads'
import { payloadByName } from '../../parts/payloadByName'
import { ScatterPlot } from '../../widgets/scatter'
import css from './stepTimes.module.css'

const HEIGHT_PX = 150

export function StepTimes({ view, children }: { view: View; children: ReactNode }) {
  const scatter = payloadByName(view, 'step_times', 'scatter')
  return (
    <>
      <div className={css.answer}>{children}</div>
      {scatter && (
        <div className={css.chart}>
          <ScatterPlot scatter={scatter} height={HEIGHT_PX} isFitted />
        </div>
      )}
    </>
  )
}
