// The picker of a graph capture.
import { Alert } from '@mantine/core'
import { useEffect, useMemo, useRef } from 'react'
import type { Catalog, Profile } from '../api/payloads'
import { captureChoices, captureState } from '../lib/graphCaptures'
import { Picker } from './picker'
import textCss from './text.module.css'

/** Empty for traces without replays. `side` names one of two profiles. */
export function CapturePicker(props: {
  catalog: Catalog | null
  profile: Profile | null
  side?: string
  value: string
  onChange: (capture: string) => void
  /** Reloads the profile while a capture loads. */
  reload: () => void
}) {
  const { catalog, profile, side, value, onChange, reload } = props
  const info = profile?.capture
  const choices = useMemo(
    () => (catalog && profile ? captureChoices(catalog, profile, value) : []),
    [catalog, profile, value],
  )
  const seen = useRef('')
  const states = catalog && info ? captureState(catalog, info.names) : ''
  useEffect(() => {
    if (seen.current !== '' && seen.current !== states) reload()
    seen.current = states
  }, [states, reload])
  if (!info) return null
  const label = [side, 'Capture', info.how === 'beside' && '(found)'].filter(Boolean).join(' ')
  return <Picker label={label} value={value} choices={choices} onChange={onChange} />
}

/** Reports an unusable capture. */
export function CaptureProblem({ profile, side }: { profile: Profile; side?: string }) {
  const problem = profile.capture?.problem
  if (!problem) return null
  return (
    <Alert color="orange" variant="light" data-testid="capture" role="status">
      {side && <b>{side}: </b>}
      {problem.what} {problem.where && <span className={textCss.mono}>{problem.where}</span>} {problem.do} The numbers
      exclude this capture.
    </Alert>
  )
}
