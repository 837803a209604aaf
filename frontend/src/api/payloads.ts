// GENERATED from payloads.schema.json by `npm run types`. Do not edit.

export interface Payloads {
  Catalog: Catalog
  Problem: Problem
  Profile: Profile
  Table: Table
  View: View
}
/**
 * A catalog is the answer of ``GET runs``: the content of all log directories.
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
 * A problem says what happened, where, and what to do; all errors have this shape.
 */
export interface Problem {
  do: string
  what: string
  where: string
}
/**
 * A run is a directory with traces, or a distributed job with traces in several directories.
 *
 *     ``grouped_by`` is the evidence for such a job; it is empty for a directory.
 */
export interface RunInfo {
  grouped_by: string
  name: string
  workers: WorkerInfo[]
}
/**
 * A worker is a process (a rank) of a run.
 */
export interface WorkerInfo {
  name: string
  spans: SpanInfo[]
}
/**
 * A span is one profile. ``id`` is its key in URLs ("1", "2", ... by time); ``time_unix_ms`` its wall time or None.
 */
export interface SpanInfo {
  files: string[]
  format: string
  fraction: number
  id: string
  is_empty: boolean
  key_figures: Figure[]
  model: string
  problem: Problem | null
  size_bytes: number
  state: 'failed' | 'found' | 'loading' | 'ready'
  time_unix_ms: number | null
}
/**
 * A figure is one number with its definition.
 */
export interface Figure {
  metric: Metric
  note: string
  value: number | string | boolean | null
}
/**
 * A metric defines a number: its meaning, unit and window, as shown in tooltips.
 */
export interface Metric {
  definition: string
  key: string
  title: string
  unit:
    | 'bool'
    | 'bytes'
    | 'bytes_per_second'
    | 'celsius'
    | 'code'
    | 'count'
    | 'hertz'
    | 'ns'
    | 'number'
    | 'ratio'
    | 'text'
    | 'unix_ms'
    | 'watts'
  window: string
}
/**
 * A skipped file or folder is not a profile; ``reason`` says why.
 */
export interface Skipped {
  path: string
  reason: string
}
/**
 * A Profile is the answer of ``GET profile``: the state of one profile and, once ready, its views.
 */
