// Every colour and font of the page. `npm run tokens` writes app/tokens.css from this file (`accentSoft` is `--tt-
// accent-soft`).

/** Colours of categories and severities; each has a contrast of 3:1 in both themes. */
export const HUES = {
  blue: '#3b6fd4',
  teal: '#1f93a4',
  orange: '#d9730d',
  purple: '#8b5cf6',
  green: '#2a8f62',
  red: '#d6455d',
  olive: '#a38a00',
  magenta: '#b3579b',
  steel: '#5f7fae',
  brown: '#a3674a',
  sand: '#a3804a',
  rust: '#c2543d',
  stone: '#857a6a',
  grey: '#7b8794',
  pale: '#8a949e',
}

/** Colors of changes; never red against green. */
export const TREND = { slower: '#d9480f', faster: '#2f6fd0', same: HUES.grey }

/** Text on a colour, whichever of the two reads better. */
export const ON_COLOR = { light: '#ffffff', dark: '#000000' }

export const SANS = 'system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif'

/** The same in both themes. */
const SHARED = {
  mono: 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace',
  mark: '#e11d74',
  /** The corner of kernels that use matrix units. */
  matrix: '#f5c518',
  alert: '#b7791f',
  highEdge: HUES.red,
  mediumEdge: HUES.orange,
  slowerBar: TREND.slower,
  fasterBar: TREND.faster,
  tipInk: ON_COLOR.light,
  onMark: ON_COLOR.light,
  shadow: '0 2px 8px rgb(0 0 0 / 18%)',
}

export const LIGHT = {
  ...SHARED,
  panel: '#ffffff',
  soft: '#f6f8fa',
  /** Bands on a panel that is drawn. */
  band: '#f6f8fa',
  line: '#dfe3e8',
  ink: '#1c2733',
  mute: '#5b6773',
  placeholder: '#66727e',
  accent: '#2f62c6',
  accentSoft: '#e8eefb',
  idle: '#e3e7ec',
  idleLine: HUES.pale,
  hover: '#f1f4f8',
  bar: '#86a8e8',
  high: '#b52442',
  highSoft: '#fbe7eb',
  medium: '#9a4b00',
  mediumSoft: '#fdeedd',
  low: '#4b5763',
  lowSoft: '#eceff2',
  tip: '#26303a',
  /** The two sides of a comparison. */
  base: HUES.pale,
  exp: '#3f4e5e',
  slower: '#b93b06',
  faster: '#1f5fbf',
  /** Marks of the critical path. */
  path: HUES.red,
  /** Fields and buttons. */
  field: '#ffffff',
  fieldHover: '#f8f9fa',
  fieldLine: '#ced4da',
}
export type Tokens = typeof LIGHT

export const DARK: Tokens = {
  ...SHARED,
  panel: '#1b2026',
  soft: '#14181d',
  band: '#20262d',
  line: '#303842',
  ink: '#e6ebf0',
  mute: '#a3afbb',
  placeholder: '#8494a3',
  accent: '#7ea6f5',
  accentSoft: '#25324a',
  idle: '#39424c',
  idleLine: HUES.grey,
  hover: '#242b33',
  bar: '#4d7bdb',
  high: '#ff9bab',
  highSoft: '#45222b',
  medium: '#ffba80',
  mediumSoft: '#432f1c',
  low: '#c3ccd5',
  lowSoft: '#2c343d',
  tip: '#323c47',
  base: HUES.grey,
  exp: '#d5dce3',
  slower: '#ff9a6b',
  faster: '#8db4ff',
  path: '#ff6b81',
  field: '#1f252c',
  fieldHover: '#28303a',
  fieldLine: '#39424d',
}

/** Mantine's dark greys, bluish as the rest of the page. */
export const GREYS = [
  DARK.ink,
  DARK.low,
  DARK.mute,
  DARK.placeholder,
  '#4c5763',
  DARK.fieldLine,
  DARK.fieldHover,
  DARK.panel,
  '#171b20',
  DARK.soft,
] as const

/** Shades of the accent, as Mantine wants them. */
export const BLUES = [
  '#eef3fc',
  '#d9e4f8',
  '#b1c7f0',
  LIGHT.bar,
  '#638de0',
  DARK.bar,
  HUES.blue,
  LIGHT.accent,
  '#2556b1',
  '#174a9c',
] as const
