// Closer, further, and all of it: for whoever has no keyboard at hand.
import { Button } from '@mantine/core'
import css from './zoomButtons.module.css'

/** `all`: what the whole is called. */
export function ZoomButtons(props: { all: string; zoom: (factor: number) => void; reset: () => void }) {
  const { all, zoom, reset } = props
  return (
    <Button.Group>
      <Button size="sm" variant="default" className={css.closer} aria-label="Zoom in" onClick={() => zoom(0.5)}>
        +
      </Button>
      <Button size="sm" variant="default" className={css.closer} aria-label="Zoom out" onClick={() => zoom(2)}>
        −
      </Button>
      <Button size="sm" variant="default" className={css.whole} onClick={reset}>
        {all}
      </Button>
    </Button.Group>
  )
}
