// Drawing of the timeline; stateless.

import { multiples, rulerStep, tickLabel } from '../../lib/axisTicks'
import { shortFrame } from '../../lib/frames'
import { shortKernel } from '../../lib/names'
import { cutMiddle, cutText, drawBox, FONT, FONT_TITLE, hatch, type Theme, triangle } from '../surface'
import { drawCounter, narrowTitle, rangeText, sliceAt } from './counters'
import { drawCursor, drawFlags, drawHead, drawRange } from './head'
import { BAR, HEAD, type Placed, rowTop } from './layout'
import { firstEndingAfter, type Piece, type TimelineModel } from './model'
import { drawArrows, drawGaps, drawMarks, drawPath } from './overlays'
import { type Scene, type Stage, toX, visibleTracks } from './scene'
import type { Tile } from './tileStore'

const NARROW = 3
/** Half the width in pixels of an instant's mark; closer ones become ticks. */
const MOMENT = 4
const LABEL_PAD = 20

export function drawTimeline(context: CanvasRenderingContext2D, scene: Scene): void {
  const { width, height, theme, layout } = scene
  context.fillStyle = theme.panel
  context.fillRect(0, 0, width, height)
  const { step, marks } = drawGrid(context, scene)
  const pieces = new Map<number, Piece[]>()
  drawRegion(context, scene, visibleTracks(scene, false), HEAD + layout.fixed, height, -scene.scroll, pieces)
  if (layout.pinned.length > 0) {
    drawRegion(context, scene, layout.pinned, HEAD, HEAD + layout.fixed, 0, pieces)
    context.fillStyle = theme.mute
    context.fillRect(0, HEAD + layout.fixed - 1, width, 1)
  }
  drawArrows(context, scene)
  drawHead(context, scene, marks, step)
  if (scene.range) drawRange(context, scene, scene.range)
  drawFlags(context, scene, scene.failures, theme.highEdge)
  drawFlags(context, scene, scene.bookmarks, theme.accent)
  if (scene.cursor !== null) drawCursor(context, scene, scene.cursor)
}

/** Vertical axis lines; returns their positions. */
export function drawGrid(context: CanvasRenderingContext2D, scene: Stage): { step: number; marks: number[] } {
  const { width, height, theme } = scene
  context.textBaseline = 'middle'
  const { start, end } = scene.view
  context.font = FONT
  const wide = (step: number) => context.measureText(tickLabel(end, step, end)).width + LABEL_PAD
  const step = rulerStep((end - start) / Math.max(1, width - scene.gutter), wide)
  const marks = multiples(start, end, step)
  context.fillStyle = theme.line
  for (const mark of marks) context.fillRect(Math.round(toX(scene, mark)), HEAD, 1, height)
  return { step, marks }
}

/** Draws the tracks of a region; `pieces` caches tiles per picture. */
export function drawRegion(
  context: CanvasRenderingContext2D,
  scene: Scene,
  placed: readonly Placed[],
  top: number,
  bottom: number,
  shift: number,
  pieces: Map<number, Piece[]>,
): void {
  const { width, strip } = scene
  const wide = width - scene.gutter
  context.save()
  context.beginPath()
  context.rect(0, top, width, bottom - top)
  context.clip()
  if (shift !== 0 || placed === scene.layout.pinned) {
    // Hide scrolled ticks behind pinned tracks.
    context.fillStyle = scene.theme.panel
    if (placed === scene.layout.pinned) context.fillRect(0, top, width, bottom - top)
  }
  context.translate(0, top + shift)
  const ratio = window.devicePixelRatio || 1
  const pixels = Math.max(1, Math.round(wide * ratio))
  strip.begin(
    pixels,
    placed.reduce((sum, one) => sum + one.rows, 0),
  )
  for (const one of placed) drawTrack(context, scene, one, pixels, pieces)
  strip.draw(context, scene.gutter, wide, BAR)
  drawPath(context, scene, placed, -shift)
  drawMarks(context, scene, placed)
  for (const one of placed) drawTitle(context, scene, one)
  context.restore()
}

function drawTrack(
  context: CanvasRenderingContext2D,
  scene: Scene,
  placed: Placed,
  pixels: number,
  pieces: Map<number, Piece[]>,
): void {
  const { model, theme, width } = scene
  const { track } = placed
  context.save()
  context.beginPath()
  context.rect(scene.gutter, placed.top, width - scene.gutter, placed.height)
  context.clip()
  context.font = FONT
  if (track.kind === 'counter') {
    const series = scene.counters?.series[track.counter]
    if (scene.counters && series) {
      const box = { left: scene.gutter, right: width, top: placed.top + 4, bottom: placed.top + placed.height - 3 }
      drawCounter(context, scene.counters, series, (time) => toX(scene, time), box, theme)
    }
  } else {
    const { group, isDevice } = model.lanes[track.lane]
    let found = pieces.get(group)
    if (!found) {
      found = model.pieces(scene.level, group, scene.view)
      pieces.set(group, found)
    }
    drawMissing(context, scene, placed, found)
    for (let row = 0; row < placed.rows; row++) {
      const line = model.lineOf(track.lane, row)
      const at = scene.strip.row(rowTop(placed, row))
      for (const piece of found) drawLine(context, scene, piece, line, rowTop(placed, row), at, pixels, isDevice)
    }
    drawGaps(context, scene, track.lane, rowTop(placed, 0))
  }
  context.restore()
}

