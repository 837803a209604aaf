// The baseline picker, and the compared numbers.

import { Button, Tooltip } from '@mantine/core'
import type { Catalog, Profile } from '../../api/payloads'
import { joinIds } from '../../lib/laneOrder'
import { type Address, addressText, sameAddress } from '../../lib/profiles'
import { rankKey } from '../../lib/rankSelection'
import { alignedSteps } from '../../lib/stepSelection'
import type { Values } from '../../state/tensorboardHash'
import { openProfile, openView, setRoute, useRoute } from '../../state/urlState'
import { CapturePicker } from '../../widgets/capturePicker'
import { Choice } from '../../widgets/choice'
import { SwapIcon } from '../../widgets/icons'
import { ProfilePickers } from '../../widgets/profilePickers'
import { StepsPicker } from '../../widgets/stepsPicker'
import { CandidatesMenu } from './candidates'
import css from './compareBar.module.css'

export const MEASURES = [
  { value: '', label: 'Time: automatic' },
  { value: 'device_self_ns', label: 'GPU self time' },
  { value: 'device_total_ns', label: 'GPU total time' },
  { value: 'host_self_ns', label: 'CPU self time' },
  { value: 'host_total_ns', label: 'CPU total time' },
]

export function baselineState(baseline: Address | null, steps = '', window = '', capture = ''): Values {
  const { run, worker, span } = baseline ?? { run: '', worker: '', span: '' }
  const chosen = { base_window: window, base_capture: capture, base_steps: steps }
  return { base_run: run, base_worker: worker, base_span: span, ...chosen }
}

/** null: the page chooses. */
export const setBaseline = (baseline: Address | null, steps = '', window = '', capture = '') =>
  setRoute(baselineState(baseline, steps, window, capture), true)

/** Baseline and experiment change places, with their windows, captures and steps. */
function swap(baseline: Address, exp: Address, route: Values): void {
  const { window = '', capture = '', steps = '', base_window = '', base_capture = '', base_steps = '' } = route
  const chosen = { window: base_window, capture: base_capture, steps: base_steps }
  openProfile({ ...baseline, ...chosen, ...baselineState(exp, steps, window, capture) })
}

/** The timeline of both sides, aligned by step. The window shows the longer of the two steps. */
function showBothTimelines(exp: Profile, baseline: Profile, route: Values): void {
  const sides = [exp, baseline].map(({ steps }) => steps)
  const labels = sides.map((steps) => steps.map(({ label }) => label))
  const aligned = alignedSteps(labels[0], labels[1], route.steps ?? '', route.base_steps ?? '')
  const [one, other] = sides.map((steps, i) => steps.find(({ label }) => label === aligned[i]))
  const lengths = [one, other].map((step) => (step ? step.end_ns - step.start_ns : 0))
  const room = Math.max(...lengths)
  const shown: Values = one ? { start_ns: String(one.start_ns), end_ns: String(one.start_ns + room) } : {}
  openView('timeline', { ranks: joinIds([rankKey(exp, baseline)]), detail: 'thin', ...shown })
}

export function CompareBar(props: {
  catalog: Catalog
  expProfile: Profile
  exp: Address
  steps: string
  baseline: Address | null
  /** Profile of the baseline; null until known. */
  profile: Profile | null
  reload: () => void
  measures: typeof MEASURES
  measure: string
}) {
  const { catalog, expProfile, exp, steps, baseline, profile, reload, measures, measure } = props
  const route = useRoute()
  const baseSteps = route.base_steps ?? ''
  const wanted = { run: route.base_run ?? '', worker: route.base_worker ?? '', span: route.base_span ?? '' }
  const baseWindow = route.base_window ?? ''
  const baseCapture = route.base_capture ?? ''
  const same =
    sameAddress(baseline, exp) &&
    baseSteps === steps &&
    baseWindow === (route.window ?? '') &&
    baseCapture === (route.capture ?? '')
  return (
    <section className={css.compare} aria-label="Comparison">
      <div className={css.side}>
        <div className={css.label} title={`Experiment: ${addressText(exp)}`}>
          <b>Baseline</b>
          <small>Experiment: above</small>
        </div>
        <ProfilePickers catalog={catalog} address={baseline ?? wanted} onChange={(next) => setBaseline(next)} />
        <CandidatesMenu catalog={catalog} exp={exp} baseline={baseline} />
        {profile?.state === 'ready' && (
          <StepsPicker
            all={profile.steps}
            value={baseSteps}
            none="All steps"
            onChange={(next) => baseline && setBaseline(baseline, next, baseWindow, baseCapture)}
          />
        )}
        <CapturePicker
          catalog={catalog}
          profile={profile}
          side="Baseline"
          value={baseCapture}
          onChange={(next) => baseline && setBaseline(baseline, baseSteps, baseWindow, next)}
          reload={reload}
        />
      </div>
      <Tooltip label="Swap baseline and experiment, including their steps">
        <Button
          size="sm"
          variant="default"
          leftSection={<SwapIcon />}
          disabled={!baseline || same}
          onClick={() => baseline && swap(baseline, exp, route)}
        >
          Swap
        </Button>
      </Tooltip>
      {profile?.state === 'ready' && baseline && !sameAddress(baseline, exp) && (
        <Button size="sm" variant="default" onClick={() => showBothTimelines(expProfile, profile, route)}>
          Both timelines
        </Button>
      )}
      <div className={css.how}>
        <Choice
          size="sm"
          title="Automatic: GPU time if GPU work changed most, otherwise CPU time"
          label="Time in the call tree and the tables"
          value={measure}
          onChange={(next) => setRoute({ measure: next }, true)}
          options={measures}
        />
      </div>
    </section>
  )
}
