// Drawing of several ranks' sections.

import { cutMiddle, cutText, FONT, FONT_TITLE, hatch, triangle } from '../surface'
import type { Strip } from '../timeline/colors'
import { drawGrid, drawRegion } from '../timeline/draw'
import { drawCursor, drawFlags, drawHead, drawRange } from '../timeline/head'
import { HEAD } from '../timeline/layout'
import { firstEndingAfter, type Piece } from '../timeline/model'
import { drawArrows } from '../timeline/overlays'
import { type Scene, toX, visibleTracks as tracksInSight } from '../timeline/scene'
import { BUSY, COMMUNICATION, HOST_ROWS, workCategories } from './bars'
import { SECTION, visibleRange } from './layout'
import { drawActiveLink, drawLinks } from './links'
import { isEqualList, type RanksScene, type VisibleSection } from './scene'

export function drawRanks(context: CanvasRenderingContext2D, scene: RanksScene, bars: Strip): void {
  const { width, height, theme, scroll } = scene
  context.fillStyle = theme.panel
  context.fillRect(0, 0, width, height)
  const { step, marks } = drawGrid(context, scene)
  const [first, last] = visibleRange(scene.places, scroll, height - HEAD)
  const shown = scene.sections.slice(first, last)
  const tops = scene.places.slice(first, last).map(({ top }) => HEAD + top - scroll)
  context.save()
  context.beginPath()
  context.rect(0, HEAD, width, height - HEAD)
  context.clip()
  for (const top of tops) {
    context.fillStyle = theme.band
    context.fillRect(0, top, width, SECTION)
  }
  const pieces = shown.map(piecesOf)
  drawLinks(context, scene, [first, last], pieces)
  shown.forEach((one, i) => {
    drawTracks(context, one, tops[i], scene, pieces[i])
  })
  drawBars(context, scene, shown, tops, pieces, bars)
  shown.forEach((one, i) => {
    drawName(context, scene, one, tops[i])
  })
  drawActiveLink(context, scene, [first, last], pieces)
  for (const one of shown) if (one.scene && one.scene.arrows.length > 0) drawArrows(context, one.scene)
  context.restore()
  drawHead(context, scene, marks, step)
  if (scene.range) drawRange(context, scene, scene.range)
  drawFlags(context, scene, scene.bookmarks, scene.theme.accent)
  if (scene.cursor !== null) drawCursor(context, scene, scene.cursor)
}

function piecesOf({ scene, isOpen, overview }: VisibleSection): Map<number, Piece[]> {
  const pieces = new Map<number, Piece[]>()
  if (!scene || !isOpen) return pieces
  const { model, level, view } = scene
  const tracks = tracksInSight(scene, false).flatMap(({ track }) => (track.kind === 'lane' ? [track.lane] : []))
  for (const lane of [...tracks, ...overview]) {
    const { group } = model.lanes[lane]
    if (!pieces.has(group)) pieces.set(group, model.pieces(level, group, view))
  }
  return pieces
}

function drawTracks(
  context: CanvasRenderingContext2D,
  { scene, isOpen }: VisibleSection,
  top: number,
  { height }: RanksScene,
  pieces: Map<number, Piece[]>,
): void {
  if (!scene || !isOpen) return
  const from = Math.max(HEAD, top + SECTION)
  drawRegion(context, scene, tracksInSight(scene, false), from, height, HEAD - from - scene.scroll, pieces)
}

/** Busy and communication bars of all visible sections in one image. */
function drawBars(
  context: CanvasRenderingContext2D,
  scene: RanksScene,
  shown: readonly VisibleSection[],
  tops: readonly number[],
  pieces: readonly Map<number, Piece[]>[],
  bars: Strip,
): void {
  const wide = scene.width - scene.gutter
  const pixels = Math.max(1, Math.round(wide * (window.devicePixelRatio || 1)))
  bars.begin(pixels, shown.length * 2)
  shown.forEach((one, i) => {
    if (!one.scene) return
    const rows = [bars.row(tops[i] + BUSY.top), bars.row(tops[i] + COMMUNICATION)]
    const { view, level, colors, match, model } = one.scene
    const isHost = !model.head.busy_is_device
    const of = [view.start, view.end, level, pixels, colors, match, model.store.version, isHost && scene.collectives]
    const isAgain = one.drawn !== null && isEqualList(one.drawn.of, of)
    if (isAgain && one.drawn?.pixels) {
      bars.paste(rows[0], one.drawn.pixels)
      return
    }
    const isWhole = fillBars(context, one.scene, one.overview, pieces[i], bars, rows, pixels, tops[i])
    if (isHost) putCalls(scene, one, bars, rows[1], pixels)
    one.drawn = isWhole ? { of, pixels: isAgain ? bars.copy(rows.length) : null } : null
  })
  bars.draw(context, scene.gutter, wide, BUSY.height)
}

