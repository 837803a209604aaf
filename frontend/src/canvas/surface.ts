// Canvas basics: size, theme colours, labelled boxes.
import { categoryColor, inkOn, mix } from '../lib/color'
import { elided, shortenMiddle } from '../lib/names'
import type { Tokens } from '../lib/tokens'
import * as tokens from '../lib/tokens'

export type Theme = Tokens & { dark: boolean }

export const LIGHT: Theme = { ...tokens.LIGHT, dark: false }
export const DARK: Theme = { ...tokens.DARK, dark: true }

export const FONT = `11px ${tokens.SANS}`
export const FONT_TITLE = `600 12.5px ${tokens.SANS}`

/** Sizes the canvas for the screen's pixels; drawing then happens in CSS pixels. */
export function fitCanvas(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D | null {
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
export function cutText(context: CanvasRenderingContext2D, text: string, width: number): string {
  const room = Math.floor(width / charWidth(context))
  if (text.length <= room * 0.85 || (text.length <= room * 1.3 && context.measureText(text).width <= width)) return text
  for (let length = room - 1; length >= 2; length -= length > 24 ? 2 : 1) {
    const shorter = `${text.slice(0, length)}…`
    if (context.measureText(shorter).width <= width) return shorter
  }
  return ''
}

const middles = new Map<string, string>()
const MOST_MIDDLES = 5000

/** A text shortened in the middle to a width; '' when not even three letters fit. */
export function cutMiddle(context: CanvasRenderingContext2D, text: string, width: number): string {
  const key = `${context.font} ${Math.round(width)} ${text}`
  let found = middles.get(key)
  if (found === undefined) {
    found = text
    for (let length = text.length - 1; length > 4 && context.measureText(found).width > width; length--)
      found = shortenMiddle(text, length)
    if (context.measureText(found).width > width) found = cutText(context, text, width)
    if (middles.size > MOST_MIDDLES) middles.clear()
    middles.set(key, found)
  }
  return found
}

/** Texts shortened in the middle; different texts stay different if width allows. */
export function cutDistinct(
  context: CanvasRenderingContext2D,
  texts: readonly string[],
  width: number,
): Map<string, string> {
  const isFit = (text: string) => context.measureText(text).width <= width
  let shown = new Map(texts.map((text) => [text, text]))
  const longest = Math.max(0, ...texts.map((text) => text.length))
  for (let room = Math.min(longest, Math.ceil(width / 3)); room > 4; room--) {
    if ([...shown.values()].every(isFit)) return shown
    shown = elided(texts, room - 1)
  }
  return new Map(texts.map((text) => [text, cutText(context, text, width)]))
}

const LEVELS = 8
const paints = new Map<string, { fill: string; ink: string }>()

/** Fill and text colour of a category, mixed into the panel by `strength` (0..1). */
export function boxColors(category: string, strength: number, theme: Theme): { fill: string; ink: string } {
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

export function drawBox(
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
  // The label stays visible when the box starts left of the window.
  const left = Math.max(x, from)
  const room = x + width - left - 8
  if (room < 16 || label === '') return
  const text = cutText(context, label, room)
  if (text === '') return
  context.fillStyle = colors.ink
  context.fillText(text, left + 4, y + height / 2 + 0.5)
}

/** Fills a box with slanted lines. */
export function hatch(
  context: CanvasRenderingContext2D,
  from: number,
  to: number,
  top: number,
  height: number,
  color: string,
): void {
  if (to - from < 1) return
  context.save()
  context.beginPath()
  context.rect(from, top, to - from, height)
  context.clip()
  context.strokeStyle = color
  context.lineWidth = 1
  context.beginPath()
  for (let x = Math.floor((from - height) / 10) * 10; x < to; x += 10) {
    context.moveTo(x, top + height)
    context.lineTo(x + height, top)
  }
  context.stroke()
  context.restore()
}

export function triangle(
  context: CanvasRenderingContext2D,
  ax: number,
  ay: number,
  bx: number,
  by: number,
  cx: number,
  cy: number,
) {
  context.moveTo(ax, ay)
  context.lineTo(bx, by)
  context.lineTo(cx, cy)
  context.closePath()
}
