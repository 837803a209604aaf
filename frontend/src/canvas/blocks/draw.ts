// Drawing of the active-memory timeline.
import type { Bands } from '../../api/payloads'
import { multiples, rulerStep, tickLabel } from '../../lib/axisTicks'
import { type Scale, scaleFor } from '../../lib/format'
import { FONT } from '../surface'
import type { Range } from '../viewport'
import { bytesBelow, columnsOf, indexOfBlock } from './layout'
import {
  type BlocksScene,
  BOTTOM,
  byteTicks,
  type HistoryLayer,
  LEFT,
  plotHeight,
  plotWidth,
  RIGHT,
  TOP,
  tileWidth,
  toX,
  toY,
} from './scene'
import type { TilePicture } from './tileStore'

/** A tile to draw up to `part`; its picture may be outdated. */
export interface DrawnTile {
  tile: Bands
  picture: TilePicture
  part: Range
}

export function drawBlocks(context: CanvasRenderingContext2D, scene: BlocksScene, drawn: readonly DrawnTile[]): void {
  const { theme, width, height } = scene
  context.fillStyle = theme.panel
  context.fillRect(0, 0, width, height)
  context.font = FONT
  context.textBaseline = 'middle'
  drawSteps(context, scene)
  context.save()
  context.beginPath()
  context.rect(LEFT, TOP, plotWidth(scene), plotHeight(scene))
  context.clip()
  context.imageSmoothingEnabled = false
  for (const one of drawn) drawTile(context, scene, one)
  drawGrid(context, scene)
  if (scene.hovered !== null && scene.hovered !== scene.selected) outline(context, scene, drawn, scene.hovered, false)
  if (scene.selected !== null) outline(context, scene, drawn, scene.selected, true)
  drawMarks(context, scene)
  context.restore()
  drawAxes(context, scene)
}

function drawTile(context: CanvasRenderingContext2D, scene: BlocksScene, { tile, picture, part }: DrawnTile): void {
  const start = tile.tile * tileWidth(tile.level)
  const columns = columnsOf(tile)
  const from = Math.max(part.start, scene.view.start, start)
  const to = Math.min(part.end, scene.view.end, start + columns * tile.width)
  if (to <= from) return
  const ratio = window.devicePixelRatio || 1
  const snap = (x: number) => Math.round(x * ratio) / ratio
  const [x0, x1] = [snap(toX(scene, from)), snap(toX(scene, to))]
  const { canvas, heights } = picture
  const [top, bottom] = [toY(scene, heights.high), toY(scene, heights.low)]
  context.drawImage(
    canvas,
    (from - start) / tile.width,
    0,
    (to - from) / tile.width,
    canvas.height,
    x0,
    top,
    Math.max(x1 - x0, 1 / ratio),
    bottom - top,
  )
}

/** The edge of a block over its visible life, across tiles. */
function outline(
  context: CanvasRenderingContext2D,
  scene: BlocksScene,
  drawn: readonly DrawnTile[],
  row: number,
  kept: boolean,
): void {
  context.fillStyle = context.strokeStyle = kept ? scene.theme.mark : scene.theme.ink
  context.lineWidth = kept ? 2 : 1
  for (const run of runsOf(scene, drawn, row)) {
    context.beginPath()
    for (const { from, to, high } of run) {
      context.lineTo(from, high)
      context.lineTo(to, high)
    }
    for (const { from, to, low } of run.reverse()) {
      context.lineTo(to, low)
      context.lineTo(from, low)
    }
    context.closePath()
    context.globalAlpha = 0.18
    context.fill()
    context.globalAlpha = 1
    context.stroke()
  }
}

interface Part {
  from: number
  to: number
  high: number
  low: number
}

/** The columns of a block that are seen, those that follow each other as one run. */
function runsOf(scene: BlocksScene, drawn: readonly DrawnTile[], row: number): Part[][] {
  const runs: Part[][] = []
  for (const { tile, part } of drawn) {
    const place = indexOfBlock(tile, row)
    if (place < 0) continue
    const ground = bytesBelow(tile, place)
    const size = tile.size_bytes[place]
    const start = tile.tile * tileWidth(tile.level) + tile.first[place] * tile.width
    const [first, end] = [Math.max(part.start, scene.view.start), Math.min(part.end, scene.view.end)]
    const low = Math.max(0, Math.floor((first - start) / tile.width))
    const high = Math.min(ground.length, Math.ceil((end - start) / tile.width))
    for (let c = low; c < high; c++) {
      const from = toX(scene, Math.max(part.start, start + c * tile.width))
      const to = toX(scene, Math.min(part.end, start + (c + 1) * tile.width))
      const one = { from, to, high: toY(scene, ground[c] + size), low: toY(scene, ground[c]) }
      const run = runs[runs.length - 1]
      if (run && Math.abs(run[run.length - 1].to - from) < 0.5) run.push(one)
      else runs.push([one])
    }
  }
  return runs
}

