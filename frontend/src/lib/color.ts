// One colour per category, everywhere. Each holds 3:1 against both themes (color.test.ts measures it).

export const SURFACE = { light: '#ffffff', dark: '#1b2026' }

const CATEGORIES: Record<string, string> = {
  kernel: '#3b6fd4',
  compute: '#3b6fd4',
  matrix: '#3b6fd4',
  communication: '#8b5cf6',
  overlap: '#1f93a4',
  transfer: '#3b6fd4',
  wait: '#d9730d',
  memcpy: '#d9730d',
  memset: '#a38a00',
  runtime: '#2a8f62',
  dataloader: '#d6455d',
  cpu: '#1f93a4',
  operator: '#1f93a4',
  annotation: '#7b8794',
  device_annotation: '#7b8794',
  window: '#8a949e',
  unknown: '#8a949e',
  other: '#7b8794',
  no_matrix: '#7b8794',
  idle: '#8a949e',
  python: '#a3804a',
  module: '#b3579b',
  sync: '#c2543d',
  overhead: '#857a6a',
  slice0: '#3b6fd4',
  slice1: '#1f93a4',
  slice2: '#d9730d',
  slice3: '#8b5cf6',
  slice4: '#2a8f62',
  slice5: '#d6455d',
  slice6: '#a38a00',
  slice7: '#b3579b',
  slice8: '#5f7fae',
  slice9: '#a3674a',
  rest: '#8a949e',
}
const SPARE = ['#5f7fae', '#a3674a', '#b3579b', '#2a8f62', '#a38a00', '#8b5cf6']

/** The colour of a category; an unknown one gets a fixed spare. */
export function categoryColor(category: string): string {
  const known = CATEGORIES[category]
  if (known) return known
  let hash = 0
  for (const char of category) hash = (hash * 31 + char.charCodeAt(0)) | 0
  return SPARE[Math.abs(hash) % SPARE.length]
}

/** Of a change; never red against green. */
export const TREND = { slower: '#d9480f', faster: '#2f6fd0', same: '#7b8794' }
export type Trend = keyof typeof TREND

/** What a change of time means; `value` is experiment less baseline. */
export const trendOf = (value: number): Trend => (value > 0 ? 'slower' : value < 0 ? 'faster' : 'same')

export const categories = () => Object.keys(CATEGORIES)

function channels(hex: string): [number, number, number] {
  const value = Number.parseInt(hex.slice(1), 16)
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255]
}

export function luminance(hex: string): number {
  const [r, g, b] = channels(hex).map((channel) => {
    const part = channel / 255
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}

export function contrast(a: string, b: string): number {
  const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y)
  return (light + 0.05) / (dark + 0.05)
}

/** Black or white, whichever reads better on the colour. */
export function inkOn(hex: string): string {
  return contrast(hex, '#ffffff') >= 4.4 ? '#ffffff' : '#0b0f14'
}

/** The colour mixed with a background: opacity without blending in the canvas. */
export function mix(hex: string, background: string, opacity: number): string {
  const front = channels(hex)
  const back = channels(background)
  const mixed = front.map((channel, i) => Math.round(channel * opacity + back[i] * (1 - opacity)))
  return `#${mixed.map((channel) => channel.toString(16).padStart(2, '0')).join('')}`
}
