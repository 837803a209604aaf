// Zoom buttons.
import { Button } from '@mantine/core'
import css from './zoomButtons.module.css'

/** `all`: label of the full range. `isTight`: little room; a narrow page shows only this button. */
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
