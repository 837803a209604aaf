"""The trace model: reader output (RawTrace) and assembled TraceTable.

Both classes share the columns of ``_TraceColumns``.

A RawTrace contains the events in file order, exactly as read. ``assemble`` (assemble.py) sorts the events, excludes
impossible times, and computes nesting, launches and steps. The resulting TraceTable is immutable and is stored in
one Arrow file.

Rows are events with a duration. Properties that only some rows have are in side tables ("sections"). In a section,
the ``row`` column contains the row to which each entry belongs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from tb_plugin.lib.arrays import Bool, Float64, Int16, Int32, Int64, UInt8
from tb_plugin.model.trace.extra_columns import (
    AllocatorBlocks,
    AllocatorTotals,
    OpenColumn,
    ReportedMemory,
    ReportedSteps,
    ReportedTable,
)
from tb_plugin.model.trace.graph_capture import Captured, merge_captures
from tb_plugin.model.trace.hardware import DeviceInfo
from tb_plugin.model.trace.kernel_rules import ClassNames
from tb_plugin.model.trace.recorder import UNKNOWN_RECORDER, Recorder
from tb_plugin.model.trace.report import ReadReport
from tb_plugin.model.trace.schema import MISSING, CallRole, EventKind, no_rows
from tb_plugin.model.trace.served_work import Served
from tb_plugin.model.trace.strings import StringTable

_YEAR_2000_NS = 946_684_800 * 10**9


class OperatorArgs(msgspec.Struct, frozen=True, eq=False):
    """Arguments of CPU operators and annotations: string ids, except the last two columns. -1 = absent."""

    row: Int32 = no_rows(np.int32)
    shapes: Int32 = no_rows(np.int32)
    """Text of ``Input Dims`` as compact JSON, such as ``[[2, 8], []]``. The separator is ", "."""
    types: Int32 = no_rows(np.int32)
    """Text of ``Input type`` as compact JSON."""
    strides: Int32 = no_rows(np.int32)
    concrete: Int32 = no_rows(np.int32)
    """Text of ``Concrete Inputs``."""
    stack: Int32 = no_rows(np.int32)
    """Text of ``Call stack``: stack frames separated by ``;``, innermost first."""
    sequence: Int64 = no_rows(np.int64)
    """Autograd sequence number; -1 = absent."""
    forward_thread: Int64 = no_rows(np.int64)
    """Value of ``Fwd thread id``; -1 = absent."""


class PythonArgs(msgspec.Struct, frozen=True, eq=False):
    row: Int32 = no_rows(np.int32)
    python_id: Int64 = no_rows(np.int64)
    parent_id: Int64 = no_rows(np.int64)
    module_id: Int64 = no_rows(np.int64)


class DeviceArgs(msgspec.Struct, frozen=True, eq=False):
    """Arguments of kernels, memcpys and memsets; -1 or NaN = absent."""

    row: Int32 = no_rows(np.int32)
    stream: Int32 = no_rows(np.int32)
    """String id of the stream's number or name."""
    grid: Int32 = no_rows(np.int32)
    """String id of the grid size, as text ``[x, y, z]``."""
    block: Int32 = no_rows(np.int32)
    registers: Int64 = no_rows(np.int64)
    shared_memory: Int64 = no_rows(np.int64)
    """Shared memory per block, in bytes."""
    blocks_per_sm: Float64 = no_rows(np.float64)
    occupancy: Float64 = no_rows(np.float64)
    """Estimated achieved occupancy, from 0 to 1."""
    bytes: Int64 = no_rows(np.int64)
    """Number of bytes that are copied or set."""
    direction: Int32 = no_rows(np.int32)
    """String id of the copy direction, which is recorded separately from the event name."""


class ClippedRows(msgspec.Struct, frozen=True, eq=False):
    """Rows whose recorded duration is implausible and was shortened in ``dur_ns`` (see overflow.py)."""

    row: Int32 = no_rows(np.int32)
    recorded_ns: Int64 = no_rows(np.int64)


