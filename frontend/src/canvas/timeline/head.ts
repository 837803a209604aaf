// The head of the timeline: overview strip, axis, steps, markers.

import { divisions, multiples, tickLabel } from '../../lib/axisTicks'
import { deviceWord } from '../../lib/deviceWords'
import { format } from '../../lib/format'
import { boxColors, cutText, drawBox, FONT, FONT_TITLE } from '../surface'
import type { Range } from '../viewport'
import { AXIS, HEAD, STRIP } from './layout'
import { type Bookmark, type HeadStage, type Stage, toX } from './scene'

export function drawHead(context: CanvasRenderingContext2D, scene: HeadStage, marks: number[], step: number): void {
  const { width, theme } = scene
  context.fillStyle = theme.panel
  context.fillRect(0, 0, width, HEAD)
  drawStrip(context, scene)
  context.fillStyle = theme.band
  context.fillRect(0, STRIP, width, AXIS - STRIP)
  context.fillStyle = theme.line
  context.fillRect(0, STRIP - 1, width, 1)
  context.fillRect(0, AXIS - 1, width, 1)
  context.fillRect(0, HEAD - 1, width, 1)
  context.fillRect(scene.gutter - 1, 0, 1, HEAD)
  drawRuler(context, scene, marks, step)
  drawSteps(context, scene)
}

/** Labelled marks, and small ones between them by which a time can be read. */
function drawRuler(context: CanvasRenderingContext2D, scene: Stage, marks: number[], step: number): void {
  const { width, theme, view } = scene
  const parts = divisions(step)
  const label = scene.range && rangeLabel(context, scene, scene.range)
  context.save()
  context.beginPath()
  context.rect(scene.gutter, STRIP, width - scene.gutter, AXIS - STRIP)
  context.clip()
  context.font = FONT
  context.fillStyle = theme.mute
  for (const mark of multiples(view.start, view.end, step / parts)) {
    const isHalf = parts % 2 === 0 && (mark * 2) % step === 0
    context.fillRect(Math.round(toX(scene, mark)), AXIS - (isHalf ? 7 : 5), 1, isHalf ? 6 : 4)
  }
  for (const mark of marks) {
    const x = Math.round(toX(scene, mark))
    context.fillStyle = theme.mute
    context.fillRect(x, STRIP, 1, AXIS - STRIP)
    const text = tickLabel(mark, step, view.end)
    const end = x + 4 + context.measureText(text).width
    const isCovered = label && end > label.left && x < label.left + label.wide
    if (end < width && !isCovered) context.fillText(text, x + 4, (STRIP + AXIS) / 2 - 2)
  }
  if (scene.selected) drawPointer(context, toX(scene, scene.selected.start), theme.mark)
  context.restore()
}

/** The start of the selected event, which may be narrower than a pixel. */
function drawPointer(context: CanvasRenderingContext2D, x: number, color: string): void {
  context.fillStyle = color
  context.beginPath()
  context.moveTo(x - 5, AXIS - 8)
  context.lineTo(x + 5, AXIS - 8)
  context.lineTo(x, AXIS - 1)
  context.fill()
}

/** One bar above everything: which step it is. */
function drawSteps(context: CanvasRenderingContext2D, scene: Stage): void {
  const { steps, width, theme, view } = scene
  context.font = FONT
  context.fillStyle = theme.mute
  context.fillText(steps.length > 0 ? 'Steps' : 'No steps recorded', 22, (AXIS + HEAD) / 2)
  context.save()
  context.beginPath()
  context.rect(scene.gutter, AXIS, width - scene.gutter, HEAD - AXIS)
  context.clip()
  for (const [i, step] of steps.entries()) {
    if (step.end < view.start || step.start > view.end) continue
    const [x, to] = [toX(scene, step.start), toX(scene, step.end)]
    const left = Math.max(x, scene.gutter - 4)
    const look = boxColors('annotation', i % 2 === 0 ? 0.35 : 0.2, theme)
    drawBox(
      context,
      left,
      AXIS + 1,
      Math.min(to - 1, width + 4) - left,
      HEAD - AXIS - 3,
      look,
      `Step ${step.label}`,
      scene.gutter,
    )
  }
  context.restore()
}

function drawStrip(context: CanvasRenderingContext2D, scene: HeadStage): void {
  const { width, theme, model, view, marks } = scene
  const { busy, busy_is_device: device } = model.head
  const wide = width - scene.gutter
  const perBin = wide / Math.max(1, busy.length)
  for (let b = 0; b < busy.length; b++) {
    if (busy[b] <= 0) continue
    context.fillStyle = boxColors(device ? 'kernel' : 'cpu', 0.35 + 0.65 * busy[b], theme).fill
    const tall = Math.max(2, busy[b] * (STRIP - 12))
    context.fillRect(scene.gutter + b * perBin, STRIP - 5 - tall, Math.max(1, perBin), tall)
  }
  const perMark = wide / Math.max(1, marks.length)
  context.fillStyle = scene.theme.mark
  for (let b = 0; b < marks.length; b++)
    if (marks[b] > 0) context.fillRect(scene.gutter + b * perMark, STRIP - 5, Math.max(1.5, perMark), 4)
  const whole = model.end - model.start
  const from = scene.gutter + ((view.start - model.start) / whole) * wide
  const to = scene.gutter + ((view.end - model.start) / whole) * wide
  const wider = Math.max(3, to - from)
  context.globalAlpha = 0.16
  context.fillStyle = theme.accent
  context.fillRect(from, 2, wider, STRIP - 4)
  context.globalAlpha = 1
  context.strokeStyle = theme.accent
  context.lineWidth = 1
  context.strokeRect(Math.round(from) + 0.5, 2.5, Math.max(2, Math.round(wider) - 1), STRIP - 6)
  context.font = FONT
  context.fillStyle = theme.mute
  const title = `${device ? deviceWord() : 'CPU'} busy over time`
  context.fillText(cutText(context, title, scene.gutter - 30), 22, STRIP / 2)
}

