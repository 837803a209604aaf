// Ranks in the order in which a picture shows them: a matrix of rows and columns with what separates and names them.
import type { Grouping, Heat } from '../api/payloads'
import { rankOf } from './companions'

/** Neighbouring rows or columns that belong together. */
export interface Band {
  title: string
  /** Where there is no room for titles. */
  short?: string
  from: number
  /** Behind the last. */
  to: number
}

/** What a picture draws: numbers by row and column, and which rank stands behind each row or cell. */
export interface Matrix {
  rows: readonly string[]
  columns: readonly string[]
  /** Row by row; null: nothing is known there. */
  values: readonly (number | null)[]
  rowBands: readonly Band[]
  columnBands: readonly Band[]
  /** Rows and columns that begin another node. */
  rowMarks: readonly number[]
  columnMarks: readonly number[]
  /** Rows that are to be found however thin they are. */
  marked: readonly number[]
  /** Columns whose labels come before those of the others where there is no room for all, the most important first. */
  labelFirst: readonly number[]
  /** Position of the rank in the heat of each cell, -1 where none stands. */
  rankOf: (row: number, column: number) => number
}

/** Missing ranks that are listed at most. */
const MAX_LISTED = 8
/** Numbers so many times as large as there are rows are dates or processes, not ranks. */
const FAR_BEYOND = 16

/** Ranks that no row is of, from 0 to the last of those that are there: how many they are, and the first of them. */
export function missingRanks(rows: readonly string[]): { count: number; first: number[] } {
  const ranks = [...new Set(rows.flatMap((row) => rankOf(row) ?? []))].sort((a, b) => a - b)
  const last = ranks.at(-1) ?? 0
  const none = { count: 0, first: [] }
  // Names of another kind say nothing of ranks.
  if (ranks.length < rows.length || ranks.length < 2 || last > FAR_BEYOND * rows.length) return none
  const first: number[] = []
  let next = 0
  for (const rank of ranks) {
    for (; next < rank && first.length < MAX_LISTED; next++) first.push(next)
    next = rank + 1
  }
  return { count: last + 1 - ranks.length, first }
}

export interface SortChoice {
  value: string
  label: string
}

/** Ways to sort the rows: by name, by value, by group, and by the place within one. */
export function sortChoices(heat: Heat): SortChoice[] {
  const found = [
    { value: 'name', label: 'Name' },
    { value: 'value', label: 'Mean, largest first' },
  ]
  for (const { key, title } of heat.groupings) {
    found.push({ value: key, label: key === 'node' ? 'Node' : `Group: ${title}` })
    if (key !== 'node') found.push({ value: `${key}.place`, label: `Place in ${title}` })
  }
  return found
}

const groupTitle = (grouping: Grouping, group: number) =>
  group < 0
    ? 'no group'
    : grouping.key === 'node'
      ? grouping.groups[group]
      : `${grouping.title} ${grouping.groups[group]}`

/** Positions of the ranks in the order asked for, and what is together in it. An unknown order is that by name. */
export function sortRanks(heat: Heat, order: string): { ranks: number[]; bands: Band[] } {
  const ranks = heat.rows.map((_, rank) => rank)
  if (order === 'value') {
    const mean = (rank: number) => heat.means[rank] ?? Number.NEGATIVE_INFINITY
    // Minus infinity less itself is no number.
    return { ranks: ranks.sort((a, b) => (mean(b) > mean(a) ? 1 : mean(b) < mean(a) ? -1 : a - b)), bands: [] }
  }
  const [key, place] = order.split('.')
  const grouping = heat.groupings.find((each) => each.key === key)
  if (!grouping) return { ranks, bands: [] }
  const [main, then] = place ? [grouping.place, grouping.of] : [grouping.of, grouping.place]
  const last = (value: number) => (value < 0 ? Number.MAX_SAFE_INTEGER : value)
  ranks.sort((a, b) => last(main[a]) - last(main[b]) || last(then[a]) - last(then[b]) || a - b)
  const title = (value: number) => (place ? (value < 0 ? 'no place' : `place ${value}`) : groupTitle(grouping, value))
  return {
    ranks,
    bands: bandsOf(
      ranks.map((rank) => main[rank]),
      title,
    ),
  }
}

/** Runs of equal values. */
export function bandsOf(values: readonly number[], title: (value: number) => string): Band[] {
  const bands: Band[] = []
  values.forEach((value, at) => {
    if (at > 0 && values[at - 1] === value) bands[bands.length - 1].to = at + 1
    else bands.push({ title: title(value), from: at, to: at + 1 })
  })
  return bands
}