class CallNames(msgspec.Struct, frozen=True, eq=False):
    name: Int32 = no_rows(np.int32)
    role: UInt8 = no_rows(np.uint8)


class CollectiveArgs(msgspec.Struct, frozen=True, eq=False):
    """Arguments of record_param_comms events and of the kernels launched by them. -1 = absent."""

    row: Int32 = no_rows(np.int32)
    name: Int32 = no_rows(np.int32)
    dtype: Int32 = no_rows(np.int32)
    in_elements: Int64 = no_rows(np.int64)
    out_elements: Int64 = no_rows(np.int64)
    group_size: Int64 = no_rows(np.int64)
    group_name: Int32 = no_rows(np.int32)
    group_description: Int32 = no_rows(np.int32)
    group_ranks: Int32 = no_rows(np.int32)
    sequence: Int64 = no_rows(np.int64)
    source_rank: Int64 = no_rows(np.int64)
    """Global rank of the sender; only for a recv."""
    destination_rank: Int64 = no_rows(np.int64)
    """Global rank of the receiver; only for a send."""


class MemoryEvents(msgspec.Struct, frozen=True, eq=False):
    """Allocator events by time, which are not rows. Absent totals are -1; absent addresses are 0."""

    time_ns: Int64 = no_rows(np.int64)
    bytes: Int64 = no_rows(np.int64)
    """Size in bytes; positive for allocations, negative for releases."""
    address: Int64 = no_rows(np.int64)
    total_allocated: Int64 = no_rows(np.int64)
    total_reserved: Int64 = no_rows(np.int64)
    device_type: Int32 = no_rows(np.int32)
    """c10 DeviceType: 0 CPU, 1 CUDA, 6 HIP, 12 XPU, ..."""
    device_id: Int32 = no_rows(np.int32)
    pid: Int32 = no_rows(np.int32)
    tid: Int32 = no_rows(np.int32)


class CounterEvents(msgspec.Struct, frozen=True, eq=False):
    """Counter values by time, which are not rows. Each is valid until the next value of its series."""

    time_ns: Int64 = no_rows(np.int64)
    value: Float64 = no_rows(np.float64)
    """Value of the counter; never infinite or NaN."""
    event: Int32 = no_rows(np.int32)
    """Index in the file of the event that contains the value. One event may contain values of several series."""
    name: Int32 = no_rows(np.int32)
    """String id of the counter's name. If the event has an id, this id follows the name in brackets."""
    series: Int32 = no_rows(np.int32)
    """String id of the argument that contains the value."""
    pid: Int32 = no_rows(np.int32)
    """String id of the process. Each process has its own counters."""
    tid: Int32 = no_rows(np.int32)


class CounterSeries(msgspec.Struct, frozen=True, eq=False):
    """Reported properties of some counter series, keyed as in ``CounterEvents``; -1 = not reported."""

    pid: Int32 = no_rows(np.int32)
    name: Int32 = no_rows(np.int32)
    series: Int32 = no_rows(np.int32)
    unit: Int32 = no_rows(np.int32)
    """String id of the unit (see ``analysis/recorded_units.py``), otherwise taken from the end of the name."""
    device: Int32 = no_rows(np.int32)
    """String id of the ``DeviceInfo.id`` of the series' device."""


class Flows(msgspec.Struct, frozen=True, eq=False):
    """Arrows from forward to backward operators, in file order within each flow id."""

    start_time_ns: Int64 = no_rows(np.int64)
    start_pid: Int32 = no_rows(np.int32)
    start_tid: Int32 = no_rows(np.int32)
    end_time_ns: Int64 = no_rows(np.int64)
    end_pid: Int32 = no_rows(np.int32)
    end_tid: Int32 = no_rows(np.int32)


