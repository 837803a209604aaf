// Short notes: over the timeline what a measurement waits for, in its footer how to zoom.
import { useEffect } from 'react'
import { setPrefs } from '../../state/prefs'
import { CloseButton, LinkButton } from '../../widgets/basics'
import css from './canvasHint.module.css'

const MEASURING = {
  first: 'Click the first point. It snaps to the edges of events.',
  second: 'Click the second point. Esc cancels.',
}
const HINT_MS = 12_000

export function CanvasHint(props: { measuring: keyof typeof MEASURING | null }) {
  const { measuring } = props
  return (
    <div className={css.place} role="status">
      {measuring && <p className={css.hint}>{MEASURING[measuring]}</p>}
    </div>
  )
}

const close = () => setPrefs({ wheelHinted: true })

export function ZoomHint() {
  useEffect(() => {
    const timer = window.setTimeout(close, HINT_MS)
    return () => window.clearTimeout(timer)
  }, [])
  return (
    <span role="status" className={css.zoom}>
      Ctrl (or ⌘) + wheel zooms, Shift + wheel moves sideways.
      <LinkButton onClick={() => setPrefs({ wheel: 'zoom', wheelHinted: true })}>Zoom with the wheel</LinkButton>
      <CloseButton size="xs" label="Close the hint" onClick={close} />
    </span>
  )
}
