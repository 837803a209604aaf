// GENERATED from payloads.schema.json by `npm run types`. Do not edit.

export interface Payloads {
  Catalog: Catalog
  Problem: Problem
  Profile: Profile
  Table: Table
  View: View
}
/**
 * Answer of ``GET runs``.
 */
export interface Catalog {
  kind: 'catalog'
  last_scan_unix_ms: number | null
  logdir: string
  perfetto_url: string
  problems: Problem[]
  runs: RunInfo[]
  scanned_files: number
  scanning: boolean
  skipped: Skipped[]
}
/**
 * The one error shape: what happened, where, what to do.
 */
export interface Problem {
  do: string
  what: string
  where: string
}
/**
 * One run: a directory with traces.
 */
export interface RunInfo {
  name: string
  workers: WorkerInfo[]
}
/**
 * One worker (process, rank) of a run.
 */
export interface WorkerInfo {
  name: string
  spans: SpanInfo[]
}
/**
 * One profile. ``id`` is its key in URLs ("1", "2", ... by time); ``time_unix_ms`` its wall time or None.
 */
export interface SpanInfo {
  files: string[]
  fraction: number
  id: string
  problem: Problem | null
  size_bytes: number
  state: 'failed' | 'found' | 'loading' | 'ready'
  time_unix_ms: number | null
}
/**
 * A file that looked like a candidate and was not taken, and why.
 */
export interface Skipped {
  path: string
  reason: string
}
/**
 * Answer of ``GET profile``: the state of one profile and, once ready, what can be asked of it.
 */
export interface Profile {
  data_notice_count: number
  default_view: string
  events_read: number
  features: string[]
  fraction: number
  kind: 'profile'
  loading: Loading | null
  model: string
  problem: Problem | null
  read: ReadInfo | null
  run: string
  span: string
  state: 'failed' | 'found' | 'loading' | 'ready'
  steps: StepInfo[]
  trace_steps: string[]
  views: ViewInfo[]
  window: WindowInfo | null
  worker: string
}
/**
 * Where the loading of a profile stands.
 *
 *     ``seconds`` have passed in this stage, of which ``fraction`` is done, 0..1; None where nobody can know how much.
 */
export interface Loading {
  about: Figure[]
  counts: {
    [k: string]: number
  }
  fraction: number | null
  seconds: number
  stage: 'assembling' | 'copying' | 'reading' | 'summarising' | 'surveying' | 'waiting' | 'writing'
}
/**
 * One number with its definition.
 */
export interface Figure {
  metric: Metric
  note: string
  value: number | string | boolean | null
}
/**
 * The definition that a person sees on hover: what a number is, its unit, and the window it is taken over.
 */
export interface Metric {
  definition: string
  key: string
  title: string
  unit: 'bool' | 'bytes' | 'bytes_per_second' | 'code' | 'count' | 'ns' | 'number' | 'ratio' | 'text' | 'unix_ms'
  window: string
}
/**
 * How the file was read; counts are of ``records``.
 */
export interface ReadInfo {
  complete: boolean
  events_dropped: number
  events_kept: number
  events_other: number
  events_outside: number
  events_quarantined: number
  events_repaired: number
  events_seen: number
  events_unknown: number
  file_bytes: number
  format: string
  issues: IssueInfo[]
  records: string
  text_bytes: number
}
/**
 * One kind of irregularity met while reading (see trace/report.py).
 */
export interface IssueInfo {
  code: string
  count: number
  examples: string[]
  first_offset: number | null
  outcome: string
  text: string
}
/**
 * A step one can choose: with its work on devices, and on the host alone (what allocator events are about).
 */
export interface StepInfo {
  end_ns: number
  host_end_ns: number
  host_start_ns: number
  label: string
  start_ns: number
}
/**
 * A view in the navigation: whether it applies to a profile, else why not and what would enable it.
 */
export interface ViewInfo {
  available: boolean
  enable: string
  group: string
  id: string
  title: string
  why: string
}
/**
 * The part of a trace that was opened, because all of it does not fit into the memory.
 *
 *     Times are nanoseconds from the start of the trace, also of what was not opened.
 */
export interface WindowInfo {
  budget_bytes: number
  end_ns: number
  events: number
  first_step: string | null
  last_step: string | null
  need_bytes: number
  start_ns: number
  steps: number
  trace_events: number
  trace_ns: number
  trace_steps: number
}
/**
 * One page of a table. ``rows`` have a value per column key; ``totals`` are sums over all rows, unfiltered.
 */
export interface Table {
  columns: Column[]
  extremes: {
    [k: string]: number[]
  }
  kind: 'table'
  limit: number
  matched_rows: number
  name: string
  name_column: string
  offset: number
  row_key: string[]
  rows: {
    [k: string]: number | string | boolean | null
  }[]
  sort: Sort | null
  title: string
  total_rows: number
  totals: {
    [k: string]: number | string | boolean | null
  }
}
/**
 * A column: its metric and how a table may use it.
 */
export interface Column {
  hidden: boolean
  metric: Metric
  share: boolean
}
/**
 * One sort key.
 */
export interface Sort {
  descending: boolean
  key: string
}
/**
 * The payloads of one view by name, in reading order. Tables hold their first page.
 */
export interface View {
  coverage: CoverageInfo
  id: string
  kind: 'view'
  payloads: {
    [k: string]: Table | Breakdown | Series | Tree | Notices | Figures | Timeline | Flows | Counters
  }
  title: string
}
/**
 * How much of the file stands behind the numbers.
 */
