// Flame graph: roots at the top, width by one value.
import { boxColors, drawBox, FONT, type Theme } from './surface'

interface FlameNode {
  label: string
  parent: number
  value: number
  category: string
}

interface FlameModel {
  nodes: readonly FlameNode[]
  depth: Int32Array
  /** Left edge and width in units of the value. */
  left: Float64Array
  width: Float64Array
  total: number
  /** Behind the last node beneath each. */
  last: Int32Array
  height: Int32Array
  levels: number
  children: number[][]
  roots: number[]
}

export const LEVEL = 22

const SHADES = [1, 0.88, 0.75, 0.63, 0.75, 0.88]

/** Nodes come in pre-order. A node is at least as wide as its children together. */
export function flameModel(nodes: readonly FlameNode[]): FlameModel {
  const n = nodes.length
  const depth = new Int32Array(n)
  const width = new Float64Array(n)
  const left = new Float64Array(n)
  const children: number[][] = Array.from({ length: n }, () => [])
  const roots: number[] = []
  for (let i = 0; i < n; i++) {
    const parent = nodes[i].parent
    if (parent < 0) roots.push(i)
    else {
      children[parent].push(i)
      depth[i] = depth[parent] + 1
    }
  }
  const last = new Int32Array(n)
  const height = new Int32Array(n)
  for (let i = n - 1; i >= 0; i--) {
    let sum = 0
    last[i] = i + 1
    height[i] = 1
    for (const child of children[i]) {
      sum += width[child]
      last[i] = Math.max(last[i], last[child])
      height[i] = Math.max(height[i], height[child] + 1)
    }
    width[i] = Math.max(0, nodes[i].value, sum)
  }
  let total = 0
  for (const root of roots) {
    left[root] = total
    total += width[root]
  }
  for (let i = 0; i < n; i++) {
    let at = left[i]
    for (const child of children[i]) {
      left[child] = at
      at += width[child]
    }
  }
  const levels = roots.reduce((most, root) => Math.max(most, height[root]), 0)
  return { nodes, depth, left, width, total, last, height, levels, children, roots }
}

interface FlameScene {
  model: FlameModel
  /** Search hits; other nodes fade. null = no search. */
  found: readonly boolean[] | null
  /** Node that fills the width; -1 = all roots. */
  zoom: number
  selected: number
  hover: number
  width: number
  theme: Theme
}

const frameOf = ({ model, zoom }: Pick<FlameScene, 'model' | 'zoom'>): [number, number] =>
  zoom < 0 ? [0, model.total] : [model.left[zoom], model.width[zoom]]

/** The first level shown, and whether a line for the parents is above it. */
function topOf({ model, zoom }: Pick<FlameScene, 'model' | 'zoom'>): { first: number; line: number } {
  const first = zoom < 0 ? 0 : model.depth[zoom]
  return { first, line: first > 0 ? 1 : 0 }
}

export function lineCount(model: FlameModel, zoom: number): number {
  return zoom < 0 ? model.levels : model.height[zoom] + topOf({ model, zoom }).line
}

/** The line of a node, from 0; -1 if the zoom hides it. */
export function lineOf(model: FlameModel, zoom: number, node: number): number {
  if (zoom >= 0 && (node < zoom || node >= model.last[zoom])) return -1
  const { first, line } = topOf({ model, zoom })
  return model.depth[node] - first + line
}

/** The line above a zoomed node: its parents, nearest first. */
export function parentsText(model: FlameModel, zoom: number): string {
  const names: string[] = []
  for (let at = model.nodes[zoom].parent; at >= 0; at = model.nodes[at].parent) names.push(model.nodes[at].label)
  return `\u25b2 ${names.length} ${names.length === 1 ? 'frame' : 'frames'} above: ${names.join(' \u2039 ')}`
}

const FADED = 0.25

/** Colour strength (0..1); search hits are strongest. */
export function colorStrength({ model, found }: FlameScene, node: number): number {
  return found ? (found[node] ? 1 : FADED) : SHADES[model.depth[node] % SHADES.length]
}

/** A chosen node is at least so wide: a search goes to it however little time it has. */
const CHOSEN_WIDTH = 3

export function drawFlameGraph(context: CanvasRenderingContext2D, scene: FlameScene, height: number): void {
  const { model, theme, width, zoom } = scene
  context.fillStyle = theme.panel
  context.fillRect(0, 0, width, height)
  context.font = FONT
  context.textBaseline = 'middle'
  const [from, span] = frameOf(scene)
  if (span <= 0) return
  const scale = width / span
  const { first, line } = topOf(scene)
  if (line) drawBox(context, 0, 0, width - 1, LEVEL - 2, boxColors('other', AROUND, theme), parentsText(model, zoom))
  const [begin, end] = zoom < 0 ? [0, model.nodes.length] : [zoom, model.last[zoom]]
  for (let i = begin; i < end; i++) {
    const x = (model.left[i] - from) * scale
    const w = model.width[i] * scale
    const marked = i === scene.selected || i === scene.hover
    if (w < 0.4 && !marked) continue
    const y = (model.depth[i] - first + line) * LEVEL
    const colors = boxColors(model.nodes[i].category, colorStrength(scene, i), theme)
    drawBox(context, x, y, Math.max(0.6, w - 1), LEVEL - 2, colors, model.nodes[i].label)
  }
  for (const node of [scene.hover, scene.selected]) {
    const at = node < 0 ? -1 : lineOf(model, zoom, node)
    if (at < 0) continue
    const x = Math.min((model.left[node] - from) * scale, width - CHOSEN_WIDTH)
    context.strokeStyle = node === scene.selected ? theme.mark : theme.ink
    context.lineWidth = node === scene.selected ? 2 : 1
    const w = Math.max(CHOSEN_WIDTH, model.width[node] * scale - 3)
    context.strokeRect(x + 1, at * LEVEL + 1, w, LEVEL - 4)
  }
}

const AROUND = 0.3

/** The node at a point; on the line above a zoomed one, the one around it. */
export function nodeAt(scene: Pick<FlameScene, 'model' | 'zoom' | 'width'>, x: number, y: number): number {
  const { model, zoom, width } = scene
  const { first, line } = topOf(scene)
  const level = Math.floor(y / LEVEL) - line + first
  if (level < first) return zoom < 0 ? -1 : model.nodes[zoom].parent
  const [from, span] = frameOf(scene)
  const at = from + (x / width) * span
  const [begin, end] = zoom < 0 ? [0, model.nodes.length] : [zoom, model.last[zoom]]
  for (let i = begin; i < end; i++) {
    if (model.depth[i] === level && at >= model.left[i] && at < model.left[i] + model.width[i]) return i
  }
  return -1
}

export function neighbour(model: FlameModel, from: number, key: string): number {
  if (from < 0) return model.roots[0] ?? -1
  const parent = model.nodes[from].parent
  const siblings = parent < 0 ? model.roots : model.children[parent]
  const place = siblings.indexOf(from)
  if (key === 'ArrowDown') return model.children[from][0] ?? from
  if (key === 'ArrowUp') return parent < 0 ? from : parent
  if (key === 'ArrowRight') return siblings[place + 1] ?? from
  if (key === 'ArrowLeft') return siblings[place - 1] ?? from
  return from
}
