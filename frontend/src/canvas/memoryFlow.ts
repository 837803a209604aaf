// Tensors as rectangles over address and time.
import type { MemoryFlowMap } from '../api/payloads'
import { formatMark, scaleFor } from '../lib/format'
import { boxColors, cutText, drawBox, FONT, type Theme } from './surface'

/** Margins of a curve, so that both share an axis. */
export const SIDE = { left: 62, right: 18 }
const TOP = 4
const LEAST = 1.5
/** A pointer this near to a small rectangle means it. */
const NEAR = 3
const LABEL_HEIGHT = 12
const LABEL_WIDTH = 48
const LABEL_COVERS = 130
/** Operators with a colour of their own; the others share one. */
export const COLORED = 8
/** Lives in nanoseconds up to which a rectangle is so strong: a longer life is a stronger colour. */
export const LIVES: readonly [number, number][] = [
  [1e4, 0.25],
  [1e5, 0.375],
  [1e6, 0.5],
  [1e7, 0.625],
  [1e8, 0.75],
  [1e9, 0.875],
  [Number.POSITIVE_INFINITY, 1],
]

interface Rectangle {
  x: number
  y: number
  width: number
  height: number
}

interface FlowFrame {
  flow: MemoryFlowMap
  width: number
  height: number
}

/** The two axes of a picture: from pixels to time and place, and back. */
export class FlowAxes {
  private readonly perNs: number
  private readonly perByte: number

  constructor(private readonly frame: FlowFrame) {
    const { flow, width, height } = frame
    this.perNs = Math.max(1, width - SIDE.left - SIDE.right) / Math.max(1, flow.end_ns - flow.start_ns)
    this.perByte = Math.max(1, height - 2 * TOP) / Math.max(1, flow.high_bytes - flow.low_bytes)
  }

  x(ns: number): number {
    const { start_ns, end_ns } = this.frame.flow
    return SIDE.left + (Math.min(Math.max(ns, start_ns), end_ns) - start_ns) * this.perNs
  }

  y(place: number): number {
    const { low_bytes, high_bytes } = this.frame.flow
    return TOP + (Math.min(Math.max(place, low_bytes), high_bytes) - low_bytes) * this.perByte
  }

  timeAt(x: number): number {
    const { start_ns, end_ns } = this.frame.flow
    return Math.round(Math.min(end_ns, Math.max(start_ns, start_ns + (x - SIDE.left) / this.perNs)))
  }

  placeAt(y: number): number {
    const { low_bytes, high_bytes } = this.frame.flow
    return Math.round(Math.min(high_bytes, Math.max(low_bytes, low_bytes + (y - TOP) / this.perByte)))
  }

  rectangle(i: number): Rectangle {
    const { flow } = this.frame
    const [x, end] = [this.x(flow.created_ns[i]), this.x(flow.released_ns[i])]
    const [y, low] = [this.y(flow.offset[i]), this.y(flow.offset[i] + flow.size_bytes[i])]
    return { x, y, width: Math.max(LEAST, end - x), height: Math.max(LEAST, low - y) }
  }
}

/** Large tensors first, so that small ones stay visible; views after their base. */
export function drawingOrder(flow: MemoryFlowMap): number[] {
  return flow.row.map((_, i) => i).sort((a, b) => flow.size_bytes[b] - flow.size_bytes[a] || a - b)
}

/** The tensor at a point: of those that are drawn there the topmost; else a small one near by. -1 = none. */
export function tensorAt(axes: FlowAxes, order: readonly number[], x: number, y: number): number {
  let [nearest, distance] = [-1, NEAR]
  for (let at = order.length - 1; at >= 0; at--) {
    const i = order[at]
    const box = axes.rectangle(i)
    const dx = Math.max(box.x - x, x - box.x - box.width, 0)
    const dy = Math.max(box.y - y, y - box.y - box.height, 0)
    const away = Math.max(dx, dy)
    if (away === 0 && nearest < 0) return i
    if (away < distance && Math.min(box.width, box.height) < 2 * NEAR) [nearest, distance] = [i, away]
    if (away === 0) return nearest
  }
  return nearest
}

/** The next tensor from a chosen one: left and right in order of time, up and down the nearest one that is there with it. */
export function neighbour(flow: MemoryFlowMap, from: number, key: string): number {
  const count = flow.row.length
  if (count === 0) return -1
  if (from < 0) return 0
  if (key === 'ArrowLeft' || key === 'ArrowRight') {
    return Math.min(count - 1, Math.max(0, from + (key === 'ArrowRight' ? 1 : -1)))
  }
  const down = key === 'ArrowDown'
  let best = from
  for (let i = 0; i < count; i++) {
    const together = flow.created_ns[i] < flow.released_ns[from] && flow.released_ns[i] > flow.created_ns[from]
    if (i === from || !together) continue
    const [ahead, of] = [before(flow, down ? from : i, down ? i : from), best === from]
    if (ahead && (of || before(flow, down ? i : best, down ? best : i))) best = i
  }
  return best
}

const before = (flow: MemoryFlowMap, a: number, b: number) =>
  flow.offset[a] < flow.offset[b] || (flow.offset[a] === flow.offset[b] && a < b)

