// Draws a timeline: overview strip, axis, tracks. No state, no events.
import { niceStep, tickLabel, ticks } from '../lib/scale'
import { box, cut, FONT, FONT_TITLE, MARK, paint, type Theme } from './surface'
import { firstEndingAfter, type TimelineModel } from './timelineModel'

export const GUTTER = 212
export const STRIP = 38
export const HEAD = 62
const ROW = 17
const BAR = 15
const PAD = 6
const COLLAPSED = 24

export interface Range {
  start: number
  end: number
}

export interface Scene {
  model: TimelineModel
  view: Range
  scroll: number
  width: number
  height: number
  theme: Theme
  collapsed: ReadonlySet<number>
  overview: { bins: Float32Array; device: boolean } | null
  /** Per name: does the search match? */
  match: Uint8Array | null
  /** Row of the trace table that is selected. */
  selected: number | null
  hover: number
  range: Range | null
}

export interface Placed {
  track: number
  top: number
  height: number
  rows: number
}

export function layout(model: TimelineModel, collapsed: ReadonlySet<number>): Placed[] {
  let top = 0
  return model.tracks.map((track, index) => {
    const small = collapsed.has(index)
    const rows = small ? 1 : track.rows
    const height = small ? COLLAPSED : Math.max(track.subtitle ? 42 : 28, rows * ROW + PAD * 2)
    const placed = { track: index, top, height, rows }
    top += height
    return placed
  })
}

export const contentHeight = (placed: Placed[]) => {
  const last = placed[placed.length - 1]
  return last ? last.top + last.height : 0
}

export const toX = (scene: Scene, time: number) =>
  GUTTER + ((time - scene.view.start) / (scene.view.end - scene.view.start)) * (scene.width - GUTTER)

export const toTime = (scene: Scene, x: number) =>
  scene.view.start + ((x - GUTTER) / (scene.width - GUTTER)) * (scene.view.end - scene.view.start)

export const rowTop = (placed: Placed, row: number) => placed.top + (placed.height === COLLAPSED ? 4 : PAD) + row * ROW
export const rowAt = (placed: Placed, y: number) =>
  Math.max(0, Math.min(placed.rows - 1, Math.floor((y - placed.top - (placed.height === COLLAPSED ? 4 : PAD)) / ROW)))

export function draw(context: CanvasRenderingContext2D, scene: Scene): void {
  const { width, height, theme, model } = scene
  context.fillStyle = theme.panel
  context.fillRect(0, 0, width, height)
  context.textBaseline = 'middle'
  const span = scene.view.end - scene.view.start
  const count = Math.max(2, Math.floor((width - GUTTER) / 110))
  const marks = ticks(scene.view.start, scene.view.end, count)
  const placed = layout(model, scene.collapsed)

  context.save()
  context.beginPath()
  context.rect(0, HEAD, width, height - HEAD)
  context.clip()
  context.fillStyle = theme.line
  for (const mark of marks) context.fillRect(Math.round(toX(scene, mark)), HEAD, 1, height)
  context.translate(0, HEAD - scene.scroll)
  for (const track of placed) {
    if (track.top + track.height < scene.scroll || track.top > scene.scroll + height - HEAD) continue
    drawTrack(context, scene, track)
  }
  context.restore()
  drawLoadedEdges(context, scene)
  drawHead(context, scene, marks, span, niceStep(span, count))
  if (scene.range) drawRange(context, scene, scene.range)
}

function drawTrack(context: CanvasRenderingContext2D, scene: Scene, placed: Placed): void {
  const { model, theme, width } = scene
  const track = model.tracks[placed.track]
  context.save()
  context.beginPath()
  context.rect(GUTTER, placed.top, width - GUTTER, placed.height)
  context.clip()
  context.font = FONT
  for (let row = 0; row < placed.rows; row++) drawRow(context, scene, placed, row)
  context.restore()

  context.fillStyle = theme.panel
  context.fillRect(0, placed.top, GUTTER, placed.height)
  context.fillStyle = theme.line
  context.fillRect(0, placed.top + placed.height - 1, width, 1)
  context.fillRect(GUTTER - 1, placed.top, 1, placed.height)
  const small = placed.height === COLLAPSED
  const middle = small ? placed.top + placed.height / 2 : placed.top + 14
  context.fillStyle = theme.mute
  context.beginPath()
  if (small) triangle(context, 9, middle - 4, 14, middle, 9, middle + 4)
  else triangle(context, 7, middle - 2.5, 15, middle - 2.5, 11, middle + 2.5)
  context.fill()
  context.font = FONT_TITLE
  context.fillStyle = theme.ink
  context.fillText(cut(context, track.title, GUTTER - 32), 22, middle)
  if (!small && track.subtitle) {
    context.font = FONT
    context.fillStyle = theme.mute
    context.fillText(cut(context, track.subtitle, GUTTER - 32), 22, middle + 16)
  }
}