/** Ranks by steps. */
export function byStep(heat: Heat, order: string): Matrix {
  const { ranks, bands } = sortRanks(heat, order)
  const width = heat.x.length
  const values: (number | null)[] = []
  for (const rank of ranks) for (let at = 0; at < width; at++) values.push(heat.values[rank * width + at])
  return {
    rows: ranks.map((rank) => heat.rows[rank]),
    columns: heat.x,
    values,
    rowBands: bands,
    columnBands: [],
    rowMarks: [],
    columnMarks: [],
    marked: markedOf(heat, ranks),
    labelFirst: [],
    rankOf: (row) => ranks[row],
  }
}

/** So many ranks are marked. */
const MOST_MARKED = 10

/** Places in `ranks` of those with the largest means, of those that lie above the middle by more than is worth telling apart. */
function outstanding({ means }: Heat, ranks: readonly number[]): number[] {
  const mean = (row: number) => means[ranks[row]] ?? Number.NEGATIVE_INFINITY
  const rows = ranks.map((_, row) => row).filter((row) => (means[ranks[row]] ?? null) !== null)
  rows.sort((a, b) => mean(b) - mean(a) || a - b)
  if (rows.length === 0) return []
  const middle = mean(rows[Math.floor(rows.length / 2)])
  const above = rows.filter((row) => mean(row) > middle + LEAST_SPREAD * Math.abs(middle))
  return above.slice(0, MOST_MARKED)
}

/** Rows of ranks that stand out; where there are few nobody looks for them. */
function markedOf(heat: Heat, ranks: readonly number[]): number[] {
  const known = ranks.filter((rank) => (heat.means[rank] ?? null) !== null)
  return known.length <= MOST_MARKED ? [] : outstanding(heat, ranks).sort((a, b) => a - b)
}

/** A mean of this share of the largest stands out with it. */
const NEAR = 0.5

/** Lines (rows or columns) of cells with the ranks whose means are near the largest one, the largest first. */
function worstLines(heat: Heat, ranks: readonly number[], lineOf: (cell: number) => number): number[] {
  const cells = outstanding(heat, ranks)
  const mean = (cell: number) => heat.means[ranks[cell]] ?? 0
  return [...new Set(cells.filter((cell) => mean(cell) >= NEAR * mean(cells[0])).map(lineOf))]
}

/** Ranks by place (rows) and group (columns) of one grouping, with the mean of each; larger groups lie down. */
export function byPlace(heat: Heat, key: string): (Matrix & { isTurned: boolean; outer: string }) | null {
  const grouping = heat.groupings.find((each) => each.key === key) ?? heat.groupings[0]
  if (!grouping) return null
  const [size, count] = [grouping.place.reduce((most, place) => Math.max(most, place), 0) + 1, grouping.groups.length]
  const isTurned = size > count
  const [height, width] = isTurned ? [count, size] : [size, count]
  const ranks: number[] = Array(height * width).fill(-1)
  grouping.of.forEach((group, rank) => {
    const place = grouping.place[rank]
    if (group >= 0 && place >= 0) ranks[isTurned ? group * width + place : place * width + group] = rank
  })
  const places = Array.from({ length: size }, (_, place) => String(place))
  const { bands, outer } = outerPlace(heat, grouping)
  const node = heat.groupings.find((each) => each.key === 'node' && each !== grouping)
  const nodes = node && sharedBy(grouping, node.of)
  const starts = nodes ? bandsOf(nodes, String).map((band) => band.from) : []
  // Where each group has a node of its own there is no boundary to tell.
  const marks = starts.length < count ? starts : []
  return {
    rows: isTurned ? grouping.groups : places,
    columns: isTurned ? places : grouping.groups,
    values: ranks.map((rank) => (rank < 0 ? null : heat.means[rank])),
    rowBands: isTurned ? bands : [],
    columnBands: isTurned ? [] : bands,
    rowMarks: isTurned ? marks : [],
    columnMarks: isTurned ? [] : marks,
    marked: worstLines(heat, ranks, (cell) => Math.floor(cell / width)).sort((a, b) => a - b),
    labelFirst: worstLines(heat, ranks, (cell) => cell % width),
    rankOf: (row, at) => ranks[row * width + at],
    isTurned,
    outer,
  }
}

/** Of more parts none is told apart. */
const MOST_BANDS = 32

/** Neighbouring groups that have a place in another grouping, or a node, in common: the fewest such parts. */
function outerPlace(heat: Heat, grouping: Grouping): { bands: Band[]; outer: string } {
  let best = { bands: [] as Band[], outer: '' }
  for (const other of heat.groupings) {
    if (other === grouping) continue
    const isNode = other.key === 'node'
    const shared = sharedBy(grouping, isNode ? other.of : other.place)
    if (!shared) continue
    const titled = bandsOf(shared, (value) => (isNode ? other.groups[value] : `${other.title} ${value}`))
    const bands = isNode ? titled : titled.map((band) => ({ ...band, short: `place ${shared[band.from]}` }))
    const isParted = bands.length > 1 && bands.length <= MOST_BANDS && bands.length < shared.length
    const isFewer = best.bands.length === 0 || bands.length < best.bands.length
    if (isParted && isFewer) best = { bands, outer: isNode ? '' : other.title }
  }
  return best
}

