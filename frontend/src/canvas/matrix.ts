// A matrix of numbers as coloured cells.
import { categoryColor, inkOn, mix } from '../lib/color'
import { type Band, type Domain, foldLines, largestOf, type Matrix, partOf, spreadLabels } from '../lib/rankMatrix'
import { cutDistinct, cutText, FONT, type Theme } from './surface'

const AXIS = 20
const BANDS = 18
const RIGHT = 2
/** From the cells to the name of a marked row. */
const MARK = 18
export const MAX_ROW_HEIGHT = 22
const SHADES = 256
/** Opacity of nothing: a cell with a value is never quite the surface. */
const FAINT = 0.06
const LINE = 14
const NUMBER_HEIGHT = 13
/** Pixels of a digit at most. */
const DIGIT = 7
const GAP = 10

interface MatrixLayout {
  left: number
  top: number
  width: number
  /** Pixels right of the cells for names of marked rows. */
  right: number
  height: number
  /** First row of each line of pixels that is drawn, and the end; so of the columns. */
  rowFold: number[]
  columnFold: number[]
}

interface MatrixScene {
  matrix: Matrix
  layout: MatrixLayout
  domain: Domain
  category: string
  axis: string
  theme: Theme
  textOf: (value: number) => string
  selected: number
  hover: number
}

export function layoutOf(
  matrix: Matrix,
  width: number,
  most: number,
  tallest = MAX_ROW_HEIGHT,
  axis = '',
): MatrixLayout {
  const [rows, columns] = [Math.max(1, matrix.rows.length), Math.max(1, matrix.columns.length)]
  const titles = [...matrix.rows, ...matrix.rowBands.map((band) => band.title)]
  const longest = titles.reduce((length, title) => Math.max(length, title.length), 0)
  const room = (length: number) => 12 + Math.ceil(6.4 * length)
  const left = Math.max(44, room(axis.length), Math.min(Math.round(width * 0.25), room(Math.min(longest, 26))))
  // A thin first row needs a full label's height.
  const top = matrix.columnBands.length > 0 ? BANDS : rows * tallest > most ? LINE / 2 : 0
  const height = Math.round(Math.min(rows * tallest, most))
  const marked = height / rows < LINE - 3 ? matrix.marked : []
  const names = marked.reduce((length, row) => Math.max(length, matrix.rows[row].length), 0)
  const right = names > 0 ? MARK + Math.ceil(6.4 * Math.min(names, 16)) : RIGHT
  const inner = Math.max(1, width - left - right)
  return {
    left,
    top,
    width: inner,
    right,
    height,
    rowFold: foldLines(rows, height),
    columnFold: foldLines(columns, Math.floor(inner)),
  }
}

export const heightOf = ({ top, height }: MatrixLayout) => top + height + AXIS

/** The cell at a point, the largest if several share it; -1 outside. */
export function cellAt(matrix: Matrix, layout: MatrixLayout, x: number, y: number): number {
  const [across, down] = [(x - layout.left) / layout.width, (y - layout.top) / layout.height]
  if (across < 0 || across >= 1 || down < 0 || down >= 1 || matrix.values.length === 0) return -1
  return largestOf(matrix, lineAt(layout.rowFold, down), lineAt(layout.columnFold, across))
}

function lineAt(fold: readonly number[], part: number): [number, number] {
  const line = Math.min(fold.length - 2, Math.floor(part * (fold.length - 1)))
  return [fold[line], fold[line + 1]]
}

/** The colours of a category from nothing to the largest value. */
export function cellShades(category: string, theme: Theme): string[] {
  const full = categoryColor(category)
  return Array.from({ length: SHADES }, (_, at) => mix(full, theme.panel, FAINT + ((1 - FAINT) * at) / (SHADES - 1)))
}

const rgb = (hex: string) => [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16))

export function drawMatrix(context: CanvasRenderingContext2D, scene: MatrixScene, width: number): void {
  const { matrix, layout, theme } = scene
  context.fillStyle = theme.panel
  context.fillRect(0, 0, width, heightOf(layout))
  context.font = FONT
  context.textBaseline = 'middle'
  drawCells(context, scene)
  drawNumbers(context, scene)
  drawBands(context, scene)
  drawRowLabels(context, scene)
  drawColumnLabels(context, scene)
  drawMarked(context, scene)
  // One cell at a time: hovered, else selected.
  const isOver = scene.hover >= 0 && scene.hover < matrix.values.length
  const cell = isOver ? scene.hover : scene.selected
  if (cell >= 0 && cell < matrix.values.length) outline(context, scene, cell, theme.ink)
}