export interface CoverageInfo {
  complete: boolean
  fraction_read: number
  steps: string[] | null
  window: WindowInfo | null
  window_ns: number | null
}
/**
 * Parts of one total. The parts sum to ``total`` exactly (integers).
 *
 *     In a waterfall the parts lead from ``start`` to ``start + total``, and may be negative.
 */
export interface Breakdown {
  kind: 'breakdown'
  name: string
  parts: Part[]
  start: number
  style: 'bar' | 'donut' | 'table' | 'waterfall'
  subtitle: string
  title: string
  total: number
  unit: 'bool' | 'bytes' | 'bytes_per_second' | 'code' | 'count' | 'ns' | 'number' | 'ratio' | 'text' | 'unix_ms'
}
/**
 * One part; ``category`` names its colour.
 */
export interface Part {
  category: string
  link: Link | null
  metric: Metric
  value: number
}
/**
 * A place inside the product: a view and the URL state to open it with.
 */
export interface Link {
  params: {
    [k: string]: string
  }
  text: string
  view: string
}
/**
 * Lines or stacked bars over x. ``x`` are labels (bars) or numbers in ``x_metric.unit`` (lines, bin edges).
 */
export interface Series {
  kind: 'series'
  lines: Line[]
  name: string
  style: 'histogram' | 'lines' | 'stacked_bars'
  subtitle: string
  title: string
  x: (number | string)[]
  x_metric: Metric
}
/**
 * One series; ``category`` names its colour.
 */
export interface Line {
  category: string
  metric: Metric
  values: (number | null)[]
}
/**
 * Nodes in pre-order. ``parent[i]`` is a position (-1 = root); ``rows[i]`` has a value per column key.
 */
export interface Tree {
  columns: Column[]
  kind: 'tree'
  label_column: string
  name: string
  parent: number[]
  rows: {
    [k: string]: number | string | boolean | null
  }[]
  title: string
  total_nodes: number
  value_columns: string[]
}
/**
 * A list of findings, most important first. ``about`` tells a finding on the training from one on the data.
 */
export interface Notices {
  about: 'data' | 'training'
  kind: 'notices'
  name: string
  notices: Notice[]
  title: string
}
/**
 * One finding.
 *
 *     ``text`` and ``todo`` are templates: ``{key}`` stands for the figure with that metric key. ``measure`` is the key of
 *     the figure shown as the badge, ``threshold`` the value it was compared with.
 */
export interface Notice {
  evidence: Link | null
  figures: Figure[]
  kind: 'notice'
  measure: string | null
  references: Reference[]
  rule: string
  severity: 'high' | 'info' | 'low' | 'medium'
  text: string
  threshold: number | null
  todo: string
}
/**
 * An outside document worth reading; the page shows it as a link that the person may follow.
 */
export interface Reference {
  text: string
  url: string
}
/**
 * Named numbers of one subject.
 */
export interface Figures {
  figures: Figure[]
  kind: 'figures'
  name: string
  style: 'headline' | 'list'
  subtitle: string
  title: string
}
/**
 * The lanes in their order, and what can be asked for. Times in ns since the start of the trace.
 */
export interface Timeline {
  busy: number[]
  busy_is_device: boolean
  categories: string[]
  end_ns: number
  groups: number[]
  has_modules: boolean
  kind: 'timeline'
  levels: TimelineLevel[]
  start_ns: number
  total_events: number
  tracks: TimelineTrack[]
}
/**
 * Events on one row that are each shorter than ``cell_ns`` and start in the same cell of so many ns come merged.
 */
export interface TimelineLevel {
  cell_ns: number
  tile_ns: number
}
/**
 * One lane: a host thread, its Python calls, or a device stream.
 */
export interface TimelineTrack {
  events: number
  id: string
  is_device: boolean
  rows: number
  subtitle: string
  title: string
}
/**
 * Arrows and the events that they join, each as columns of equal length.
 *
 *     Of the events (points): the number of the ``event``, its ``lane`` (place in the ordered list of all lanes of the
 *     trace), ``row`` of that lane and times; ``name`` and ``category`` index ``names`` and ``categories``. Of the arrows:
 *     ``from`` and ``to`` are places in those columns, ``arrow`` indexes ``kinds``.
 */
export interface Flows {
  arrow: number[]
  categories: string[]
  category: number[]
  dur_ns: number[]
  event: number[]
  from: number[]
  hidden: number
  kind: 'flows'
  kinds: string[]
  lane: number[]
  name: number[]
  names: string[]
  row: number[]
  start_ns: number[]
  to: number[]
  total: number
}
/**
 * Counters in ``bins`` equal bins of ``[start_ns, end_ns)``.
 *
 *     Bin i begins at ``start_ns + floor((end_ns - start_ns) * i / bins)`` and ends where the next one begins.
 */
export interface Counters {
  bins: number
  counters: Counter[]
  end_ns: number
  kind: 'counters'
  omitted: number
  start_ns: number
  window_end_ns: number
  window_start_ns: number
}
/**
 * One quantity in the bins of a Counters: arrays as long as there are bins, null where nothing is known.
 *
 *     ``low`` and ``high`` are the lowest and the highest value at any moment of a bin, ``mean`` is weighted by time.
 */
export interface Counter {
  device: string | null
  high: (number | null)[]
  key: string
  low: (number | null)[]
  max: number
  mean: (number | null)[]
  metric: Metric
  min: number
  process: string | null
  subtitle: string
  title: string
}

export type Unit = Metric['unit']
export type Scalar = Figure['value']
export type Payload = View['payloads'][string]
export type Kind = Payload['kind']
export type Severity = Notice['severity']
