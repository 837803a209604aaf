// The top bar: profile, steps, data quality, export.
import { Button, Tooltip } from '@mantine/core'
import type { Query } from '../api/client'
import type { Catalog, Profile } from '../api/payloads'
import { counted } from '../lib/format'
import { modelNoun } from '../lib/modelNouns'
import { shortenMiddle } from '../lib/names'
import { PER_STEP_VIEWS } from '../lib/perStep'
import type { Address } from '../lib/profiles'
import { openProfile, setRoute, TOTAL, useRoute } from '../state/urlState'
import { CloseButton } from '../widgets/basics'
import { CapturePicker } from '../widgets/capturePicker'
import { Switch } from '../widgets/choice'
import { HelpIcon, InfoIcon } from '../widgets/icons'
import { ProfilePickers } from '../widgets/profilePickers'
import { StepsPicker } from '../widgets/stepsPicker'
import { ShareMenu } from './shareMenu'
import phaseChipCss from '../widgets/phaseChip.module.css'
import pickerCss from '../widgets/picker.module.css'
import textCss from '../widgets/text.module.css'
import css from './topbar.module.css'

export function TopBar(props: {
  catalog: Catalog | null
  address: Address | null
  /** Shown in the pickers while no profile is open. */
  wanted: Address
  profile: Profile | null
  /** run, worker, span, window, capture, steps, phase and pattern. */
  base: Query
  steps: string
  /** Title of the open page. */
  title: string
  reload: () => void
  onQuality: () => void
  onHelp: () => void
  view: string
}) {
  const { view, catalog, address, wanted, profile, base, steps, title, reload, onQuality, onHelp } = props
  const notices = profile?.data_notice_count ?? 0
  return (
    <div className={css.top} role="region" aria-label="Profile">
      <div className={css.picks}>
        <ProfilePickers catalog={catalog} address={address ?? wanted} onChange={openProfile} />
        {profile?.state === 'ready' && profile.features.includes('steps') && (
          <StepsPicker
            all={profile.steps}
            value={steps}
            none={profile.window ? 'Full window' : 'Full trace'}
            onChange={(next) => setRoute({ steps: next }, true)}
          />
        )}
        <CapturePicker
          catalog={catalog}
          profile={profile}
          value={String(base.capture ?? '')}
          onChange={(next) => setRoute({ capture: next }, true)}
          reload={reload}
        />
        {profile?.state === 'ready' && profile.steps.length > 1 && <PerStepSwitch view={view} />}
        {base.phase && <PhaseChip phase={String(base.phase)} onClear={() => setRoute({ phase: '' }, true)} />}
      </div>
      <div className={css.actions}>
        {profile?.state === 'ready' && (
          <Tooltip label="Data quality: repaired, dropped and missing events">
            <Button
              size="sm"
              variant="default"
              radius="xl"
              className={notices > 0 ? css.quality : undefined}
              onClick={onQuality}
              leftSection={<InfoIcon />}
            >
              {notices > 0 ? counted(notices, 'note') : 'About'}
              <span className={css.wide}>
                &nbsp;{notices > 0 && 'on '}this {modelNoun(profile.model)}
              </span>
            </Button>
          </Tooltip>
        )}
        <ShareMenu
          base={address && base}
          steps={steps}
          title={title}
          ready={profile?.state === 'ready'}
          whole={profile?.window ? 'window' : 'trace'}
          events={profile?.features.includes('events') ?? true}
        />
        <Tooltip label="Keyboard shortcuts (?)">
          <Button size="sm" variant="subtle" color="gray" px={6} aria-label="Keyboard shortcuts" onClick={onHelp}>
            <HelpIcon />
          </Button>
        </Tooltip>
      </div>
    </div>
  )
}

/** One switch for all pages: sums over the selected steps, or their means per step. */
function PerStepSwitch({ view }: { view: string }) {
  const { per } = useRoute()
  const isIgnored = !PER_STEP_VIEWS.has(view) && view !== 'diff'
  return (
    <Tooltip
      label={
        isIgnored
          ? 'This page already shows means per step.'
          : 'Divides sums over the selected steps by the number of steps. Means and percentiles do not change.'
      }
    >
      <div className={css.perStep}>
        <Switch
          label="Sums per step or in total"
          value={per === TOTAL && !isIgnored ? TOTAL : 'step'}
          onChange={(next) => setRoute({ per: next === TOTAL ? TOTAL : '' }, true)}
          options={{ step: 'per step', [TOTAL]: 'total' }}
          disabled={isIgnored}
        />
      </div>
    </Tooltip>
  )
}

function PhaseChip({ phase, onClear }: { phase: string; onClear: () => void }) {
  return (
    <div
      className={`${pickerCss.pick} ${pickerCss.label} ${pickerCss.set} ${phaseChipCss.chip}`}
      data-testid="phase"
      title={`Limited to calls of phase ${phase} and the work launched there`}
    >
      <div>
        <small>Phase</small>
        <span className={textCss.mono}>{shortenMiddle(phase, 30)}</span>
      </div>
      <CloseButton label={`Clear the phase ${phase}`} onClick={onClear} />
    </div>
  )
}