class ArrowEnds(msgspec.Struct, frozen=True, eq=False):
    """Recorded arrows between events, in file order.

    Each end of an arrow is a time on a thread or stream. Times are on the same clock as ``start_ns``. An arrow
    connects the innermost events that are active at these two times. If ``to_next`` is set, it ends at the next
    event that begins on the thread or stream. In some traces, the two events of each arrow are recorded.
    ``start_row`` and ``end_row`` are then the rows of these events in file order (-1 = none). Otherwise, both
    columns are empty.
    """

    name: Int32 = no_rows(np.int32)
    start_time_ns: Int64 = no_rows(np.int64)
    start_pid: Int32 = no_rows(np.int32)
    start_tid: Int32 = no_rows(np.int32)
    end_time_ns: Int64 = no_rows(np.int64)
    end_pid: Int32 = no_rows(np.int32)
    end_tid: Int32 = no_rows(np.int32)
    to_next: Bool = no_rows(np.bool_)
    start_row: Int32 = no_rows(np.int32)
    end_row: Int32 = no_rows(np.int32)


class Arrows(msgspec.Struct, frozen=True, eq=False):
    """Recorded arrows between rows by (tail, head), without those that ``launch`` and ``forward`` contain."""

    tail: Int32 = no_rows(np.int32)
    head: Int32 = no_rows(np.int32)
    name: Int32 = no_rows(np.int32)


class AsyncRows(msgspec.Struct, frozen=True, eq=False):
    """Rows of asynchronous operations. Their ``tid`` is the name of a track of the process (see lanes.py)."""

    row: Int32 = no_rows(np.int32)
    operation: Int32 = no_rows(np.int32)