export interface Profile {
  absent: ViewInfo[]
  capture: CaptureInfo | null
  clock: ClockInfo | null
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
 * A ViewInfo says whether a view applies to a profile; if not, why, and how to enable it.
 */
export interface ViewInfo {
  available: boolean
  enable: string
  group: string
  id: string
  title: string
  whole: string
  why: string
}
/**
 * A CaptureInfo lists the recordings that describe the replayed graphs of a trace.
 */
export interface CaptureInfo {
  beside: string[]
  how: 'beside' | 'named' | 'none'
  names: string[]
  own: boolean
  problem: Problem | null
}
/**
 * A ClockInfo is the wall time of a profile, used to align profiles of one process.
 */
export interface ClockInfo {
  length_ns: number
  start_unix_ns: string
}
/**
 * A Loading is the loading progress of a profile.
 *
 *     ``seconds`` is the time in this stage, ``fraction`` its progress 0..1; None if unknown.
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
 * A ReadInfo says how the file was read; counts are in ``records``.
 */
export interface ReadInfo {
  complete: boolean
  cut_files: string[]
  events_dropped: number
  events_in_file: number
  events_loaded: number
  events_other: number
  events_outside: number
  events_quarantined: number
  events_repaired: number
  events_unknown: number
  file_bytes: number
  format: string
  issues: IssueInfo[]
  records: string
  text_bytes: number
}
/**
 * An issue is one kind of irregularity in a file (model/trace/report.py).
 */
export interface IssueInfo {
  code: string
  count: number
  examples: string[]
  file: string
  first_offset: number | null
  outcome: string
  text: string
}
/**
 * A step can be selected; it has bounds with its device work, and bounds on the host (for allocator events).
 */
export interface StepInfo {
  end_ns: number
  host_end_ns: number
  host_start_ns: number
  label: string
  mode: string
  start_ns: number
}
/**
 * A window is the opened part of a trace that does not fit into memory.
 *
 *     Times are nanoseconds from the start of the whole trace.
 */
export interface WindowInfo {
  budget_bytes: number
  end_ns: number
  events: number
  first_step: string | null
  last_step: string | null
  peak_memory_bytes: number
  start_ns: number
  steps: number
  trace_events: number
  trace_ns: number
  trace_steps: number
}
/**
 * A table is one page of rows, each with a value per column key; ``totals`` are sums over all rows, unfiltered.
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
 * A column has a metric and display options.
 */
export interface Column {
  hidden: boolean
  metric: Metric
  share: boolean
}
/**
 * A sort names the sorted column.
 */
export interface Sort {
  descending: boolean
  key: string
}
/**
 * A view holds payloads by name, in reading order. Tables hold their first page.
 */
export interface View {
  coverage: CoverageInfo
  id: string
  kind: 'view'
  payloads: {
    [k: string]:
      | Table
      | Breakdown
      | Series
      | Scatter
      | Tree
      | Notices
      | Figures
      | Timeline
      | Flows
      | Counters
      | Bands
      | MemoryMap
      | MemoryFlowMap
      | Heat
  }
  title: string
}
/**
 * A coverage says how much of the file the numbers cover.
 */
export interface CoverageInfo {
  complete: boolean
  fraction_read: number
  phase: string | null
  steps: string[] | null
  window: WindowInfo | null
  window_ns: number | null
}
/**
 * A breakdown splits a total. The parts sum to ``total`` exactly (integers).
 *
 *     In a waterfall the parts lead from ``start`` to ``start + total`` and may be negative.
 */
export interface Breakdown {
  kind: 'breakdown'
  name: string
  parts: Slice[]
  start: number
  style: 'bar' | 'donut' | 'table' | 'waterfall'
  subtitle: string
  title: string
  total: number
  unit:
    | 'bool'
    | 'bytes'
    | 'bytes_per_second'
    | 'celsius'
    | 'code'
    | 'count'
    | 'hertz'
    | 'ns'
    | 'number'
    | 'ratio'
    | 'text'
    | 'unix_ms'
    | 'watts'
}
/**
 * A slice is one part of a total; ``category`` selects its colour.
 */
export interface Slice {
  category: string
  link: Link | null
  metric: Metric
  value: number
}
/**
 * A link leads to a view with URL parameters.
 */
export interface Link {
  params: {
    [k: string]: string
  }
  text: string
  view: string
}
/**
 * A series has lines, stacked bars or areas over x: labels (bars) or numbers (others, bin edges).
 */
export interface Series {
  kind: 'series'
  lines: Line[]
  name: string
  style: 'histogram' | 'lines' | 'stacked_area' | 'stacked_bars'
  subtitle: string
  title: string
  x: (number | string)[]
  x_metric: Metric
}
/**
 * A line is one series of values; ``category`` selects its colour.
 */
export interface Line {
  category: string
  metric: Metric
  values: (number | null)[]
}
/**
 * A scatter has groups of dots over two axes. The same numbers are in the table ``table`` of its view.
 */
export interface Scatter {
  groups: Dots[]
  kind: 'scatter'
  name: string
  subtitle: string
  table: string
  title: string
  x_metric: Metric
  y_metric: Metric
}
/**
 * A Dots is one group of dots; ``category`` selects colour and shape, ``label`` names each dot.
 */
export interface Dots {
  category: string
  label: string[]
  title: string
  x: number[]
  y: number[]
}
/**
 * A tree lists nodes in pre-order. ``parent[i]`` is a position (-1 = root); ``rows[i]`` has a value per column key.
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
 * A Notices lists findings, most important first; ``about`` says whether they concern the training or the data.
 */
export interface Notices {
  about: 'answer' | 'data' | 'training'
  kind: 'notices'
  name: string
  notices: Notice[]
  title: string
}
/**
 * A notice is one finding.
 *
 *     ``text`` and ``todo`` are templates: ``{key}`` is replaced by the figure with that metric key. ``measure`` is the
 *     key of the figure in the badge, ``threshold`` the value it was compared with.
 */
export interface Notice {
  confidence: '' | 'high' | 'low' | 'medium'
  event_count: number
  events: number[]
  evidence: Link | null
  figures: Figure[]
  kind: 'notice'
  measure: string | null
  references: Reference[]
  rule: string
  saving: Saving | null
  severity: 'high' | 'info' | 'low' | 'medium'
  text: string
  threshold: number | null
  title: string
  todo: string
  why: string
}
/**
 * A reference is an external document, shown as a link.
 */
export interface Reference {
  text: string
  url: string
}
/**
 * A saving is the estimated time per step without the problem: nanoseconds, means over the steps.
 *
 *     It is between ``low_ns`` and ``high_ns``; other findings share ``shared_ns`` of the upper bound. ``step_ns`` is the
 *     mean step time.
 */
export interface Saving {
  high_ns: number
  low_ns: number
  shared_ns: number
  step_ns: number
}
/**
 * A Figures holds named numbers of one subject.
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
 * A timeline lists lanes in order, and levels of tiles. Times are ns since the start of the trace.
 */
export interface Timeline {
  busy: number[]
  busy_is_device: boolean
  categories: string[]
  end_ns: number
  groups: number[]
  has_modules: boolean
  is_range_trace: boolean
  kind: 'timeline'
  levels: TimelineLevel[]
  start_ns: number
  total_events: number
  tracks: TimelineTrack[]
}
/**
 * A level merges events of one row that are shorter than ``cell_ns`` and start in the same cell.
 */
export interface TimelineLevel {
  cell_ns: number
  tile_ns: number
}
/**
 * A track is one lane: a host thread, its Python calls, or a device stream.
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
 * A Flows has arrows and their events, each as columns of equal length.
 *
 *     An event (a point) has its number (``event``), its ``lane`` (position in the ordered list of all lanes of the
 *     trace), the ``row`` of that lane and times; ``name`` and ``category`` index ``names`` and ``categories``. An arrow
 *     leads ``from`` one position in those columns ``to`` another; ``arrow`` indexes ``kinds``.
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
  label: number[]
  lane: number[]
  name: number[]
  names: string[]
  row: number[]
  start_ns: number[]
  to: number[]
  total: number
}
/**
 * A Counters has quantities in ``bins`` equal bins of ``[start_ns, end_ns)``.
 *
 *     Bin i starts at ``start_ns + floor((end_ns - start_ns) * i / bins)`` and ends at the start of the next one.
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
 * A counter is one quantity in the bins of a Counters, null where unknown.
 *
 *     ``low`` and ``high`` are the lowest and highest value in a bin, ``mean`` is weighted by time.
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
/**
 * A Bands is a tile of the active-memory timeline: at most 512 columns and their blocks.
 *
 *     In the layer of segments, segments take the place of blocks and count as allocated while they exist.
 *
 *     Column i of tile t on a level covers ``width`` units of the axis from ``(t * 512 + i) * width``: states of the
 *     history (state 0 is before the first event, state e + 1 is after event e), or nanoseconds since the first event of
 *     the snapshot. It shows one exact state: the first covered state with the most active bytes, or the state before if
 *     none is covered. Blocks are in stacking order, the lowest first.
 */
export interface Bands {
  active_bytes: number[]
  begin: number[]
  block: number[]
  categories: string[]
  category: number[]
  end: number[]
  envelope: number[]
  envelopes: BandsEnvelope[]
  event: number[]
  extent: number
  first: number[]
  freed: number[]
  has_private_pools: boolean
  has_times: boolean
  hidden: number
  kind: 'bands'
  level: number
  levels: number
  life_ns: number[]
  lines: string[]
  modules: string[]
  name: string
  peak_bytes: number
  peak_event: number
  rest_bytes: number[]
  size_bytes: number[]
  stack: number[]
  stack_number: number[]
  tile: number
  time_ns: number[]
  title: string
  width: number
}
/**
 * A BandsEnvelope is the peak of a private pool on a stream; its blocks are stacked in it from below.
 */
export interface BandsEnvelope {
  height_bytes: number[]
  name: string
}
/**
 * A memory map lists segments (``row_*``, by address) and their used pieces (``piece_*``); the rest is free.
 *
 *     If there are too many blocks, neighbours of one kind smaller than ``cell_bytes`` are merged into one piece.
 */
export interface MemoryMap {
  cell_bytes: number
  event: number
  groups: MapGroup[]
  kind: 'memory_map'
  lines: string[]
  piece_begin: number[]
  piece_block: number[]
  piece_blocks: number[]
  piece_bytes: number[]
  piece_in_way: boolean[]
  piece_is_pending: boolean[]
  piece_line: number[]
  piece_offset: number[]
  piece_span: number[]
  piece_unused: number[]
  row_address: string[]
  row_bytes: number[]
  row_first: number[]
  row_group: number[]
  row_is_expandable: boolean[]
  row_is_large: boolean[]
  row_used_bytes: number[]
}
/**
 * A group has the segments of one stream and pool. Blocks fit only into free memory of their own group.
 */
export interface MapGroup {
  allocated_bytes: number
  free_bytes: number
  pending_bytes: number
  pool: string
  reserved_bytes: number
  stream: string
}
/**
 * A MemoryFlowMap lists the tensors of a part of memory and time, by time of creation.
 *
 *     Addresses are positions on an axis without large gaps: regions follow each other, separated by a strip.
 */
export interface MemoryFlowMap {
  cell_column: number[]
  cell_columns: number
  cell_end: number[]
  cell_first: number[]
  cell_rows: number
  created_ns: number[]
  end_ns: number
  extent_bytes: number
  first_ns: number
  hidden: number
  high_bytes: number
  is_released: boolean[]
  kind: 'memory_flow'
  last_ns: number
  layout: number[]
  layouts: string[]
  low_bytes: number
  name: string
  offset: number[]
  operator: number[]
  operators: string[]
  region_address: string[]
  region_bytes: number[]
  region_offset: number[]
  released_ns: number[]
  row: number[]
  size_bytes: number[]
  start_ns: number
  tensor: number[]
  tensors: string[]
  title: string
}
/**
 * A heat has one number per row and column, row by row in ``values``.
 *
 *     If there are too many steps, a column covers ``merged`` steps and its value is their maximum.
 */
export interface Heat {
  category: string
  choices: Metric[]
  groupings: Grouping[]
  kind: 'heat'
  means: (number | null)[]
  merged: number
  metric: Metric
  name: string
  row_metric: Metric
  rows: string[]
  subtitle: string
  title: string
  values: (number | null)[]
  worst: number[]
  x: string[]
  x_metric: Metric
}
/**
 * A grouping gives the group of each row and its position in it; -1 if unknown.
 */
export interface Grouping {
  groups: string[]
  key: string
  of: number[]
  place: number[]
  title: string
}

export type Unit = Metric['unit']
export type Scalar = Figure['value']
export type Payload = View['payloads'][string]
export type Kind = Payload['kind']
export type Severity = Notice['severity']
