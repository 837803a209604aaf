// Mantine's defaults, and what the design asks beyond them: calm tooltips, short motion.
import { createTheme, type MantineColorsTuple, Popover, Tooltip } from '@mantine/core'

const blue: MantineColorsTuple = ['#eef3fc', '#d9e4f8', '#b1c7f0', '#86a8e8', '#638de0', '#4d7bdb', '#3b6fd4', '#2f62c6', '#2556b1', '#174a9c']

export const theme = createTheme({
  primaryColor: 'trace',
  colors: { trace: blue },
  primaryShade: { light: 7, dark: 7 },
  fontFamily: 'system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif',
  fontFamilyMonospace: 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace',
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
    Popover: Popover.extend({ defaultProps: { transitionProps: { duration: 100 }, shadow: 'sm' } }),
  },
})
