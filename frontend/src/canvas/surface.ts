// The one Canvas2D engine's ground: a sharp canvas, the theme's colours, and the box with a label that the timeline and
// the icicle chart both are made of.
import { categoryColor, inkOn, mix } from '../lib/color'

export interface Theme {
  dark: boolean
  panel: string
  soft: string
  line: string
  ink: string
  mute: string
  accent: string
  /** The two sides of a comparison. */
  base: string
  exp: string
}

export const LIGHT: Theme = {
  dark: false,
  panel: '#ffffff',
  soft: '#f6f8fa',
  line: '#dfe3e8',
  ink: '#1c2733',
  mute: '#5b6773',
  accent: '#2f62c6',
  base: '#8a949e',
  exp: '#3f4e5e',
}
export const DARK: Theme = {
  dark: true,
  panel: '#1b2026',
  soft: '#20262d',
  line: '#303842',
  ink: '#e6ebf0',
  mute: '#a3afbb',
  accent: '#7ea6f5',
  base: '#7b8794',
  exp: '#d5dce3',
}
export const MARK = '#e11d74'

export const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif'
export const FONT_TITLE = '600 12.5px system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif'

/** Sizes the canvas for the screen's pixels; drawing then happens in CSS pixels. */
export function fit(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D | null {
  const ratio = window.devicePixelRatio || 1
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)]
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w
    canvas.height = h
  }
  const context = canvas.getContext('2d', { alpha: false })
  context?.setTransform(ratio, 0, 0, ratio, 0, 0)
  return context
}

const widths = new Map<string, number>()
function charWidth(context: CanvasRenderingContext2D): number {
  let width = widths.get(context.font)
  if (width === undefined) {
    width = context.measureText('aten::native_batch_norm_backward').width / 32
    widths.set(context.font, width)
  }
  return width
}

/** Text cut to a width, with an ellipsis; '' when not even three letters fit. */
export function cut(context: CanvasRenderingContext2D, text: string, width: number): string {
  const room = Math.floor(width / charWidth(context))
  if (text.length <= room * 0.85 || (text.length <= room * 1.3 && context.measureText(text).width <= width)) return text
  for (let length = room - 1; length >= 2; length -= length > 24 ? 2 : 1) {
    const shorter = `${text.slice(0, length)}…`
    if (context.measureText(shorter).width <= width) return shorter
  }
  return ''
}

const LEVELS = 8
const paints = new Map<string, { fill: string; ink: string }>()

/** Fill and text colour of a category, mixed into the panel by `strength` (0..1). */
export function paint(category: string, strength: number, theme: Theme): { fill: string; ink: string } {
  const level = Math.max(1, Math.round(strength * LEVELS))
  const key = `${category} ${level} ${theme.panel}`
  let found = paints.get(key)
  if (!found) {
    const fill = mix(categoryColor(category), theme.panel, level / LEVELS)
    found = { fill, ink: inkOn(fill) }
    paints.set(key, found)
  }
  return found
}

/** A labelled box; the label only where it can be read. */
export function box(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  width: number,
  height: number,
  colors: { fill: string; ink: string },
  label: string,
  from = 0,
): void {
  context.fillStyle = colors.fill
  context.fillRect(x, y, Math.max(1, width), height)
  // The label stays in sight when the box begins left of the window.
  const left = Math.max(x, from)
  const room = x + width - left - 8
  if (room < 16 || label === '') return
  const text = cut(context, label, room)
  if (text === '') return
  context.fillStyle = colors.ink
  context.fillText(text, left + 4, y + height / 2 + 0.5)
}
