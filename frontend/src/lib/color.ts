// One colour per category (color.test.ts checks the contrast).
import type { Interval } from '../api/payloads'
import { HUES, ON_COLOR, type TREND } from './tokens'

const CATEGORIES: Record<string, string> = {
  kernel: HUES.blue,
  compute: HUES.blue,
  matrix: HUES.blue,
  communication: HUES.purple,
  overlap: HUES.teal,
  transfer: HUES.blue,
  transfer_in: HUES.magenta,
  wait: HUES.orange,
  memcpy: HUES.orange,
  memset: HUES.olive,
  runtime: HUES.green,
  dataloader: HUES.red,
  cpu: HUES.teal,
  operator: HUES.teal,
  annotation: HUES.grey,
  device_annotation: HUES.grey,
  step: HUES.steel,
  late: HUES.red,
  window: HUES.pale,
  unknown: HUES.pale,
  other: HUES.grey,
  no_matrix: HUES.grey,
  idle: HUES.pale,
  unrecorded: HUES.steel,
  python: HUES.sand,
  module: HUES.magenta,
  sync: HUES.rust,
  overhead: HUES.stone,
  instant: HUES.rust,
  async: HUES.steel,
  gemm: HUES.blue,
  convolution: HUES.teal,
  attention: HUES.magenta,
  normalisation: HUES.olive,
  elementwise: HUES.green,
  reduction: HUES.steel,
  embedding: HUES.brown,
  moe: HUES.red,
  optimizer: HUES.sand,
  copy: HUES.orange,
  parameter: HUES.blue,
  optimizer_state: HUES.olive,
  gradient: HUES.purple,
  activation: HUES.orange,
  autograd_detail: HUES.teal,
  input: HUES.red,
  temporary: HUES.magenta,
  slice0: HUES.blue,
  slice1: HUES.teal,
  slice2: HUES.orange,
  slice3: HUES.purple,
  slice4: HUES.green,
  slice5: HUES.red,
  slice6: HUES.olive,
  slice7: HUES.magenta,
  slice8: HUES.steel,
  slice9: HUES.brown,
  rest: HUES.pale,
  idle_input: HUES.red,
  idle_synchronisation: HUES.rust,
  idle_driver_memory: HUES.olive,
  idle_capture: HUES.orange,
  idle_compilation: HUES.magenta,
  idle_initialisation: HUES.brown,
  idle_python: HUES.sand,
  idle_dispatch: HUES.teal,
  idle_launch: HUES.green,
  idle_launch_latency: HUES.steel,
  idle_kernel_latency: HUES.blue,
  idle_graph: HUES.orange,
  idle_dependency: HUES.purple,
  idle_profiler: HUES.stone,
  idle_garbage_collection: HUES.grey,
  idle_not_recorded: HUES.grey,
  idle_unexplained: HUES.pale,
  mode_prefill: HUES.purple,
  mode_decode: HUES.blue,
  mode_mixed: HUES.orange,
  mode_idle: HUES.grey,
  mode_denoising: HUES.teal,
  mode_unknown: HUES.stone,
  // Bands of late ranks: not the colours of kernels, communication or copies.
  last0: HUES.magenta,
  last1: HUES.green,
  last2: HUES.brown,
  last3: HUES.olive,
  last4: HUES.red,
  // Curves next to memory categories: none of their colours.
  curve0: HUES.green,
  curve1: HUES.steel,
  curve2: HUES.brown,
}
const SPARE = [HUES.steel, HUES.brown, HUES.magenta, HUES.green, HUES.olive, HUES.purple]

/** The colour of a category; an unknown one gets a fixed spare. */
export function categoryColor(category: string): string {
  const known = CATEGORIES[category]
  if (known) return known
  let hash = 0
  for (const char of category) hash = (hash * 31 + char.charCodeAt(0)) | 0
  return SPARE[Math.abs(hash) % SPARE.length]
}

type Trend = keyof typeof TREND

export const isWithinNoise = (interval: Interval | null | undefined) =>
  interval != null && interval.low <= 0 && interval.high >= 0

/** The meaning of a change; `value` is experiment minus baseline. */
export const trendOf = (value: number, interval?: Interval | null): Trend =>
  value === 0 || isWithinNoise(interval) ? 'same' : value > 0 ? 'slower' : 'faster'

export const categories = () => Object.keys(CATEGORIES)

function channels(hex: string): [number, number, number] {
  const value = Number.parseInt(hex.slice(1), 16)
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255]
}

function luminance(hex: string): number {
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

/** Black or white, whichever contrasts more: at least 4.58:1 (the root of 21). */
export function inkOn(hex: string): string {
  return contrast(hex, ON_COLOR.light) >= contrast(hex, ON_COLOR.dark) ? ON_COLOR.light : ON_COLOR.dark
}

/** The colour mixed with a background: opacity without blending in the canvas. */
export function mix(hex: string, background: string, opacity: number): string {
  const front = channels(hex)
  const back = channels(background)
  const mixed = front.map((channel, i) => Math.round(channel * opacity + back[i] * (1 - opacity)))
  return `#${mixed.map((channel) => channel.toString(16).padStart(2, '0')).join('')}`
}