function triangle(
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

function drawRow(context: CanvasRenderingContext2D, scene: Scene, placed: Placed, row: number): void {
  const { model, theme, view, match, width } = scene
  const lane = model.offset[placed.track] + row
  const to = model.ranges[lane + 1]
  const y = rowTop(placed, row)
  const perNs = (width - GUTTER) / (view.end - view.start)
  let lastX = -1
  let outline: [number, number] | null = null
  for (let i = firstEndingAfter(model, model.ranges[lane], to, view.start); i < to && model.start[i] < view.end; i++) {
    const x = GUTTER + (model.start[i] - view.start) * perNs
    const w = model.dur[i] * perNs
    const marked = scene.selected !== null && model.event[i] === scene.selected
    if (marked) outline = [x, w]
    // Several under one pixel: the first one stands for all (they are merged on the server at this resolution).
    if (x + w <= lastX && !marked && !match) continue
    const merged = model.count[i] > 1
    const hit = match ? match[model.name[i]] === 1 : true
    let strength = merged ? 0.4 + 0.6 * Math.min(1, model.dur[i] > 0 ? model.busy[i] / model.dur[i] : 1) : 1
    if (!hit) strength = 0.18
    const colors = paint(model.categories[model.category[i]], strength, theme)
    const drawn = Math.max(1, w > 3 ? w - 1 : w)
    const left = Math.max(x, GUTTER - 4)
    const visible = Math.min(x + drawn, width + 4) - left
    const label =
      w < 24 ? '' : merged ? `${model.count[i].toLocaleString('en-US')} events` : model.labels[model.name[i]]
    box(context, left, y, visible, BAR, colors, label, GUTTER)
    if (i === scene.hover) {
      context.strokeStyle = theme.ink
      context.lineWidth = 1
      context.strokeRect(left + 0.5, y + 0.5, Math.max(1, visible - 1), BAR - 1)
    }
    lastX = x + Math.max(1, w)
  }
  if (outline) {
    context.strokeStyle = MARK
    context.lineWidth = 2
    context.strokeRect(outline[0] - 1, y - 1, Math.max(3, outline[1] + 1), BAR + 2)
  }
}

/** What has not been loaded yet is hatched, so that empty never looks like idle. */
function drawLoadedEdges(context: CanvasRenderingContext2D, scene: Scene): void {
  const { model, height, width, theme, view } = scene
  const shade = (from: number, to: number) => {
    if (to - from < 1) return
    context.save()
    context.globalAlpha = 0.5
    context.fillStyle = theme.soft
    context.fillRect(from, HEAD, to - from, height - HEAD)
    context.globalAlpha = 1
    context.strokeStyle = theme.line
    context.beginPath()
    context.rect(from, HEAD, to - from, height - HEAD)
    context.clip()
    context.beginPath()
    for (let x = from - height; x < to; x += 12) {
      context.moveTo(x, height)
      context.lineTo(x + height, 0)
    }
    context.stroke()
    context.restore()
  }
  if (model.loadedStart > view.start && model.loadedStart > model.windowStart)
    shade(GUTTER, Math.min(width, toX(scene, model.loadedStart)))
  if (model.loadedEnd < view.end && model.loadedEnd < model.windowEnd)
    shade(Math.max(GUTTER, toX(scene, model.loadedEnd)), width)
}

function drawHead(context: CanvasRenderingContext2D, scene: Scene, marks: number[], span: number, step: number): void {
  const { width, theme, model } = scene
  context.fillStyle = theme.panel
  context.fillRect(0, 0, width, HEAD)
  drawStrip(context, scene)
  context.fillStyle = theme.soft
  context.fillRect(0, STRIP, width, HEAD - STRIP)
  context.fillStyle = theme.line
  context.fillRect(0, STRIP - 1, width, 1)
  context.fillRect(0, HEAD - 1, width, 1)
  context.fillRect(GUTTER - 1, 0, 1, HEAD)
  context.font = FONT
  for (const mark of marks) {
    const x = Math.round(toX(scene, mark))
    context.fillStyle = theme.line
    context.fillRect(x, STRIP, 1, HEAD - STRIP)
    context.fillStyle = theme.mute
    if (x < width - 40)
      context.fillText(tickLabel(mark, step, model.windowEnd > 0 ? scene.view.end : span), x + 4, (STRIP + HEAD) / 2)
  }
}

function drawStrip(context: CanvasRenderingContext2D, scene: Scene): void {
  const { width, theme, model, overview, view } = scene
  const wide = width - GUTTER
  if (overview) {
    const perBin = wide / overview.bins.length
    for (let b = 0; b < overview.bins.length; b++) {
      const value = overview.bins[b]
      if (value <= 0) continue
      context.fillStyle = paint(overview.device ? 'kernel' : 'cpu', 0.35 + 0.65 * value, theme).fill
      const tall = Math.max(2, value * (STRIP - 12))
      context.fillRect(GUTTER + b * perBin, STRIP - 5 - tall, Math.max(1, perBin), tall)
    }
  }
  const whole = model.windowEnd - model.windowStart
  const from = GUTTER + ((view.start - model.windowStart) / whole) * wide
  const to = GUTTER + ((view.end - model.windowStart) / whole) * wide
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
  context.fillText(
    overview ? (overview.device ? 'Device busy, start to end' : 'Host busy, start to end') : 'Start to end',
    22,
    STRIP / 2,
  )
}

function drawRange(context: CanvasRenderingContext2D, scene: Scene, range: Range): void {
  const from = Math.max(GUTTER, toX(scene, Math.min(range.start, range.end)))
  const to = Math.min(scene.width, toX(scene, Math.max(range.start, range.end)))
  if (to < GUTTER || from > scene.width) return
  context.globalAlpha = 0.14
  context.fillStyle = MARK
  context.fillRect(from, STRIP, to - from, scene.height)
  context.globalAlpha = 1
  context.fillRect(from, STRIP, 1, scene.height)
  context.fillRect(to - 1, STRIP, 1, scene.height)
}