function drawMarked(context: CanvasRenderingContext2D, { matrix, layout, theme }: MatrixScene): void {
  if (layout.right <= MARK) return
  const high = layout.height / matrix.rows.length
  const places = matrix.marked.map((row) => layout.top + (row + 0.5) * high)
  const from = layout.left + layout.width + 2
  context.textAlign = 'left'
  context.strokeStyle = theme.ink
  context.fillStyle = theme.ink
  context.lineWidth = 1
  const names = matrix.marked.map((row) => matrix.rows[row])
  const shown = cutDistinct(context, names, layout.right - MARK + 2)
  spreadLabels(places, LINE, layout.top + layout.height).forEach((y, at) => {
    context.beginPath()
    context.moveTo(from, places[at])
    context.lineTo(from + 4, places[at])
    context.lineTo(from + 10, y)
    context.lineTo(from + 13, y)
    context.stroke()
    context.fillText(shown.get(names[at]) ?? '', from + MARK - 3, y + 0.5)
  })
}

function drawCells(context: CanvasRenderingContext2D, { matrix, layout, domain, category, theme }: MatrixScene): void {
  const [lines, places] = [layout.rowFold.length - 1, layout.columnFold.length - 1]
  if (lines < 1 || places < 1 || matrix.values.length === 0) return
  const image = new ImageData(places, lines)
  const shades = cellShades(category, theme).map(rgb)
  for (let line = 0; line < lines; line++) {
    const rows = [layout.rowFold[line], layout.rowFold[line + 1]] as const
    for (let place = 0; place < places; place++) {
      const columns = [layout.columnFold[place], layout.columnFold[place + 1]] as const
      const value = matrix.values[largestOf(matrix, rows, columns)]
      if (value === null) continue
      const [r, g, b] = shades[Math.round(partOf(domain, value) * (SHADES - 1))]
      image.data.set([r, g, b, 255], 4 * (line * places + place))
    }
  }
  const small = document.createElement('canvas')
  small.width = places
  small.height = lines
  small.getContext('2d')?.putImageData(image, 0, 0)
  context.imageSmoothingEnabled = false
  context.drawImage(small, layout.left, layout.top, layout.width, layout.height)
}

export function hasNumbers(matrix: Matrix, layout: MatrixLayout, textOf: (value: number) => string): boolean {
  const [high, wide] = [layout.height / matrix.rows.length, layout.width / matrix.columns.length]
  if (high < NUMBER_HEIGHT || wide < 28) return false
  const longest = matrix.values.reduce<number>(
    (most, value) => (value === null ? most : Math.max(most, textOf(value).length)),
    0,
  )
  return longest * DIGIT <= wide - 8
}

function drawNumbers(context: CanvasRenderingContext2D, scene: MatrixScene): void {
  const { matrix, layout, domain, category, theme, textOf } = scene
  if (!hasNumbers(matrix, layout, textOf)) return
  const [rows, columns] = [matrix.rows.length, matrix.columns.length]
  const [high, wide] = [layout.height / rows, layout.width / columns]
  const shades = cellShades(category, theme)
  context.textAlign = 'right'
  matrix.values.forEach((value, cell) => {
    if (value === null) return
    context.fillStyle = inkOn(shades[Math.round(partOf(domain, value) * (SHADES - 1))])
    const [row, column] = [Math.floor(cell / columns), cell % columns]
    context.fillText(textOf(value), layout.left + (column + 1) * wide - 5, layout.top + (row + 0.5) * high + 0.5)
  })
  context.textAlign = 'left'
}