function drawGrid(context: CanvasRenderingContext2D, scene: BlocksScene): void {
  // Faint, because a light line would look like a block's edge.
  context.fillStyle = scene.theme.ink
  context.globalAlpha = 0.12
  for (const tick of heightsOf(scene).ticks) context.fillRect(LEFT, Math.round(toY(scene, tick)), plotWidth(scene), 1)
  context.globalAlpha = 1
}

function heightsOf(scene: BlocksScene): { ticks: number[]; step: number; scale: Scale } {
  const scale = scaleFor('bytes', scene.heights.high)
  return { ...byteTicks(scene.heights, scale.factor, plotHeight(scene) / 45), scale }
}

const TITLES: Record<HistoryLayer, string> = { '': 'Active', pools: 'Active and pools', segments: 'Reserved' }

/** Making one costs more than using it, and an axis is labelled anew in every frame. */
const NUMBER = new Intl.NumberFormat('en-US')
const count = (value: number) => NUMBER.format(value)

function drawAxes(context: CanvasRenderingContext2D, scene: BlocksScene): void {
  const { theme, width, height, view } = scene
  const bottom = height - BOTTOM
  const { ticks, step, scale } = heightsOf(scene)
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9))
  context.fillStyle = theme.mute
  context.textAlign = 'right'
  for (const tick of ticks) context.fillText((tick / scale.factor).toFixed(decimals), LEFT - 6, toY(scene, tick))
  context.textAlign = 'left'
  context.save()
  context.translate(9, (TOP + bottom) / 2)
  context.rotate(-Math.PI / 2)
  context.textAlign = 'center'
  context.fillText(`${TITLES[scene.layer]} (${scale.symbol})`, 0, 0)
  context.restore()
  context.fillStyle = theme.line
  context.fillRect(LEFT, bottom, plotWidth(scene), 1)
  context.fillStyle = theme.mute
  const span = view.end - view.start
  const distance = rulerStep(span / plotWidth(scene), () => 90)
  const off = scene.axis === 'events' ? 1 : 0 // state e + 1 is after event e
  context.textAlign = 'center'
  for (const tick of multiples(view.start - off, view.end - off, distance)) {
    const x = toX(scene, tick + off)
    context.fillRect(Math.round(x), bottom, 1, 4)
    // A multiple of 0 may be -0.
    const text = scene.axis === 'events' ? count(tick + 0) : tickLabel(tick, distance, view.end)
    if (x + 30 < width - RIGHT + 14 && x > LEFT + 10) context.fillText(text, x, bottom + 12)
  }
  context.textAlign = 'left'
}

function drawSteps(context: CanvasRenderingContext2D, scene: BlocksScene): void {
  const { theme, height } = scene
  for (const [i, step] of scene.marks.steps.entries()) {
    const from = Math.max(LEFT, toX(scene, step.start))
    const to = Math.min(LEFT + plotWidth(scene), toX(scene, step.end))
    if (to <= from) continue
    context.fillStyle = i % 2 === 0 ? theme.idle : theme.band
    context.fillRect(from, 2, Math.max(1, to - from), TOP - 4)
    context.fillStyle = theme.mute
    const room = to - from - 6
    const text = [`Step ${step.label}`, step.label].find((one) => context.measureText(one).width <= room)
    if (text) context.fillText(text, from + 3, TOP / 2)
    context.fillStyle = theme.line
    context.fillRect(from, 2, 1, height - BOTTOM - 2)
  }
}

function drawMarks(context: CanvasRenderingContext2D, scene: BlocksScene): void {
  const { theme, marks } = scene
  const bottom = TOP + plotHeight(scene)
  for (const { at } of marks.ooms) {
    const x = Math.round(toX(scene, at))
    if (x < LEFT - 5 || x > scene.width) continue
    context.fillStyle = theme.highEdge
    for (let y = TOP; y < bottom; y += 7) context.fillRect(x, y, 1, 4)
    context.beginPath()
    context.moveTo(x - 5, TOP)
    context.lineTo(x + 6, TOP)
    context.lineTo(x + 0.5, TOP + 8)
    context.fill()
  }
  if (marks.moment !== null) {
    const x = Math.round(toX(scene, marks.moment))
    context.fillStyle = theme.mark
    context.fillRect(x, TOP, 2, bottom - TOP)
  }
  if (scene.cursor && scene.cursor.x >= LEFT) {
    context.globalAlpha = 0.5
    context.fillStyle = theme.mute
    context.fillRect(Math.round(scene.cursor.x), TOP, 1, bottom - TOP)
    context.globalAlpha = 1
  }
}