/** Gives whether every tile was there. */
function fillBars(
  context: CanvasRenderingContext2D,
  scene: Scene,
  lanes: readonly number[],
  pieces: Map<number, Piece[]>,
  bars: Strip,
  rows: readonly number[],
  pixels: number,
  top: number,
): boolean {
  const { model, view, colors, match } = scene
  let isWhole = true
  const communication = model.head.categories.indexOf('communication')
  const work = workCategories(model.head)
  const fine = pixels / (view.end - view.start)
  for (const lane of lanes) {
    const { group, rows: deep, isDevice } = model.lanes[lane]
    let found = pieces.get(group)
    if (!found) {
      found = model.pieces(scene.level, group, view)
      pieces.set(group, found)
    }
    for (const { tile, start: from, end: until, goesOn } of found) {
      if (!tile) {
        const [x0, x1] = [Math.max(scene.gutter, toX(scene, from)), Math.min(scene.width, toX(scene, until))]
        isWhole = false
        hatch(context, x0, x1, top + BUSY.top, BUSY.height, scene.theme.line)
        continue
      }
      const { start, dur, idle, count } = tile
      const [low, high] = [Math.max(from, view.start), Math.min(until, view.end)]
      const last = (isDevice ? deep : Math.min(deep, HOST_ROWS)) - 1
      for (let at = 0; at <= last; at++) {
        // The outermost CPU work is drawn last, over its parts.
        const line = model.lineOf(lane, isDevice ? at : last - at)
        const to = tile.ranges[line + 1]
        for (let i = firstEndingAfter(tile, line, low); i < to && start[i] < high; i++) {
          if (goesOn && start[i] < from) continue
          if ((!isDevice && !work[tile.category[i]]) || colors.hides(tile, i)) continue
          const full = count[i] > 1 && dur[i] > 0 ? 0.4 + 0.6 * Math.min(1, 1 - idle[i] / dur[i]) : 1
          const strength = match === null || match(tile.name[i]) ? full : 0.15
          const bar = tile.category[i] === communication ? rows[1] : rows[0]
          const left = (start[i] - view.start) * fine
          bars.put(
            bar,
            Math.floor(left),
            Math.round(left + dur[i] * fine),
            colors.paint(colors.slot(tile, i), strength).pixel,
          )
        }
      }
    }
  }
  return isWhole
}

/** Host communication, drawn from collectives because events do not identify it. */
function putCalls(
  { collectives }: RanksScene,
  { section, scene }: VisibleSection,
  bars: Strip,
  row: number,
  pixels: number,
): void {
  if (!scene) return
  const { view, model, colors } = scene
  const fine = pixels / (view.end - view.start)
  const pixel = colors.paint(model.head.categories.indexOf('communication'), 1).pixel
  for (const { calls } of collectives)
    for (const { rank, start, end } of calls)
      if (rank === section.key && end >= view.start && start <= view.end)
        bars.put(row, Math.floor((start - view.start) * fine), Math.round((end - view.start) * fine), pixel)
}

export function drawName(
  context: CanvasRenderingContext2D,
  scene: Pick<RanksScene, 'theme' | 'width' | 'gutter'>,
  { section, isOpen }: Pick<VisibleSection, 'section' | 'isOpen'>,
  top: number,
): void {
  const { theme, width, gutter } = scene
  context.fillStyle = theme.band
  context.fillRect(0, top, gutter, SECTION)
  context.fillStyle = isOpen ? theme.mute : theme.line
  context.fillRect(0, top, width, 1)
  context.fillStyle = theme.line
  context.fillRect(0, top + SECTION - 1, width, 1)
  context.fillRect(gutter - 1, top, 1, SECTION)
  const middle = top + SECTION / 2
  context.fillStyle = theme.mute
  context.beginPath()
  if (isOpen) triangle(context, 7, middle - 2.5, 15, middle - 2.5, 11, middle + 2.5)
  else triangle(context, 9, middle - 4, 14, middle, 9, middle + 4)
  context.fill()
  context.font = FONT_TITLE
  context.fillStyle = theme.ink
  const title = cutMiddle(context, section.title, gutter - 28)
  const left = 22 + context.measureText(title).width + 8
  context.font = FONT
  // Text that does not fit next to the name goes below it.
  const isBeside = section.subtitle === '' || context.measureText(section.subtitle).width <= gutter - left - 8
  context.font = FONT_TITLE
  context.fillText(title, 22, isBeside ? middle : middle - 5)
  context.font = FONT
  context.fillStyle = theme.mute
  if (isBeside) context.fillText(section.subtitle, left, middle)
  else context.fillText(cutText(context, section.subtitle, gutter - 32), 22, middle + 8)
  if (section.note === '') return
  context.fillStyle = section.isFailed ? theme.high : theme.mute
  context.fillText(cutText(context, section.note, width - gutter - 20), gutter + 10, middle)
}