/** The value that all ranks of each group have; null where a group has several. */
function sharedBy(grouping: Grouping, values: readonly number[]): number[] | null {
  const shared = grouping.groups.map(() => -1)
  for (let rank = 0; rank < values.length; rank++) {
    const group = grouping.of[rank]
    if (group < 0) continue
    if (values[rank] < 0 || (shared[group] >= 0 && shared[group] !== values[rank])) return null
    shared[group] = values[rank]
  }
  return shared
}

/** What is folded where there are more rows (or columns) than pixels: the first of each line, and the end. */
export function foldLines(count: number, most: number): number[] {
  const lines = Math.max(1, Math.min(count, most))
  return Array.from({ length: lines + 1 }, (_, line) => Math.round((line * count) / lines))
}

/** The cell with the largest value of a block; the first where nothing is known. */
export function largestOf(
  matrix: Matrix,
  [top, bottom]: readonly [number, number],
  [left, right]: readonly [number, number],
): number {
  const width = matrix.columns.length
  let best = top * width + left
  for (let row = top; row < bottom; row++) {
    for (let at = row * width + left; at < row * width + right; at++) {
      const value = matrix.values[at]
      if (value !== null && (matrix.values[best] === null || value > (matrix.values[best] as number))) best = at
    }
  }
  return best
}

export interface Domain {
  low: number
  high: number
  /** Colours tell how many times a value is another: a few are so large that all others would look the same. */
  isLog: boolean
  /** No value is far enough from another to be told apart. */
  isAlike: boolean
}

/** Nothing is worth telling apart by colour that differs less. */
const LEAST_SPREAD = 0.02
/** Where the smallest value is at least this share of the largest, colours begin there: from 0 on all would look the same. */
const CLOSE = 0.75
/** A value so many times the 98th of a hundred makes all others look the same. */
const FAR = 4
/** What is so many times smaller than the largest is no news beside it. */
const SPANNED = 100

/**
 * What the colours span: from 0, but from the smallest value where all lie within a quarter of the largest. On a logarithmic
 * scale from the median, or a hundredth of the largest on: how the others differ is no news beside a few that are many times
 * as large.
 */
export function domainOf(values: readonly (number | null)[]): Domain {
  const known = values.filter((value): value is number => value !== null).sort((a, b) => a - b)
  if (known.length === 0) return { low: 0, high: 0, isLog: false, isAlike: false }
  const [least, most] = [known[0], known[known.length - 1]]
  const positive = known.slice(known.findIndex((value) => value > 0))
  const part = (share: number) => positive[Math.floor(share * (positive.length - 1))]
  if (most > 0 && most > FAR * part(0.98)) {
    return { low: Math.max(part(0.5), most / SPANNED), high: most, isLog: true, isAlike: false }
  }
  const high = Math.max(most, 0)
  const isClose = least > 0 && high - least <= LEAST_SPREAD * high
  const low = least >= CLOSE * high && least > 0 && !isClose ? least : Math.min(least, 0)
  return { low, high, isLog: false, isAlike: isClose && known.length > 1 }
}

/** Place of a value in the domain, 0 to 1. */
export function partOf({ low, high, isLog }: Pick<Domain, 'low' | 'high' | 'isLog'>, value: number): number {
  if (high <= low) return value > 0 ? 1 : 0
  if (isLog && value <= low) return 0
  const part = isLog ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low)
  return Math.min(1, Math.max(0, part))
}

/** The cell beside another one, as arrow keys walk; the first where none is chosen. */
export function neighbourCell(matrix: Matrix, cell: number, key: string): number {
  const [height, width] = [matrix.rows.length, matrix.columns.length]
  if (cell < 0) return 0
  const [row, column] = [Math.floor(cell / width), cell % width]
  const clamp = (value: number, most: number) => Math.min(most - 1, Math.max(0, value))
  if (key === 'ArrowUp') return clamp(row - 1, height) * width + column
  if (key === 'ArrowDown') return clamp(row + 1, height) * width + column
  if (key === 'ArrowLeft') return row * width + clamp(column - 1, width)
  if (key === 'Home') return row * width
  if (key === 'End') return row * width + width - 1
  return row * width + clamp(column + 1, width)
}

/** Places of labels, in order, so near to where they belong as `gap` between them and the end `most` allow. */
export function spreadLabels(places: readonly number[], gap: number, most: number): number[] {
  const found: number[] = []
  for (const place of places) found.push(Math.max(place, found.length > 0 ? found[found.length - 1] + gap : 0))
  for (let at = found.length - 1, end = most; at >= 0; at--, end -= gap) found[at] = Math.min(found[at], end)
  return found
}