/** Lines between bands that are not too thin for it. */
function drawBands(context: CanvasRenderingContext2D, { matrix, layout, theme }: MatrixScene): void {
  const [high, wide] = [layout.height / matrix.rows.length, layout.width / matrix.columns.length]
  context.fillStyle = theme.panel
  for (const { from, to } of matrix.rowBands) {
    if (from > 0 && (to - from) * high >= 4) {
      context.fillRect(
        layout.left,
        Math.round(layout.top + from * high) - 0.5,
        layout.width,
        (to - from) * high >= 9 ? 2 : 1,
      )
    }
  }
  for (const at of matrix.rowMarks) {
    if (at > 0 && high >= 4) context.fillRect(layout.left, Math.round(layout.top + at * high), layout.width, 1)
  }
  for (const at of matrix.columnMarks) {
    if (at > 0 && wide >= 4) context.fillRect(Math.round(layout.left + at * wide), layout.top, 1, layout.height)
  }
  for (const { from, to } of matrix.columnBands) {
    if (from > 0 && (to - from) * wide >= 4) {
      context.fillRect(Math.round(layout.left + from * wide) - 1, layout.top, 2, layout.height)
    }
  }
}

function drawRowLabels(context: CanvasRenderingContext2D, { matrix, layout, theme }: MatrixScene): void {
  const high = layout.height / matrix.rows.length
  context.textAlign = 'left'
  const isEach = high >= LINE - 3
  const bands: readonly Band[] = !isEach && matrix.rowBands.length > 1 ? matrix.rowBands : singles(matrix.rows)
  const labels: { title: string; y: number }[] = []
  let free = Number.NEGATIVE_INFINITY
  for (const { title, from, to } of bands) {
    const y = layout.top + ((from + to) / 2) * high
    if (!isEach && y < free) continue
    labels.push({ title, y })
    free = y + LINE
  }
  const shown = cutDistinct(
    context,
    labels.map(({ title }) => title),
    layout.left - 10,
  )
  context.fillStyle = isEach ? theme.ink : theme.mute
  for (const { title, y } of labels) context.fillText(shown.get(title) ?? '', 2, y + 0.5)
}

const singles = (rows: readonly string[]): Band[] => rows.map((title, at) => ({ title, from: at, to: at + 1 }))

function drawColumnLabels(context: CanvasRenderingContext2D, { matrix, layout, axis, theme }: MatrixScene): void {
  const wide = layout.width / matrix.columns.length
  const bottom = layout.top + layout.height + AXIS / 2 + 1
  context.textAlign = 'left'
  context.fillStyle = theme.mute
  context.fillText(cutText(context, axis, layout.left - 10), 2, bottom)
  context.textAlign = 'center'
  const write = (text: string, middle: number, y: number, taken: [number, number][]) => {
    const half = context.measureText(text).width / 2
    const x = Math.min(layout.left + layout.width - half, Math.max(layout.left + half, middle))
    const [from, to] = [x - half - GAP, x + half + GAP]
    if (taken.some(([start, end]) => from < end && to > start)) return
    taken.push([x - half, x + half])
    context.fillText(text, x, y)
  }
  const above: [number, number][] = []
  const isRoom = matrix.columnBands.every(
    ({ title, from, to }) => context.measureText(title).width <= (to - from) * wide - 10,
  )
  for (const { title, short = title, from, to } of matrix.columnBands) {
    write(isRoom ? title : short, layout.left + ((from + to) / 2) * wide, BANDS / 2 - 1, above)
  }
  const below: [number, number][] = []
  const label = (at: number) => write(matrix.columns[at], layout.left + (at + 0.5) * wide, bottom, below)
  context.fillStyle = theme.ink
  for (const at of matrix.labelFirst) label(at)
  context.fillStyle = theme.mute
  matrix.columns.forEach((_, at) => {
    if (!matrix.labelFirst.includes(at)) label(at)
  })
  context.textAlign = 'left'
}

function outline(
  context: CanvasRenderingContext2D,
  { matrix, layout }: MatrixScene,
  cell: number,
  color: string,
): void {
  const [high, wide] = [layout.height / matrix.rows.length, layout.width / matrix.columns.length]
  const [row, column] = [Math.floor(cell / matrix.columns.length), cell % matrix.columns.length]
  context.strokeStyle = color
  context.lineWidth = 1.5
  const [x, y] = [layout.left + column * wide, layout.top + row * high]
  // Frames cells of a few pixels.
  const [w, h] = [Math.max(wide, 5), Math.max(high, 5)]
  context.strokeRect(x + (wide - w) / 2 + 0.75, y + (high - h) / 2 + 0.75, w - 1.5, h - 1.5)
}
