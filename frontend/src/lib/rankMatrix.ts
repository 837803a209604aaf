// Ranks as a matrix: order, separators and labels.
import type { Grouping, Heat } from '../api/payloads'
import { rankOf } from './companions'

export interface Band {
  title: string
  /** Used without room for titles. */
  short?: string
  from: number
  /** Behind the last. */
  to: number
}

/** A matrix to draw, with the rank of each row or cell. */
export interface Matrix {
  rows: readonly string[]
  columns: readonly string[]
  /** Row by row; null: nothing is known there. */
  values: readonly (number | null)[]
  rowBands: readonly Band[]
  columnBands: readonly Band[]
  /** Rows and columns that start a new node. */
  rowMarks: readonly number[]
  columnMarks: readonly number[]
  /** Rows that are to be found however thin they are. */
  marked: readonly number[]
  /** Columns to label first, most important first. */
  labelFirst: readonly number[]
  /** Index of the rank of a cell; -1 if none. */
  rankOf: (row: number, column: number) => number
}

const MAX_LISTED = 8
/** Numbers this many times the row count are dates or process ids, not ranks. */
const FAR_BEYOND = 16

/** Ranks that no row is of, from 0 to the last of those that are there: how many they are, and the first of them. */
export function missingRanks(rows: readonly string[]): { count: number; first: number[] } {
  const ranks = [...new Set(rows.flatMap((row) => rankOf(row) ?? []))].sort((a, b) => a - b)
  const last = ranks.at(-1) ?? 0
  const none = { count: 0, first: [] }
  // Names without ranks.
  if (ranks.length < rows.length || ranks.length < 2 || last > FAR_BEYOND * rows.length) return none
  const first: number[] = []
  let next = 0
  for (const rank of ranks) {
    for (; next < rank && first.length < MAX_LISTED; next++) first.push(next)
    next = rank + 1
  }
  return { count: last + 1 - ranks.length, first }
}

interface SortChoice {
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

/** Rank indices in the given order, with their groups. Unknown orders sort by name. */
export function sortRanks(heat: Heat, order: string): { ranks: number[]; bands: Band[] } {
  const ranks = heat.rows.map((_, rank) => rank)
  if (order === 'value') {
    const mean = (rank: number) => heat.means[rank] ?? Number.NEGATIVE_INFINITY
    // -Infinity - -Infinity is NaN.
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

function bandsOf(values: readonly number[], title: (value: number) => string): Band[] {
  const bands: Band[] = []
  values.forEach((value, at) => {
    if (at > 0 && values[at - 1] === value) bands[bands.length - 1].to = at + 1
    else bands.push({ title: title(value), from: at, to: at + 1 })
  })
  return bands
}

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

const MOST_MARKED = 10

/** Indices in `ranks` of the largest means, if clearly above the median. */
function outstanding({ means }: Heat, ranks: readonly number[]): number[] {
  const mean = (row: number) => means[ranks[row]] ?? Number.NEGATIVE_INFINITY
  const rows = ranks.map((_, row) => row).filter((row) => (means[ranks[row]] ?? null) !== null)
  rows.sort((a, b) => mean(b) - mean(a) || a - b)
  if (rows.length === 0) return []
  const middle = mean(rows[Math.floor(rows.length / 2)])
  const above = rows.filter((row) => mean(row) > middle + LEAST_SPREAD * Math.abs(middle))
  return above.slice(0, MOST_MARKED)
}

/** Rows of outstanding ranks; empty for few ranks. */
function markedOf(heat: Heat, ranks: readonly number[]): number[] {
  const known = ranks.filter((rank) => (heat.means[rank] ?? null) !== null)
  return known.length <= MOST_MARKED ? [] : outstanding(heat, ranks).sort((a, b) => a - b)
}

/** Share of the largest mean from which a rank is marked too. */
const NEAR = 0.5

/** Lines of the ranks with the largest means, largest first. */
function worstLines(heat: Heat, ranks: readonly number[], lineOf: (cell: number) => number): number[] {
  const cells = outstanding(heat, ranks)
  const mean = (cell: number) => heat.means[ranks[cell]] ?? 0
  return [...new Set(cells.filter((cell) => mean(cell) >= NEAR * mean(cells[0])).map(lineOf))]
}

/** Ranks by place (rows) and group (columns) of a grouping, with means; larger groups are transposed. */
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
  // No boundary if each group has its own node.
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

/** Above this many parts, none are separated. */
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

/** The value shared by a group's ranks; null if they differ. */
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

/** The first row of each pixel line if there are more rows than pixels, and the end. */
export function foldLines(count: number, most: number): number[] {
  const lines = Math.max(1, Math.min(count, most))
  return Array.from({ length: lines + 1 }, (_, line) => Math.round((line * count) / lines))
}

/** The largest cell of a block; the first if all are unknown. */
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
  /** All values are practically equal. */
  isAlike: boolean
}

/** Nothing is worth telling apart by colour that differs less. */
const LEAST_SPREAD = 0.02
/** Ratio of smallest to largest value from which colours start at the smallest. */
const CLOSE = 0.75
/** A maximum this many times the 98th percentile makes the scale logarithmic. */
const FAR = 4
const SPANNED = 100

/**
 * The colour range: from 0; from the smallest value if all are within a quarter of the largest; logarithmic, from the
 * median or a hundredth of the largest, if a few values dominate.
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

/** The cell that an arrow key selects; the first if none is selected. */
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

/** Label positions, `gap` apart and at most `most`, near their targets. */
export function spreadLabels(places: readonly number[], gap: number, most: number): number[] {
  const found: number[] = []
  for (const place of places) found.push(Math.max(place, found.length > 0 ? found[found.length - 1] + gap : 0))
  for (let at = found.length - 1, end = most; at >= 0; at--, end -= gap) found[at] = Math.min(found[at], end)
  return found
}