export function drawCursor(context: CanvasRenderingContext2D, scene: Stage, time: number): void {
  const x = Math.round(toX(scene, time))
  if (x < scene.gutter || x > scene.width) return
  const { theme } = scene
  context.globalAlpha = 0.5
  context.fillStyle = theme.mute
  context.fillRect(x, HEAD, 1, scene.height - HEAD)
  context.globalAlpha = 1
  const perPixel = (scene.view.end - scene.view.start) / (scene.width - scene.gutter)
  const step = 10 ** Math.floor(Math.log10(Math.max(1, perPixel)))
  const text = tickLabel(Math.round(time / step) * step, step, scene.view.end)
  context.font = FONT
  const wide = context.measureText(text).width + 10
  const left = Math.min(Math.max(scene.gutter, x - wide / 2), scene.width - wide)
  // Over the steps: the ruler's labels stay readable.
  context.fillStyle = theme.ink
  context.fillRect(left, AXIS, wide, HEAD - AXIS - 1)
  context.fillStyle = theme.panel
  context.fillText(text, left + 5, (AXIS + HEAD) / 2)
}

/** Both ends of a range on the canvas; null if it is not visible. */
function rangeEnds(scene: Stage, range: Range): [number, number] | null {
  const from = Math.max(scene.gutter, toX(scene, Math.min(range.start, range.end)))
  const to = Math.min(scene.width, toX(scene, Math.max(range.start, range.end)))
  return to < scene.gutter || from > scene.width ? null : [from, to]
}

/** The length of a range and its place on the ruler, which shows no other text there. */
function rangeLabel(context: CanvasRenderingContext2D, scene: Stage, range: Range) {
  const ends = rangeEnds(scene, range)
  if (!ends) return null
  const [from, to] = ends
  const text = format(Math.abs(range.end - range.start), 'ns')
  const { font } = context
  context.font = FONT_TITLE
  const wide = context.measureText(text).width + 12
  context.font = font
  // A narrow range has its length on its right, or on its left at the edge.
  const outside = to + wide + 2 < scene.width ? to + 2 : from - wide - 2
  return { text, wide, left: to - from < wide ? outside : (from + to - wide) / 2 }
}

export function drawRange(context: CanvasRenderingContext2D, scene: Stage, range: Range): void {
  const ends = rangeEnds(scene, range)
  const label = rangeLabel(context, scene, range)
  if (!ends || !label) return
  const [from, to] = ends
  context.globalAlpha = 0.14
  context.fillStyle = scene.theme.mark
  context.fillRect(from, STRIP, to - from, scene.height)
  context.globalAlpha = 1
  context.fillRect(from, STRIP, 1, scene.height)
  context.fillRect(to - 1, STRIP, 1, scene.height)
  context.fillRect(label.left, STRIP + 3, label.wide, AXIS - STRIP - 6)
  context.font = FONT_TITLE
  context.fillStyle = scene.theme.onMark
  context.fillText(label.text, label.left + 6, (STRIP + AXIS) / 2)
}

export function drawFlags(
  context: CanvasRenderingContext2D,
  scene: Stage,
  marked: readonly Bookmark[],
  color: string,
): void {
  const { theme, width, height, gutter } = scene
  const flags = marked
    .map(({ time, note }) => ({ x: Math.round(toX(scene, time)), note }))
    .filter(({ x }) => x >= gutter && x <= width)
    .sort((a, b) => a.x - b.x)
  context.font = FONT
  for (const [i, { x, note }] of flags.entries()) {
    context.fillStyle = color
    context.fillRect(x, STRIP, 1, height - STRIP)
    context.beginPath()
    context.moveTo(x, STRIP + 2)
    context.lineTo(x + 9, STRIP + 6)
    context.lineTo(x, STRIP + 10)
    context.fill()
    const room = Math.min(flags[i + 1]?.x ?? width, width) - x - 16
    const text = note === '' || room < 24 ? '' : cutText(context, note, Math.min(room, 220))
    if (text === '') continue
    context.fillRect(x, STRIP + 2, context.measureText(text).width + 10, AXIS - STRIP - 5)
    context.fillStyle = theme.panel
    context.fillText(text, x + 5, (STRIP + AXIS) / 2)
  }
}
