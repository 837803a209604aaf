// Short notes over the timeline: how to zoom, and what a measurement waits for.
import { useEffect } from 'react'
import { setPrefs } from '../../state/prefs'
import { CloseButton, SmallButton } from '../../widgets/basics'
import css from './canvasHint.module.css'

const MEASURING = {
  first: 'Click the first point. It snaps to the edges of events.',
  second: 'Click the second point. Esc cancels.',
}
const HINT_MS = 12_000

export function CanvasHint(props: { measuring: keyof typeof MEASURING | null; isZoomHint: boolean }) {
  const { measuring, isZoomHint } = props
  return (
    <div className={css.place} role="status">
      {measuring ? <p className={css.hint}>{MEASURING[measuring]}</p> : isZoomHint && <ZoomHint />}
    </div>
  )
}

const close = () => setPrefs({ wheelHinted: true })

function ZoomHint() {
  useEffect(() => {
    const timer = window.setTimeout(close, HINT_MS)
    return () => window.clearTimeout(timer)
  }, [])
  return (
    <p className={css.hint}>
      Ctrl (or ⌘) + wheel zooms, Shift + wheel moves sideways.
      <SmallButton onClick={() => setPrefs({ wheel: 'zoom', wheelHinted: true })}>Zoom with the wheel</SmallButton>
      <CloseButton size="xs" label="Close the hint" onClick={close} />
    </p>
  )
}
