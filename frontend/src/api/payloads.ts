// GENERATED from payloads.schema.json by `npm run types`. Do not edit.

export interface Payloads {
  Catalog: Catalog
  Problem: Problem
  Profile: Profile
  Table: Table
  View: View
}
/**
 * A catalog is the answer of ``GET runs``: everything that the log directories hold.
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
 * A problem says what happened, where, and what to do: every error has this shape.
 */
export interface Problem {
  do: string
  what: string
  where: string
}
/**
 * A run is a directory with traces, or a distributed job whose traces lie in several.
 *
 *     ``grouped_by`` says of such a job what of its files is taken as the evidence; it is empty for a directory.
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
 * A metric says what a number is, in which unit, and over which window: what a person sees on hover.
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
 * A skipped file, or folder that is one thing, is no profile; ``reason`` says what it is.
 */
export interface Skipped {
  path: string
  reason: string
}
/**
 * A Profile is the answer of ``GET profile``: the state of one profile and, once ready, what can be asked of it.
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
 * A ViewInfo says whether a view applies to a profile, else why not and what would enable it.
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
 * A CaptureInfo says which recordings tell of the graphs that a trace replays.
 */
export interface CaptureInfo {
  beside: string[]
  how: 'beside' | 'named' | 'none'
  names: string[]
  own: boolean
  problem: Problem | null
}
/**
 * A ClockInfo says when in wall time a profile was recorded: what profiles of one process are laid side by side by.
 */
export interface ClockInfo {
  length_ns: number
  start_unix_ns: string
}
/**
 * A Loading says where the loading of a profile stands.
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
 * A ReadInfo says how the file was read; counts are of ``records``.
 */
export interface ReadInfo {
  complete: boolean
  cut_files: string[]
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
 * An issue is one kind of irregularity that was met while reading (trace/report.py).
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
 * A step can be chosen; its bounds are those with its work on devices, and those on the host (for allocator events).
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
 * A window is the part of a trace that was opened because all of it does not fit into the memory.
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
 * A column has a metric, and says how a table may use it.
 */
export interface Column {
  hidden: boolean
  metric: Metric
  share: boolean
}
/**
 * A sort names the column that rows are ordered by.
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
 * A coverage says how much of the file stands behind the numbers.
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
 * A breakdown takes a total apart. The parts sum to ``total`` exactly (integers).
 *
 *     In a waterfall the parts lead from ``start`` to ``start + total``, and may be negative.
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
 * A slice is one part of a total; ``category`` names its colour.
 */
export interface Slice {
  category: string
  link: Link | null
  metric: Metric
  value: number
}
/**
 * A link leads to a place inside the product: a view and the URL state to open it with.
 */
export interface Link {
  params: {
    [k: string]: string
  }
  text: string
  view: string
}
/**
 * A series holds lines, stacked bars or areas over x: labels (bars) or numbers (others, bin edges).
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
 * A line is one series of values; ``category`` names its colour.
 */
export interface Line {
  category: string
  metric: Metric
  values: (number | null)[]
}
/**
 * A scatter holds groups of dots over two axes. The same numbers stand in the table ``table`` of its view.
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
 * A Dots is one group of dots; ``category`` names its colour and shape, ``label`` what each dot stands for.
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
 * A Notices lists findings, most important first; ``about`` tells those on the training from those on the data.
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
 *     ``text`` and ``todo`` are templates: ``{key}`` stands for the figure with that metric key. ``measure`` is the key of
 *     the figure shown as the badge, ``threshold`` the value it was compared with.
 */
export interface Notice {
  confidence: '' | 'high' | 'low' | 'medium'
  events: number[]
  evidence: Link | null
  figures: Figure[]
  kind: 'notice'
  measure: string | null
  references: Reference[]
  rule: string
  saving: Saving | null
  severity: 'high' | 'info' | 'low' | 'medium'
  shown_by: number
  text: string
  threshold: number | null
  title: string
  todo: string
  why: string
}
/**
 * A reference names an outside document; the page shows it as a link that the person may follow.
 */
export interface Reference {
  text: string
  url: string
}
/**
 * By how much a step would be shorter without what a finding is about: nanoseconds, means over the steps.
 *
 *     The truth lies between ``low_ns`` and ``high_ns``; ``shared_ns`` of the latter other findings would save as well.
 *     ``step_ns`` is the mean time of a step.
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
 * A timeline names the lanes in their order, and what can be asked for. Times are ns since the start of the trace.
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
  only_ranges: boolean
  start_ns: number
  total_events: number
  tracks: TimelineTrack[]
}
/**
 * A level merges events of one row that are each shorter than ``cell_ns`` and start in the same cell of so many ns.
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
 * A Flows holds arrows and the events that they join, each as columns of equal length.
 *
 *     An event (a point) has its number (``event``), its ``lane`` (place in the ordered list of all lanes of the trace), the
 *     ``row`` of that lane and times; ``name`` and ``category`` index ``names`` and ``categories``. An arrow leads ``from`` one
 *     place in those columns ``to`` another; ``arrow`` indexes ``kinds``.
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
 * A Counters holds what quantities did in ``bins`` equal bins of ``[start_ns, end_ns)``.
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
 * A counter is one quantity in the bins of a Counters: arrays as long as there are bins, null where nothing is known.
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
/**
 * A Bands is a tile of the active-memory timeline: at most 512 columns, and the blocks that are there in them.
 *
 *     Of the layer of segments, what is said of blocks holds for segments: they are allocated as long as they are there.
 *
 *     Column i of tile t on a level covers ``width`` units of the axis from ``(t * 512 + i) * width``: states of the history
 *     (state 0 is before the first event, state e + 1 is after event e), or nanoseconds since the first event of the snapshot.
 *     It shows one state exactly: of those that it covers, the first at which most is active; where it covers none, the one
 *     before it. Blocks stand in the order in which they lie on each other, the lowest first.
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
 * A BandsEnvelope is the most that a private pool ever held on a stream; its blocks lie in it, from below.
 */
export interface BandsEnvelope {
  height_bytes: number[]
  name: string
}
/**
 * A memory map lists segments (``row_*``, by address) and what is used of each (``piece_*``); the rest of it is free.
 *
 *     Where there are too many blocks for one answer, neighbours of one kind that are small beside ``cell_bytes`` are one
 *     piece.
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
 * A group holds the segments of one stream and pool. Blocks fit only into free memory of their own group.
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
 * A MemoryFlowMap lists the tensors of a part of memory and time, those that are made first first.
 *
 *     Addresses are told as places on an axis that leaves large gaps out: regions lie one after the other on it, a strip
 *     between two.
 */
export interface MemoryFlowMap {
  cell_column: number[]
  cell_columns: number
  cell_end: number[]
  cell_first: number[]
  cell_rows: number
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
  made_ns: number[]
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
 * A heat holds one number for each row and column, row by row in ``values``.
 *
 *     Where that were too much for one answer a column stands for ``merged`` steps, and its value is the largest of them.
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
 * A grouping says which of its groups each row is in, and at which place of it; -1 where that is not known.
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
