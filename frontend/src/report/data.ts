// The recorded answers of a report, in the words and units of the page.
import type { Link, Payload, Report, ReportEvents, ReportView, Scalar, Table, View } from '../api/payloads'
import type { Spot } from '../canvas/timeline/model'
import { viewInWords } from '../lib/deviceWords'
import { PER_STEP_VIEWS, viewPerStep } from '../lib/perStep'
import { parseSteps } from '../lib/stepSelection'
import type { TileColumns } from '../lib/tiles'

/** Id of the element with the data, and its placeholder in the template. */
const DATA = 'report'

/** The data of this file; null in a template. */
export function readReport(): Report | null {
  const text = document.getElementById(DATA)?.textContent ?? ''
  return text.startsWith('{') ? (JSON.parse(text) as Report) : null
}

/** The number of steps that sums are divided by. */
export function stepCount({ profile, steps }: Pick<Report, 'profile' | 'steps'>): number {
  const labels = profile.steps.map(({ label }) => label)
  return steps ? parseSteps(steps, labels).size : labels.length
}

/** A view as the page shows it: sums per step, CPU and GPU instead of host and device. */
export function presentedView(view: View, steps: number): View {
  const inWords = viewInWords(view)
  return steps > 1 && PER_STEP_VIEWS.has(view.id) ? viewPerStep(inWords, steps) : inWords
}

export interface Page {
  id: string
  title: string
  views: ReportView[]
}

const COMPARE = 'compare'

/** The views of the file by page, in the order of the navigation; a comparison is first. */
export function pagesOf(views: readonly ReportView[]): Page[] {
  const pages = new Map<string, Page>()
  for (const view of views) {
    if (!view.view) continue
    const id = view.page || view.id
    const page = pages.get(id) ?? { id, title: view.page_title || view.title, views: [] }
    page.views.push(view)
    pages.set(id, page)
  }
  return [...pages.values()].sort((a, b) => Number(b.id === COMPARE) - Number(a.id === COMPARE))
}

/** Whether a payload has anything to show. */
export function hasContent(payload: Payload): boolean {
  switch (payload.kind) {
    case 'figures':
      return payload.figures.some(({ value }) => value !== null)
    case 'notices':
      return payload.notices.length > 0
    case 'table':
      return payload.rows.length > 0
    case 'breakdown':
      return payload.parts.some(({ value }) => value > 0)
    case 'series':
      return payload.lines.some(({ values }) => values.some((value) => value !== null))
    case 'scatter':
      return payload.groups.some(({ x }) => x.length > 0)
    case 'tree':
      return payload.rows.length > 0
    default:
      return false
  }
}

const isEmpty = (value: Scalar | undefined) => value === null || value === undefined || value === ''

function compare(a: Scalar | undefined, b: Scalar | undefined): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b
  return String(a).localeCompare(String(b), 'en', { numeric: true })
}

/** The rows of the file in another order; rows without a value are last. */
export function sortedTable(table: Table, key: string, descending: boolean): Table {
  const rows = [...table.rows].sort((one, other) => {
    const [a, b] = [one[key], other[key]]
    if (isEmpty(a) || isEmpty(b)) return Number(isEmpty(a)) - Number(isEmpty(b))
    return descending ? compare(b, a) : compare(a, b)
  })
  return { ...table, rows, sort: { key, descending } }
}

/** The evidence of a finding that is in the file. */
export const evidenceOf = (table: Table, rule: string): Table => {
  const rows = table.rows.filter((row) => row.rule === rule)
  return { ...table, rows, matched_rows: rows.length }
}

/** Whether the file holds what a link shows. */
export const isRecorded = (link: Link, { views, timeline }: Report): boolean =>
  link.view === 'timeline' ? timeline !== null : views.some(({ id, view }) => id === link.view && view !== null)

export const openCommand = ({ path }: Report) => `torch-trace view ${path || 'PATH'}`

/** Columns of the timeline's one tile. */
export function columnsOf(events: ReportEvents): TileColumns {
  const count = events.event.length
  const [lane, row] = [new Int32Array(count), new Int32Array(count)]
  let at = 0
  events.items.forEach((items, i) => {
    lane.fill(events.lane[i], at, at + items)
    row.fill(events.row[i], at, at + items)
    at += items
  })
  const start = new Float64Array(count)
  let time = 0
  for (let i = 0; i < count; i++) {
    time += events.start_delta_ns[i]
    start[i] = time
  }
  return {
    lane,
    row,
    start,
    dur: Float64Array.from(events.dur_ns),
    idle: events.idle_ns.length ? Float64Array.from(events.idle_ns) : new Float64Array(count),
    count: events.count.length ? Int32Array.from(events.count) : new Int32Array(count).fill(1),
    event: Int32Array.from(events.event),
    category: Uint8Array.from(events.category),
    matrix: events.matrix.length ? Uint8Array.from(events.matrix) : new Uint8Array(count),
    name: Int32Array.from(events.name),
    names: events.names,
    module: events.module.length ? Int32Array.from(events.module) : new Int32Array(count),
    modules: events.module.length ? events.modules : [''],
  }
}

/** The place of an event in the timeline; null if the window does not hold it as an item of its own. */
export function spotOf({ event, lane, row, start, dur }: TileColumns, wanted: number): Spot | null {
  const i = event.indexOf(wanted)
  return i < 0 ? null : { lane: lane[i], row: row[i], start: start[i], end: start[i] + dur[i] }
}
