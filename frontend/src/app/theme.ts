// Mantine's theme.
import { Button, createTheme, Popover, Tooltip } from '@mantine/core'
import { BLUES, GREYS, LIGHT, SANS } from '../lib/tokens'

export const theme = createTheme({
  primaryColor: 'trace',
  colors: { trace: BLUES, dark: GREYS },
  primaryShade: { light: 7, dark: 7 },
  fontFamily: SANS,
  fontFamilyMonospace: LIGHT.mono,
  respectReducedMotion: true,
  components: {
    Tooltip: Tooltip.extend({
      defaultProps: {
        openDelay: 250,
        multiline: true,
        maw: 340,
        transitionProps: { duration: 100 },
        events: { hover: true, focus: true, touch: true },
        color: 'var(--tt-tip)',
      },
    }),
    Button: Button.extend({ defaultProps: { fw: 500 } }),
    Popover: Popover.extend({ defaultProps: { transitionProps: { duration: 100 }, shadow: 'sm' } }),
  },
})
