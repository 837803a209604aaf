// GENERATED from payloads.schema.json by `npm run types`. Do not edit.

export interface Payloads {
  Catalog: Catalog
  Problem: Problem
  Profile: Profile
  Report: Report
  Table: Table
  View: View
}
/**
 * The response of ``GET runs``: the content of all log directories.
 */
export interface Catalog {
  first: ProfileName | null
  kind: 'catalog'
  last_scan_unix_ms: number | null
  logdir: string
  path_mappings: PathMapping[]
  perfetto_url: string
  problems: Problem[]
  runs: RunInfo[]
  scanned_files: number
  scanning: boolean
  skipped: Skipped[]
  upload_limit_bytes: number
}
/**
 */
export interface ProfileName {
  run: string
  span: string
  worker: string
}
/**
 * A folder of recorded paths, and the local folder that editor links open instead.
 */
export interface PathMapping {
  local: string
  recorded: string
}
/**
 */
export interface Problem {
  do: string
  what: string
  where: string
}
/**
 * A directory with traces, or a distributed job with traces in several directories.
 *
 *     ``grouped_by`` explains why the directories belong to one job. It is empty for a single directory.
 */
export interface RunInfo {
  grouped_by: string
  is_first: boolean
  is_invented: boolean
  name: string
  title: string
  workers: WorkerInfo[]
}
/**
 */
export interface WorkerInfo {
  name: string
  spans: SpanInfo[]
}
/**
 * One profile of a worker.
 *
 *     ``id`` is used in URLs: "1", "2", ... in order of time. ``time_unix_ms`` is the wall-clock time of the profile,
 *     if known.
 */
export interface SpanInfo {
  device: string | null
  files: string[]
  format: string
  fraction: number
  id: string
  is_empty: boolean
  key_figures: Figure[]
  model: string
  modified_unix_ms: number | null
  problem: Problem | null
  size_bytes: number
  state: 'failed' | 'found' | 'loading' | 'ready'
  step_count: number | null
  time_unix_ms: number | null
}
/**
 */
export interface Figure {
  metric: Metric
  note: string
  value: number | string | boolean | null
}
/**
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
 */
export interface Skipped {
  path: string
  reason: string
}
/**
 * The response of ``GET profile``: the state of a profile and its views.
 */
