// Closer, further, and all of it: for whoever has no keyboard at hand.
import { Button } from '@mantine/core'
import css from './zoomButtons.module.css'

/** `all`: what the whole is called. `isTight`: they stand in a bar that is full, where a narrow page has room for the whole alone. */
export function ZoomButtons(props: {
  all: string
  isTight?: boolean
  zoom: (factor: number) => void
  reset: () => void
}) {
  const { all, isTight, zoom, reset } = props
  const closer = isTight ? css.closer : undefined
  return (
    <Button.Group>
      <Button size="sm" variant="default" className={closer} aria-label="Zoom in" onClick={() => zoom(0.5)}>
        +
      </Button>
      <Button size="sm" variant="default" className={closer} aria-label="Zoom out" onClick={() => zoom(2)}>
        −
      </Button>
      <Button size="sm" variant="default" className={isTight ? css.whole : undefined} onClick={reset}>
        {all}
      </Button>
    </Button.Group>
  )
}