/** The address of a place on the axis; null between regions. */
export function addressAt(flow: MemoryFlowMap, place: number): string | null {
  for (let i = flow.region_offset.length - 1; i >= 0; i--) {
    const inside = place - flow.region_offset[i]
    if (inside < 0) continue
    return inside <= flow.region_bytes[i] ? `0x${(BigInt(flow.region_address[i]) + BigInt(inside)).toString(16)}` : null
  }
  return null
}

export const operatorColor = (operator: number) => (operator < COLORED ? `slice${operator}` : 'rest')

const strengthOf = (life: number) => LIVES.find(([most]) => life <= most)?.[1] ?? 1

/** Tensors whose label is not covered by a later rectangle. */
export function tensorsWithLabels(axes: FlowAxes, order: readonly number[]): Set<number> {
  const found = new Set<number>()
  order.forEach((i, at) => {
    const box = axes.rectangle(i)
    if (box.width <= LABEL_WIDTH || box.height <= LABEL_HEIGHT) return
    const [end, middle] = [box.x + Math.min(box.width, LABEL_COVERS), box.y + box.height / 2]
    for (let later = at + 1; later < order.length; later++) {
      const over = axes.rectangle(order[later])
      const isAside = over.x >= end || over.x + over.width <= box.x
      if (!isAside && over.y < middle + LABEL_HEIGHT / 2 && over.y + over.height > middle - LABEL_HEIGHT / 2) return
    }
    found.add(i)
  })
  return found
}

interface FlowScene extends FlowFrame {
  order: readonly number[]
  labels: ReadonlySet<number>
  theme: Theme
  byLife: boolean
  hover: number
  selected: number
  moment: number
}

export function drawFlow(context: CanvasRenderingContext2D, scene: FlowScene): void {
  const { flow, theme, width, height, order, labels, byLife, hover, selected, moment } = scene
  const axes = new FlowAxes(scene)
  context.fillStyle = theme.panel
  context.fillRect(0, 0, width, height)
  context.font = FONT
  context.textBaseline = 'middle'
  drawRegions(context, scene, axes)
  drawCells(context, scene)
  for (const i of order) {
    const at = axes.rectangle(i)
    const color = byLife
      ? boxColors('kernel', strengthOf(flow.released_ns[i] - flow.created_ns[i]), theme)
      : boxColors(operatorColor(flow.operator[i]), 0.875, theme)
    const isRoomy = at.width > 4 && at.height > 4
    const label = labels.has(i) ? flow.tensors[flow.tensor[i]] || '(no name)' : ''
    if (isRoomy) {
      context.fillStyle = theme.panel
      context.fillRect(at.x, at.y, at.width, at.height)
    }
    drawBox(context, at.x, at.y, at.width - (isRoomy ? 1 : 0), at.height - (isRoomy ? 1 : 0), color, label)
  }
  context.fillStyle = theme.mark
  if (moment >= flow.start_ns && moment <= flow.end_ns) context.fillRect(axes.x(moment) - 0.5, 0, 1, height)
  for (const [i, isChosen] of [
    [hover, false],
    [selected, true],
  ] as const) {
    if (i < 0) continue
    const at = axes.rectangle(i)
    context.strokeStyle = isChosen ? theme.mark : theme.ink
    context.lineWidth = isChosen ? 2 : 1
    context.strokeRect(at.x - 0.5, at.y - 0.5, at.width + 1, at.height + 1)
  }
}

/** Cells for tensors too small to draw one by one. */
function drawCells(context: CanvasRenderingContext2D, { flow, theme, width, height }: FlowScene): void {
  const [x, y] = [(width - SIDE.left - SIDE.right) / flow.cell_columns, (height - 2 * TOP) / flow.cell_rows]
  context.fillStyle = boxColors('rest', 0.5, theme).fill
  flow.cell_column.forEach((column, i) => {
    const rows = flow.cell_end[i] - flow.cell_first[i]
    context.fillRect(SIDE.left + column * x, TOP + flow.cell_first[i] * y, x, rows * y)
  })
}

function drawRegions(context: CanvasRenderingContext2D, scene: FlowScene, axes: FlowAxes): void {
  const { flow, theme, width, height } = scene
  const [least, rows] = [(flow.high_bytes - flow.low_bytes) / Math.max(1, height / 46), []] as [number, number[]]
  let step = 1
  while (step < least) step *= 2
  const scale = scaleFor('bytes', Math.max(...flow.region_bytes, 1))
  flow.region_offset.forEach((offset, i) => {
    const end = offset + flow.region_bytes[i]
    if (end < flow.low_bytes || offset > flow.high_bytes) return
    const [top, bottom] = [axes.y(offset), axes.y(end)]
    context.fillStyle = theme.idle
    context.fillRect(SIDE.left, top, width - SIDE.left - SIDE.right, Math.max(1, bottom - top))
    context.fillStyle = theme.mute
    const first = Math.max(0, Math.ceil((flow.low_bytes - offset) / step)) * step
    for (let at = first; at <= flow.region_bytes[i] && offset + at <= flow.high_bytes; at += step) {
      const y = axes.y(offset + at)
      if (rows.some((other) => Math.abs(other - y) < 15)) continue
      rows.push(y)
      const text = formatMark(at, step, scale)
      context.textAlign = 'right'
      context.fillText(cutText(context, text, SIDE.left - 8), SIDE.left - 6, Math.min(height - 7, Math.max(7, y)))
    }
    context.textAlign = 'left'
  })
}