export interface Profile {
  absent: ViewInfo[]
  capture: CaptureInfo | null
  clock: ClockInfo | null
  data_notice_count: number
  default_view: string
  device_word: string
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
 * Whether a view applies to a profile. If not, the reason and how to enable the view.
 */
export interface ViewInfo {
  available: boolean
  enable: string
  id: string
  page: string
  page_title: string
  tab: string
  title: string
  whole: string
  why: string
}
/**
 * The captures of the CUDA graphs that a trace replays.
 */
export interface CaptureInfo {
  beside: string[]
  how: 'beside' | 'named' | 'none'
  names: string[]
  own: boolean
  problem: Problem | null
}
/**
 * Wall-clock time of a profile, used to align the profiles of one process.
 */
export interface ClockInfo {
  length_ns: number
  start_unix_ns: string
}
/**
 * Loading progress of a profile.
 *
 *     ``seconds`` is the time since the current stage started. ``fraction`` is the progress of this stage, 0..1; None
 *     = unknown.
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
 * How many events of the file were loaded, repaired or dropped, and why. ``records`` is the unit of these numbers.
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
  is_damaged: boolean
  issues: IssueInfo[]
  records: string
  text_bytes: number
}
/**
 * One kind of problem in a file (see model/trace/report.py).
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
 * A step that can be selected.
 *
 *     Start and end include the device work of the step. For allocator events, the host start and the host end are
 *     used.
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
 * The window that is open, for a trace that does not fit in memory.
 *
 *     Times are nanoseconds since the start of the whole trace.
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
 * All data of the file. ``path`` is the location of the recording for ``torch-trace view``.
 */
export interface Report {
  compared_with: string
  created_unix_ms: number
  is_redacted: boolean
  kind: 'report'
  other_profiles: number
  path: string
  phase: string
  profile: Profile
  recorded_unix_ms: number | null
  steps: string
  timeline: ReportTimeline | null
  version: string
  views: ReportView[]
}
/**
 * The timeline of a window. ``head`` is limited to the window, and has one level with one tile.
 *
 *     Events shorter than ``head.levels[0].cell_ns`` are merged if the window has too many events.
 */
export interface ReportTimeline {
  events: ReportEvents
  head: Timeline
}
/**
 * Timeline items as columns, sorted by lane, row and start.
 *
 *     The first ``items[0]`` items are in row ``row[0]`` of track ``lane[0]``, and so on. ``start_delta_ns`` is the start
 *     minus the start of the previous item. ``idle_ns``, ``count``, ``matrix`` and ``module`` are empty if all their values
 *     are 0 (``count``: 1). ``name`` and ``module`` are indices in ``names`` and ``modules``.
 */
export interface ReportEvents {
  category: number[]
  count: number[]
  dur_ns: number[]
  event: number[]
  idle_ns: number[]
  items: number[]
  lane: number[]
  matrix: number[]
  module: number[]
  modules: string[]
  name: number[]
  names: string[]
  row: number[]
  start_delta_ns: number[]
}
/**
 * Lanes in display order, and levels of detail. Times are nanoseconds since the start of the trace.
 */
export interface Timeline {
  busy: number[]
  busy_is_device: boolean
  categories: string[]
  end_ns: number
  groups: number[]
  has_communication: boolean
  has_modules: boolean
  is_range_trace: boolean
  kernels: string[]
  kind: 'timeline'
  levels: TimelineLevel[]
  start_ns: number
  total_events: number
  tracks: TimelineTrack[]
}
/**
 * A level of detail. Events shorter than ``cell_ns`` are merged if they start in the same cell of a row.
 */
export interface TimelineLevel {
  cell_ns: number
  tile_ns: number
}
/**
 * One lane: a host thread, the Python calls of a thread, or a device stream.
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
 * A view of the report. ``omitted`` contains the titles of its payloads that are not in the file.
 */
export interface ReportView {
  id: string
  omitted: string[]
  page: string
  page_title: string
  title: string
  view: View | null
  why: string
}
/**
 * The payloads of a view in display order. For a table, only the first page is included.
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
 * The part of the file to which the numbers apply.
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
 * One page of rows, with one value per column key. ``totals`` contains the sums over all rows, before filtering.
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
  sql: string
  title: string
  total_rows: number
  totals: {
    [k: string]: number | string | boolean | null
  }
}
/**
 */
export interface Column {
  hidden: boolean
  metric: Metric
  share: boolean
}
/**
 */
export interface Sort {
  descending: boolean
  key: string
}
/**
 * A total and its slices. They are integers and add up exactly.
 *
 *     In a waterfall, the slices may be negative. They lead from ``start`` to ``start + total``.
 */
export interface Breakdown {
  interval: Interval | null
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
 * 95 % interval of a change, in the unit of the change. The change is within noise if the interval contains 0.
 */
export interface Interval {
  high: number
  low: number
}
/**
 * One slice of a total. ``category`` selects the colour.
 */
export interface Slice {
  category: string
  interval: Interval | null
  link: Link | null
  metric: Metric
  value: number
}
/**
 */
export interface Link {
  params: {
    [k: string]: string
  }
  text: string
  view: string
}
/**
 * Lines, stacked bars or areas over x. For bars, ``x`` contains labels. Otherwise ``x`` contains numbers or bin edges.
 */
export interface Series {
  kind: 'series'
  lines: Line[]
  name: string
  sql: string
  style: 'histogram' | 'lines' | 'stacked_area' | 'stacked_bars'
  subtitle: string
  title: string
  x: (number | string)[]
  x_metric: Metric
}
/**
 * One series of values. ``category`` selects the colour.
 */
export interface Line {
  category: string
  metric: Metric
  values: (number | null)[]
}
/**
 * Groups of dots over two axes. The table ``table`` of the view contains the same numbers.
 */
export interface Scatter {
  groups: Dots[]
  is_log: boolean
  kind: 'scatter'
  limits: Limit[]
  name: string
  noun: string
  subtitle: string
  table: string
  title: string
  x_metric: Metric
  y_metric: Metric
}
/**
 * One group of dots. ``category`` selects their colour and shape.
 *
 *     ``label`` contains the key of each dot's row, with U+001E between the values of several key columns.
 */
export interface Dots {
  category: string
  label: string[]
  share: number[]
  title: string
  x: number[]
  y: number[]
}
/**
 * A line that no dot should cross.
 */
export interface Limit {
  title: string
  x: number[]
  y: number[]
}
/**
 * Nodes in pre-order.
 *
 *     ``parent[i]`` is the index of the parent of node i (-1 = root). ``rows[i]`` has one value per column key.
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
 * Findings, most important first. ``about`` is their subject: the training, the data, or the question of the view.
 */
export interface Notices {
  about: 'answer' | 'data' | 'training'
  kind: 'notices'
  name: string
  notices: Notice[]
  title: string
}
/**
 * One finding or one notice about the data.
 *
 *     ``text``, ``why`` and ``todo`` are templates. ``{key}`` is replaced by the number with that metric key.
 *     ``measure`` is the key of the number that was compared with ``threshold``.
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
  snippet: string
  text: string
  threshold: number | null
  title: string
  todo: string
  why: string
}
/**
 */
export interface Reference {
  text: string
  url: string
}
/**
 * Estimated time saved per step by the fix, in nanoseconds.
 *
 *     The saving is between ``low_ns`` and ``high_ns``. Savings of several findings overlap: ``shared_ns`` is the part
 *     of ``high_ns`` that other findings include as well. ``step_ns`` is the mean step time.
 */
export interface Saving {
  high_ns: number
  low_ns: number
  shared_ns: number
  step_ns: number
}
/**
 * Numbers with names, about one subject.
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
 * Arrows and the events that they connect, as columns.
 *
 *     Event columns: ``event`` is the event number. ``lane`` is an index in the lanes of the trace. ``row`` is the row
 *     within the lane. ``name`` and ``category`` are indices in ``names`` and ``categories``.
 *
 *     Arrow columns: ``from`` and ``to`` are indices in the event columns. ``arrow`` is an index in ``kinds``.
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
 * Counters in ``bins`` bins of equal length in ``[start_ns, end_ns)``.
 *
 *     Bin i starts at ``start_ns + floor((end_ns - start_ns) * i / bins)`` and ends at the start of the next bin.
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
 * One quantity in time bins of equal length; null = unknown.
 *
 *     ``low`` and ``high`` are the minimum and maximum in each bin. ``mean`` is the time-weighted mean.
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
 * A tile of the active-memory timeline: at most 512 columns and their blocks.
 *
 *     In the segment layer, segments replace blocks. A segment counts as allocated while it exists.
 *
 *     The unit of the x axis is either nanoseconds since the first event, or states of the allocator history. State 0
 *     is before the first event, and state e + 1 is after event e. Column i of tile t starts at ``(t * 512 + i) *
 *     width`` and is ``width`` units wide. A column shows the state with the most active bytes among its states. A
 *     column without any state shows the previous state. Blocks are in stacking order, lowest first.
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
 * Peak memory of a private pool on one stream. The blocks of this pool are drawn inside the envelope.
 */
export interface BandsEnvelope {
  height_bytes: number[]
  name: string
}
/**
 * Segments (``row_*``, in order of address) and their used parts (``piece_*``). All other memory in a segment
 *     is free.
 *
 *     If there are too many blocks, adjacent blocks are merged if they have the same kind and are smaller than
 *     ``cell_bytes``.
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
 * The segments of one stream and pool. A block fits only into free memory of its own stream and pool.
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
 * Tensors in a range of addresses and time, in order of creation.
 *
 *     The address axis has no large gaps: each memory region starts shortly after the end of the previous region.
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
 * A heat map. ``values`` contains one number per cell, row by row.
 *
 *     If there are too many steps, each column shows the maximum over ``merged`` steps.
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
