// Mantine's defaults, and what the design asks beyond them: calm tooltips, short motion.
import { Button, createTheme, type MantineColorsTuple, Popover, Tooltip } from '@mantine/core'

/** Mantine's dark greys, bluish as the rest of the page. */
const dark: MantineColorsTuple = [
  '#e6ebf0',
  '#c3ccd5',
  '#a3afbb',
  '#8494a3',
  '#4c5763',
  '#39424d',
  '#28303a',
  '#1b2026',
  '#171b20',
  '#14181d',
]
const blue: MantineColorsTuple = [
  '#eef3fc',
  '#d9e4f8',
  '#b1c7f0',
  '#86a8e8',
  '#638de0',
  '#4d7bdb',
  '#3b6fd4',
  '#2f62c6',
  '#2556b1',
  '#174a9c',
]

export const theme = createTheme({
  primaryColor: 'trace',
  colors: { trace: blue, dark },
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
    Button: Button.extend({ defaultProps: { fw: 500 } }),
    Popover: Popover.extend({ defaultProps: { transitionProps: { duration: 100 }, shadow: 'sm' } }),
  },
})