function drawLine(
  context: CanvasRenderingContext2D,
  scene: Scene,
  piece: Piece,
  line: number,
  y: number,
  strip: number,
  pixels: number,
  isDevice: boolean,
): void {
  const { tile } = piece
  if (!tile) return
  const { view, match, hitEvents, colors, width, model } = scene
  const { start, dur, idle, count } = tile
  const wide = width - scene.gutter
  const perNs = wide / (view.end - view.start)
  const fine = pixels / (view.end - view.start)
  const low = Math.max(piece.start, view.start)
  const high = Math.min(piece.end, view.end)
  const to = tile.ranges[line + 1]
  let last = Number.NEGATIVE_INFINITY
  for (let i = firstEndingAfter(tile, line, low); i < to && start[i] < high; i++) {
    // The previous tile has drawn items that started in it.
    if (piece.goesOn && start[i] < piece.start) continue
    if (colors.hides(tile, i)) continue
    const hit = hitEvents ? hitEvents.has(tile.event[i]) : match === null || match(tile.name[i])
    const merged = count[i] > 1
    let strength = merged ? 0.4 + 0.6 * (dur[i] > 0 ? Math.min(1, 1 - idle[i] / dur[i]) : 1) : 1
    if (!hit) strength = 0.15
    const look = colors.paint(colors.slot(tile, i), strength)
    const w = dur[i] * perNs
    if (dur[i] === 0 && !merged) {
      const x = toX(scene, start[i])
      if (x - last > 2 * MOMENT) {
        moment(context, x, y, look.fill)
        last = x
        continue
      }
    }
    if (w < NARROW) {
      const from = (start[i] - view.start) * fine
      scene.strip.put(strip, Math.floor(from), Math.round(from + dur[i] * fine), look.pixel)
      continue
    }
    const x = scene.gutter + (start[i] - view.start) * perNs
    const left = Math.max(x, scene.gutter - 4)
    const visible = Math.min(x + w - 1, width + 4) - left
    drawBox(context, left, y, visible, BAR, look, w < 24 ? '' : labelOf(model, tile, i, isDevice), scene.gutter)
    if (tile.matrix[i] === 1 && !merged && w > 12) badge(context, scene.theme, Math.min(x + w - 1, width), y)
  }
}

/** An instant as a diamond: a one-pixel box would look like a short event. */
function moment(context: CanvasRenderingContext2D, x: number, y: number, fill: string): void {
  const middle = y + BAR / 2
  context.fillStyle = fill
  context.beginPath()
  context.moveTo(x, middle - MOMENT - 2)
  context.lineTo(x + MOMENT, middle)
  context.lineTo(x, middle + MOMENT + 2)
  context.lineTo(x - MOMENT, middle)
  context.closePath()
  context.fill()
}

const short = new Map<string, string>()

function labelOf(model: TimelineModel, tile: Tile, i: number, isDevice: boolean): string {
  if (tile.count[i] > 1) return `${tile.count[i].toLocaleString('en-US')} events`
  const name = model.store.names.list[tile.name[i]]
  if (!isDevice && name[0] !== '/') return name
  let label = short.get(name)
  if (label === undefined) {
    label = isDevice ? shortKernel(name) : shortFrame(name)
    short.set(name, label)
  }
  return label
}

/** A corner mark for kernels that use matrix units. */
function badge(context: CanvasRenderingContext2D, theme: Theme, right: number, y: number): void {
  context.fillStyle = theme.matrix
  context.beginPath()
  context.moveTo(right - 6, y)
  context.lineTo(right, y)
  context.lineTo(right, y + 6)
  context.closePath()
  context.fill()
}

/** Hatches unloaded parts, so that they do not look idle. */
function drawMissing(context: CanvasRenderingContext2D, scene: Scene, placed: Placed, pieces: readonly Piece[]): void {
  for (const piece of pieces) {
    if (piece.tile) continue
    const from = Math.max(scene.gutter, toX(scene, piece.start))
    const to = Math.min(scene.width, toX(scene, piece.end))
    hatch(context, from, to, placed.top, placed.height, scene.theme.line)
  }
}

function drawTitle(context: CanvasRenderingContext2D, scene: Scene, placed: Placed): void {
  const { theme, width } = scene
  const { track, small, top, height } = placed
  context.fillStyle = theme.panel
  context.fillRect(0, top, scene.gutter, height)
  context.fillStyle = theme.line
  context.fillRect(0, top + height - 1, width, 1)
  context.fillRect(scene.gutter - 1, top, 1, height)
  const middle = small ? top + height / 2 : top + 14
  context.fillStyle = theme.mute
  context.beginPath()
  if (small) triangle(context, 9, middle - 4, 14, middle, 9, middle + 4)
  else triangle(context, 7, middle - 2.5, 15, middle - 2.5, 11, middle + 2.5)
  context.fill()
  context.font = FONT_TITLE
  context.fillStyle = theme.ink
  const room = scene.gutter - 28
  const [thread, ...holds] = track.title.split(' · ')
  // In a narrow column, what the track holds takes the second line.
  const isSplit = !small && holds.length > 0 && context.measureText(track.title).width > room
  const fits = track.kind !== 'counter' || context.measureText(track.title).width <= room
  const title = isSplit ? thread : fits ? track.title : narrowTitle(track.title)
  context.fillText(cutMiddle(context, title, room), 22, middle)
  const values = track.kind === 'counter' ? counterText(scene, track.counter) : ''
  const subtitle = isSplit ? holds.join(' · ') : values || track.subtitle
  if (!small && subtitle) {
    context.font = FONT
    context.fillStyle = theme.mute
    context.fillText(cutText(context, subtitle, room), 22, middle + 16)
  }
}

function counterText(scene: Scene, counter: number): string {
  const series = scene.counters?.series[counter]
  if (!scene.counters || !series) return ''
  const at = scene.cursor === null ? -1 : sliceAt(scene.counters, scene.cursor)
  const value = at < 0 ? null : series.mean[at]
  const text = rangeText(series, value)
  return series.subtitle === '' ? text : `${text} · ${series.subtitle}`
}