class _TraceColumns(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Columns and sections of a trace before and after assembly. ``name`` and ``category`` are string ids."""

    start_ns: Int64
    dur_ns: Int64
    name: Int32
    category: Int32
    kind: UInt8
    correlation: Int64
    external_id: Int64
    device: Int16
    """Index into ``devices``; -1 on the CPU."""
    is_collective: Bool
    uses_matrix_unit: UInt8
    """``MatrixUse`` of each row; NO for rows that are not kernels."""
    matrix_eligible: Bool
    strings: StringTable
    devices: tuple[DeviceInfo, ...]
    report: ReadReport
    operators: OperatorArgs = msgspec.field(default_factory=OperatorArgs)
    python: PythonArgs = msgspec.field(default_factory=PythonArgs)
    device_args: DeviceArgs = msgspec.field(default_factory=DeviceArgs)
    collectives: CollectiveArgs = msgspec.field(default_factory=CollectiveArgs)
    memory: MemoryEvents = msgspec.field(default_factory=MemoryEvents)
    reported_memory: ReportedMemory = msgspec.field(default_factory=ReportedMemory)
    counters: CounterEvents = msgspec.field(default_factory=CounterEvents)
    counter_series: CounterSeries = msgspec.field(default_factory=CounterSeries)
    calls: CallNames = msgspec.field(default_factory=CallNames)
    classes: ClassNames = msgspec.field(default_factory=ClassNames)
    blocks: AllocatorBlocks = msgspec.field(default_factory=AllocatorBlocks)
    totals: AllocatorTotals = msgspec.field(default_factory=AllocatorTotals)
    components: AllocatorTotals = msgspec.field(default_factory=AllocatorTotals)
    """Memory totals of software components on the device."""
    metadata: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Top-level JSON values of the file, except for the event list."""
    base_time_ns: int | None = None
    """Start of the file's clock in nanoseconds since 1970 (baseTimeNanoseconds); None if unknown."""
    recorder: Recorder = UNKNOWN_RECORDER
    others: tuple[OpenColumn, ...] = ()
    """Recorded properties without a column here, named and ordered as in the profile."""
    reported_tables: tuple[ReportedTable, ...] = ()


class RawTrace(_TraceColumns, frozen=True, eq=False, kw_only=True):
    """Output of a reader: events with a duration, in file order. Times are nanoseconds on the clock of the file.

    ``pid`` and ``tid`` are string ids. The ``row`` of a section is an index in file order. ``correlation`` and
    ``external_id`` are -1 if absent, and 0 if 0 was recorded.
    """

    pid: Int32
    tid: Int32
    flows: Flows = msgspec.field(default_factory=Flows)
    arrows: ArrowEnds = msgspec.field(default_factory=ArrowEnds)
    process_names: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Process name for each pid text. If the process has a label, the label is in parentheses after the name."""
    thread_names: Mapping[tuple[str, str], str] = msgspec.field(default_factory=dict)
    """Thread name for each pair of pid text and tid text."""
    process_order: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Sort key for each pid text, ascending."""
    thread_order: Mapping[tuple[str, str], int] = msgspec.field(default_factory=dict)
    """Sort key of the thread in its process, for each pair of pid text and tid text."""
    nth: Int64 | None = None
    """Nesting order of rows with the same start and end: the outermost row has the lowest number; -1 = not recorded."""
    asynchronous: AsyncRows = msgspec.field(default_factory=AsyncRows)
    window: Window | None = None
    """The part of the file that was read. None if the whole file was read."""
    is_external_id_sure: bool = False
    """Whether external ids identify the requesting operator even on another thread."""
    reported_steps: ReportedSteps | None = None
    """Steps that the profiler reports. None if steps must be derived from the rows."""


class Track(msgspec.Struct, frozen=True):
    """A group of timeline rows: a CPU thread, a device stream, or asynchronous operations."""

    pid: str
    tid: str
    process: str
    thread: str
    is_device: bool
    is_async: bool = False
    """Whether the track contains asynchronous operations, of which ``tid`` is the name."""
    process_order: int = 0
    thread_order: int = 0
    part: int = MISSING
    """Process of the track in a merged file. -1 if the process is unknown, or if the file is not merged."""


class Steps(msgspec.Struct, frozen=True, eq=False):
    """Steps by time, or empty. The window of a step includes its device work (docs/concepts/time.md)."""

    label: tuple[str, ...] = ()
    start_ns: Int64 = no_rows(np.int64)
    end_ns: Int64 = no_rows(np.int64)
    host_start_ns: Int64 = no_rows(np.int64)
    host_end_ns: Int64 = no_rows(np.int64)
    recorded: bool = False
    """False if the trace contains no steps. A single step then covers the whole trace."""
    dropped: tuple[str, ...] = ()
    source: str = ""
    """"profiler", "annotation" (of a server), "stated" (by the profile), "inferred", or "" without steps."""
    framework: str = ""
    served: Served = Served()
    """Server work of each step; empty if not recorded."""
    unanswered: str = ""
    """Why repetition gave no steps (see ``steps/repetition.py``), if it was analysed."""

    def take(self, places: Sequence[int]) -> Steps:
        at = np.array(places, np.intp)
        return replace(
            self,
            label=tuple(self.label[i] for i in places),
            start_ns=self.start_ns[at],
            end_ns=self.end_ns[at],
            host_start_ns=self.host_start_ns[at],
            host_end_ns=self.host_end_ns[at],
            served=self.served.take(at),
        )

    def at(self, time_ns: Int64, *, on_host: bool = False) -> Int64:
        """Returns the step that contains each time, in its window or ``on_host``; -1 = none."""
        start, end = (self.host_start_ns, self.host_end_ns) if on_host else (self.start_ns, self.end_ns)
        place = np.searchsorted(start, time_ns, side="right") - 1
        return np.where((place >= 0) & (time_ns < np.append(end, 0)[place]), place, MISSING)


class FullTrace(msgspec.Struct, frozen=True):
    """Data about a whole trace that does not fit into memory, so that only a window of it was opened."""

    end_ns: int
    steps: tuple[str, ...]
    peak_memory_bytes: int
    """Estimated peak memory for opening the whole trace."""
    budget_bytes: int
    first_work_ns: int = MISSING
    """Start of the first device work; -1 if there is no device work."""


class Window(msgspec.Struct, frozen=True, eq=False):
    """The opened part of a trace: all events that overlap ``[begin_ns, end_ns)``. Times are relative to the start
    of the trace.

    The window also includes device work that was launched during the window, and the launches of device work that
    ran during the window. The time between a launch and the end of its work is at most ``lag_ns``.
    """

    origin_ns: int
    """Time in the file at which the trace starts."""
    begin_ns: int
    end_ns: int
    lag_ns: int
    steps: Steps
    """Recorded steps that lie completely inside the window."""
    full: FullTrace


class Coverage(msgspec.Struct, frozen=True):
    """The part of the file on which numbers are based. ``fraction_read`` is its share of all events."""

    start_ns: int
    end_ns: int
    fraction_read: float
    complete: bool
    """True if the file is not truncated and was opened as a whole."""
    full: FullTrace | None = None
    """Data about the whole trace if only a window was opened; otherwise None."""


class TraceTable(_TraceColumns, frozen=True, eq=False, kw_only=True, dict=True, weakref=True):
    """Events with a duration, sorted by start, then longest first, then file order. In integer columns, -1 = none.

    - ``parent``: for operators, modules and runtime calls, the innermost of these that encloses the row on its thread.
    - ``operator``: innermost enclosing operator; for device rows, the operator that launched the work.
    - ``launch``: for device rows, the runtime call that launched the work.
    - ``python_parent``: innermost enclosing Python or module call.
    - ``forward``: for backward operators, the forward operator.
    - ``depth``: vertical position of the row on its track.
    """

    track: Int32
    parent: Int32
    operator: Int32
    launch: Int32
    python_parent: Int32
    forward: Int32
    self_ns: Int64
    """Duration, for operators, modules and runtime calls minus that of direct children."""
    overlaps: Bool
    """Whether the row partially overlaps another row on its thread. Overlapping rows are drawn at different depths."""
    depth: Int16
    tracks: tuple[Track, ...]
    clipped: ClippedRows
    arrows: Arrows
    steps: Steps
    coverage: Coverage
    origin_ns: int
    """Time in the file that becomes time 0."""
    external_disagreements: int
    """Number of device rows whose external id identifies another operator than their launch."""
    captured: Captured = msgspec.field(default_factory=Captured)
    """CUDA graph data of other recordings, added by the caller and never stored with the trace."""

    def with_captured(self, captures: Iterable[tuple[Captured, StringTable]], source: str) -> TraceTable:
        """Returns the trace with CUDA graph data of other recordings. Other columns are shared, not copied."""
        captured, strings = merge_captures(self.strings, captures, source)
        return replace(self, captured=captured, strings=strings)

    def calls_that(self, *roles: CallRole) -> Bool:
        """Returns, for each row, whether it is a runtime or driver call with one of these roles."""
        wanted = self.calls.name[np.isin(self.calls.role, roles)]
        if not len(wanted):  # most traces: no need to check each row
            return np.zeros(len(self), np.bool_)
        names = np.zeros(len(self.strings) + 1, np.bool_)
        names[wanted] = True
        found: Bool = names[self.name] & (self.kind == EventKind.RUNTIME)
        return found

    @property
    def process(self) -> Int32 | None:
        """Returns the process of each row in a merged file (-1 = unknown). Returns None if the file is not merged."""
        parts = np.array([track.part for track in self.tracks], np.int32)
        return parts[self.track] if (parts != MISSING).any() else None

    def ends(self, rows: npt.NDArray[Any]) -> Int64:
        """Returns the ends of these rows, for few rows faster than ``end_ns``."""
        found: Int64 = self.start_ns[rows] + self.dur_ns[rows]
        return found

    @property
    def clock_ns(self) -> int | None:
        """Returns time 0 in nanoseconds since 1970, as in old files or by the base time of new ones; None if unknown."""
        begin = (self.base_time_ns or 0) + self.origin_ns
        return begin if begin > _YEAR_2000_NS else None

    @property
    def end_ns(self) -> Int64:
        return self.start_ns + self.dur_ns

    def __len__(self) -> int:
        return len(self.start_ns)
