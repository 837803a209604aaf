// Icicle chart: roots on top, children below in proportion of one value.
import { box, FONT, paint, type Theme } from './surface'

export interface IcicleNode {
  label: string
  parent: number
  value: number
  category: string
}

export interface IcicleModel {
  nodes: readonly IcicleNode[]
  depth: Int32Array
  /** Left edge and width in units of the value. */
  left: Float64Array
  width: Float64Array
  total: number
  levels: number
  children: number[][]
  roots: number[]
}

export const LEVEL = 22

/** Neighbouring levels differ a little, and none stands out. */
const SHADES = [1, 0.88, 0.75, 0.63, 0.75, 0.88]

/** Nodes come in pre-order. A node is at least as wide as its children together. */
export function icicleOf(nodes: readonly IcicleNode[]): IcicleModel {
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
  for (let i = n - 1; i >= 0; i--) {
    let sum = 0
    for (const child of children[i]) sum += width[child]
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
  return { nodes, depth, left, width, total, levels: n === 0 ? 0 : Math.max(...depth) + 1, children, roots }
}

export interface IcicleScene {
  model: IcicleModel
  /** Which nodes a search found; the others fade. null = nothing is searched. */
  found: readonly boolean[] | null
  /** Node that fills the width; -1 = all roots. */
  zoom: number
  selected: number
  hover: number
  width: number
  theme: Theme
}

const frameOf = ({ model, zoom }: IcicleScene): [number, number] =>
  zoom < 0 ? [0, model.total] : [model.left[zoom], model.width[zoom]]

function isAncestor(model: IcicleModel, ancestor: number, node: number): boolean {
  for (let at = node; at >= 0; at = model.nodes[at].parent) if (at === ancestor) return true
  return false
}

const FADED = 0.25

/** How strong a node's colour is (0..1): the found ones stand out, what is above the zoomed one steps back. */
export function strengthOf({ model, found }: IcicleScene, node: number, above: boolean): number {
  if (found) return found[node] ? 1 : FADED
  return above ? 0.4 : SHADES[model.depth[node] % SHADES.length]
}

export function drawIcicle(context: CanvasRenderingContext2D, scene: IcicleScene, height: number): void {
  const { model, theme, width, zoom } = scene
  context.fillStyle = theme.panel
  context.fillRect(0, 0, width, height)
  context.font = FONT
  context.textBaseline = 'middle'
  const [from, span] = frameOf(scene)
  if (span <= 0) return
  const scale = width / span
  for (let i = 0; i < model.nodes.length; i++) {
    const above = zoom >= 0 && i !== zoom && isAncestor(model, i, zoom)
    const x = above ? 0 : (model.left[i] - from) * scale
    const w = above ? width : model.width[i] * scale
    if (x + w < 0.5 || x > width || w < 0.4) continue
    const y = model.depth[i] * LEVEL
    const left = Math.max(0, x)
    const visible = Math.min(width, x + w) - left
    box(
      context,
      left,
      y,
      Math.max(0.6, visible - 1),
      LEVEL - 2,
      paint(model.nodes[i].category, strengthOf(scene, i, above), theme),
      model.nodes[i].label,
    )
    if (i === scene.selected || i === scene.hover) {
      context.strokeStyle = i === scene.selected ? theme.mark : theme.ink
      context.lineWidth = i === scene.selected ? 2 : 1
      context.strokeRect(left + 1, y + 1, Math.max(1, visible - 3), LEVEL - 4)
    }
  }
}

export function nodeAt(scene: IcicleScene, x: number, y: number): number {
  const { model, zoom, width } = scene
  const level = Math.floor(y / LEVEL)
  const [from, span] = frameOf(scene)
  const at = from + (x / width) * span
  for (let i = 0; i < model.nodes.length; i++) {
    if (model.depth[i] !== level) continue
    if (zoom >= 0 && i !== zoom && isAncestor(model, i, zoom)) return i
    if (at >= model.left[i] && at < model.left[i] + model.width[i]) return i
  }
  return -1
}

/** The neighbour that an arrow key means. */
export function neighbour(model: IcicleModel, from: number, key: string): number {
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
