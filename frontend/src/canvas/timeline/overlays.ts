// Drawing of overlays: idle gaps, critical path, highlighted events, arrows.

import { format } from '../../lib/format'
import { boxColors, cutText, hatch, triangle } from '../surface'
import { BAR, HEAD, type Placed, rowTop } from './layout'
import type { Spot } from './model'
import { curveOf, pathSpan, type Scene, toX } from './scene'

/** Height of a mark of the critical path. */
const PATH = 3

export function drawGaps(context: CanvasRenderingContext2D, scene: Scene, lane: number, y: number): void {
  for (const gap of scene.gaps) {
    if (gap.lane !== lane || gap.end < scene.view.start || gap.start > scene.view.end) continue
    const from = Math.max(scene.gutter, toX(scene, gap.start))
    const to = Math.min(scene.width, toX(scene, gap.end))
    if (to - from < 2) continue
    hatch(context, from, to, y, BAR, boxColors(gap.cause || 'wait', 0.55, scene.theme).fill)
    const text =
      to - from > 40 ? cutText(context, `${format(gap.end - gap.start, 'ns')} ${gap.why}`, to - from - 10) : ''
    if (text === '') continue
    const wide = context.measureText(text).width
    context.fillStyle = scene.theme.panel
    context.fillRect(from + 3, y + 1, wide + 4, BAR - 2)
    context.fillStyle = scene.theme.ink
    context.fillText(text, from + 5, y + BAR / 2 + 0.5)
  }
}

/**
 * The critical path: along the top of its tracks and, if its rows are known, below its events. `top`: where the visible
 * part of the region starts.
 */
export function drawPath(
  context: CanvasRenderingContext2D,
  scene: Scene,
  placed: readonly Placed[],
  top: number,
): void {
  if (scene.path.length === 0) return
  const tops = placedLanes(placed)
  context.fillStyle = scene.theme.path
  for (const mark of scene.path) {
    const one = tops.get(mark.lane)
    if (!one) continue
    const span = pathSpan(scene, mark)
    if (!span) continue
    const [from, to] = span
    context.fillRect(from, Math.max(one.top + 1, top), to - from, PATH)
    if (mark.row !== null && mark.row < one.rows)
      context.fillRect(from, rowTop(one, mark.row) + BAR - 1, to - from, PATH)
  }
}

const placedLanes = (placed: readonly Placed[]) =>
  new Map(placed.flatMap((one) => (one.track.kind === 'lane' ? [[one.track.lane, one] as const] : [])))

/** Highlights hits, the hovered and the selected event. */
export function drawMarks(context: CanvasRenderingContext2D, scene: Scene, placed: readonly Placed[]): void {
  const tops = placedLanes(placed)
  const outline = (spot: Spot, color: string, line: number, away = 0) => {
    const one = tops.get(spot.lane)
    if (!one || spot.row >= one.rows || spot.end < scene.view.start || spot.start > scene.view.end) return
    const from = Math.max(scene.gutter - 3, toX(scene, spot.start))
    const to = Math.min(scene.width + 3, toX(scene, spot.end))
    context.strokeStyle = color
    context.lineWidth = line
    const [x, y, wide] = [from - line / 2 - away, rowTop(one, spot.row) - line / 2 - away, Math.max(2, to - from)]
    context.strokeRect(x, y, wide + line - 1 + 2 * away, BAR + line + 2 * away)
  }
  context.save()
  context.beginPath()
  context.rect(scene.gutter, -1e6, scene.width - scene.gutter, 2e6)
  context.clip()
  for (const hit of scene.hits) outline(hit, scene.theme.mark, 1)
  for (const spot of scene.picked) outline(spot, scene.theme.mark, 2)
  const { hover, selected } = scene
  if (hover) outline({ ...hover, end: hover.start + hover.dur }, scene.theme.ink, 1)
  if (selected) {
    outline(selected, scene.theme.mark, 2)
    // The selected hit has two frames.
    outline(selected, scene.theme.ink, 1, 2)
  }
  context.restore()
}

const ARROW: Record<string, string> = {
  launch: 'kernel',
  forward_backward: 'module',
  sync: 'sync',
  recorded: 'operator',
}

/** Curves between events. */
export function drawArrows(context: CanvasRenderingContext2D, scene: Scene): void {
  if (scene.arrows.length === 0) return
  context.save()
  context.beginPath()
  context.rect(scene.gutter, HEAD, scene.width - scene.gutter, scene.height - HEAD)
  context.clip()
  context.lineWidth = 1.5
  for (const arrow of scene.arrows) {
    const curve = curveOf(scene, arrow)
    if (curve === null) continue
    const { x0, y0: a, x1, y1: b, bend } = curve
    context.strokeStyle = boxColors(ARROW[arrow.kind] ?? 'other', 1, scene.theme).fill
    context.beginPath()
    context.moveTo(x0, a)
    context.bezierCurveTo(x0 + bend, a, x1 - bend, b, x1 - 1, b)
    context.stroke()
    context.fillStyle = context.strokeStyle
    context.beginPath()
    triangle(context, x1 - 6, b - 3.5, x1, b, x1 - 6, b + 3.5)
    context.fill()
  }
  context.restore()
}
