"""The trace model: reader output (RawTrace) and assembled TraceTable.

Both are in one file because they have the same sections: a new column is added to both.

A RawTrace has the events in file order, exactly as read. ``assemble`` (assemble.py) sorts them, excludes impossible
times, and computes nesting, launches and steps. The resulting TraceTable is immutable and is stored in one Arrow
file.

Rows are events with a duration. Properties of only some rows are in side tables ("sections"). The ``row`` column of
a section has the row that each entry is about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

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

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Int16 = npt.NDArray[np.int16]
UInt8 = npt.NDArray[np.uint8]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

_YEAR_2000_NS = 946_684_800 * 10**9


class OperatorArgs(msgspec.Struct, frozen=True, eq=False):
    """Arguments of CPU operators and annotations. All columns except the last two are string ids. -1 = absent."""

    row: Int32 = no_rows(np.int32)
    shapes: Int32 = no_rows(np.int32)
    """Text of ``Input Dims`` as compact JSON, such as ``[[2, 8], []]``. The separator is ", "."""
    types: Int32 = no_rows(np.int32)
    """Text of ``Input type`` as compact JSON."""
    strides: Int32 = no_rows(np.int32)
    concrete: Int32 = no_rows(np.int32)
    """Text of ``Concrete Inputs``."""
    stack: Int32 = no_rows(np.int32)
    """Text of ``Call stack``: frames separated by ``;``, innermost first."""
    sequence: Int64 = no_rows(np.int64)
    """Autograd sequence number; -1 = absent."""
    forward_thread: Int64 = no_rows(np.int64)
    """Value of ``Fwd thread id``; -1 = absent."""


class PythonArgs(msgspec.Struct, frozen=True, eq=False):
    """Arguments of Python function calls and modules; -1 = absent."""

    row: Int32 = no_rows(np.int32)
    python_id: Int64 = no_rows(np.int64)
    parent_id: Int64 = no_rows(np.int64)
    module_id: Int64 = no_rows(np.int64)


class DeviceArgs(msgspec.Struct, frozen=True, eq=False):
    """Arguments of kernels, memcpys and memsets; -1 or NaN = absent."""

    row: Int32 = no_rows(np.int32)
    stream: Int32 = no_rows(np.int32)
    """String id of the stream."""
    grid: Int32 = no_rows(np.int32)
    """String id of ``[x, y, z]``."""
    block: Int32 = no_rows(np.int32)
    registers: Int64 = no_rows(np.int64)
    """Registers per thread."""
    shared_memory: Int64 = no_rows(np.int64)
    """Shared memory per block, in bytes."""
    blocks_per_sm: Float64 = no_rows(np.float64)
    occupancy: Float64 = no_rows(np.float64)
    """Estimated achieved occupancy, from 0 to 1."""
    bytes: Int64 = no_rows(np.int64)
    """Bytes copied or set."""
    direction: Int32 = no_rows(np.int32)
    """String id of the copy direction, recorded in addition to the name."""


class ClippedRows(msgspec.Struct, frozen=True, eq=False):
    """Rows with an implausible recorded duration. The table has a shorter one in ``dur_ns`` (overflow.py)."""

    row: Int32 = no_rows(np.int32)
    recorded_ns: Int64 = no_rows(np.int64)


class CallNames(msgspec.Struct, frozen=True, eq=False):
    """Names of runtime and driver calls whose role is known."""

    name: Int32 = no_rows(np.int32)
    role: UInt8 = no_rows(np.uint8)
    """``CallRole`` of the name."""


class CollectiveArgs(msgspec.Struct, frozen=True, eq=False):
    """Arguments of collectives: of record_param_comms events, and of the kernels that they launch. -1 = absent."""

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
    """Global rank that sends; only for a recv."""
    destination_rank: Int64 = no_rows(np.int64)
    """Global rank that receives; only for a send."""


class MemoryEvents(msgspec.Struct, frozen=True, eq=False):
    """Allocator events, sorted by time. They are not rows of the trace table.

    Absent totals are -1; absent addresses are 0.
    """

    time_ns: Int64 = no_rows(np.int64)
    bytes: Int64 = no_rows(np.int64)
    """Positive for allocations, negative for releases."""
    address: Int64 = no_rows(np.int64)
    total_allocated: Int64 = no_rows(np.int64)
    total_reserved: Int64 = no_rows(np.int64)
    device_type: Int32 = no_rows(np.int32)
    """c10 DeviceType: 0 CPU, 1 CUDA, 6 HIP, 12 XPU, ..."""
    device_id: Int32 = no_rows(np.int32)
    pid: Int32 = no_rows(np.int32)
    tid: Int32 = no_rows(np.int32)


class CounterEvents(msgspec.Struct, frozen=True, eq=False):
    """Values of recorded counters, sorted by time. They are not rows of the trace table.

    A value is valid until the next value of its series.
    """

    time_ns: Int64 = no_rows(np.int64)
    value: Float64 = no_rows(np.float64)
    """Value of the counter. It is always finite."""
    event: Int32 = no_rows(np.int32)
    """Index in the file of the event that has the value. One event may have values of several series."""
    name: Int32 = no_rows(np.int32)
    """String id of the counter's name. If the event has an id, the name is followed by that id in brackets."""
    series: Int32 = no_rows(np.int32)
    """String id of the argument that has the value."""
    pid: Int32 = no_rows(np.int32)
    """String id of the process. Each process has its own counters."""
    tid: Int32 = no_rows(np.int32)


class CounterSeries(msgspec.Struct, frozen=True, eq=False):
    """Reported properties of counter series. A series without reported properties has no row.

    ``pid``, ``name`` and ``series`` are as in ``CounterEvents``; -1 = not reported.
    """

    pid: Int32 = no_rows(np.int32)
    name: Int32 = no_rows(np.int32)
    series: Int32 = no_rows(np.int32)
    unit: Int32 = no_rows(np.int32)
    """String id of the unit, such as "bytes", "%", "ms" or "MHz" (see ``analysis/recorded_units.py``).

    If no unit is reported, but the name ends with a unit in parentheses, that unit is used.
    """
    device: Int32 = no_rows(np.int32)
    """String id of the device's ``DeviceInfo.id``."""


class Flows(msgspec.Struct, frozen=True, eq=False):
    """Arrows from forward to backward operators, by flow id and in file order.

    Times are on the same clock as the ``start_ns`` of rows.
    """

    start_time_ns: Int64 = no_rows(np.int64)
    start_pid: Int32 = no_rows(np.int32)
    start_tid: Int32 = no_rows(np.int32)
    end_time_ns: Int64 = no_rows(np.int64)
    end_pid: Int32 = no_rows(np.int32)
    end_tid: Int32 = no_rows(np.int32)


class ArrowEnds(msgspec.Struct, frozen=True, eq=False):
    """Recorded arrows between events, in file order.

    Each end is a thread or stream and a time, on the same clock as ``start_ns``. An arrow starts at the innermost
    event open at its start time. It ends at the innermost event open at its end time, or, with ``to_next``, at the
    next event that begins on the thread or stream. Some traces record the events of an arrow directly.
    ``start_row`` and ``end_row`` are then their rows in file order (-1 = none). In other traces, both columns are
    empty.
    """

    name: Int32 = no_rows(np.int32)
    """String id of the arrow's name."""
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
    """Recorded arrows between rows, sorted by (tail, head).

    Arrows of launches and forward operators are not included: they are in columns of their own.
    """

    tail: Int32 = no_rows(np.int32)
    """Row where the arrow starts."""
    head: Int32 = no_rows(np.int32)
    """Row where the arrow ends."""
    name: Int32 = no_rows(np.int32)
    """String id of the arrow's name."""


class AsyncRows(msgspec.Struct, frozen=True, eq=False):
    """Rows of asynchronous operations, which have no thread.

    The ``tid`` of such a row is the name of a track of the process (see lanes.py).
    """

    row: Int32 = no_rows(np.int32)
    operation: Int32 = no_rows(np.int32)
    """Number of the operation. The rows of one operation are nested."""


class RawTrace(msgspec.Struct, frozen=True, eq=False):
    """Output of a reader: events with a duration, in file order. Times are nanoseconds, on the clock of the file.

    ``pid``, ``tid``, ``name`` and ``category`` are string ids. The ``row`` of a section is an index in file order.
    ``correlation`` and ``external_id`` are -1 if absent, and 0 if recorded as 0. ``device`` is an index into
    ``devices``; -1 on the CPU.
    """

    start_ns: Int64
    dur_ns: Int64
    name: Int32
    category: Int32
    kind: UInt8
    pid: Int32
    tid: Int32
    correlation: Int64
    external_id: Int64
    device: Int16
    is_collective: Bool
    uses_matrix_unit: UInt8
    """``MatrixUse`` of each row; NO for rows other than kernels."""
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
    flows: Flows = msgspec.field(default_factory=Flows)
    arrows: ArrowEnds = msgspec.field(default_factory=ArrowEnds)
    process_names: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Process name for each pid text. A process label follows in parentheses."""
    thread_names: Mapping[tuple[str, str], str] = msgspec.field(default_factory=dict)
    """Thread name for each pair of pid text and tid text."""
    process_order: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Sort key for each pid text, ascending."""
    thread_order: Mapping[tuple[str, str], int] = msgspec.field(default_factory=dict)
    """Sort key of the thread in its process, for each pair of pid text and tid text."""
    nth: Int64 | None = None
    """Nesting order of rows that have the same start and end, outermost first; -1 = not recorded."""
    asynchronous: AsyncRows = msgspec.field(default_factory=AsyncRows)
    metadata: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Top-level JSON values of the file, except for the event list."""
    base_time_ns: int | None = None
    """Nanoseconds to add to a time in the file to get the time since 1970 (baseTimeNanoseconds); None if unknown."""
    window: Window | None = None
    """The part of the file that was read. None if the whole file was read."""
    is_external_id_sure: bool = False
    """Whether the external id of device work always identifies the operator that requested the work, even on
    another thread.
    """
    recorder: Recorder = UNKNOWN_RECORDER
    calls: CallNames = msgspec.field(default_factory=lambda: CallNames())
    classes: ClassNames = msgspec.field(default_factory=lambda: ClassNames())
    reported_steps: ReportedSteps | None = None
    """Steps that the profiler reports. None if steps must be derived from rows."""
    others: tuple[OpenColumn, ...] = ()
    """Recorded properties that have no column of their own, with their names in the profile."""
    reported_tables: tuple[ReportedTable, ...] = ()
    blocks: AllocatorBlocks = msgspec.field(default_factory=AllocatorBlocks)
    totals: AllocatorTotals = msgspec.field(default_factory=AllocatorTotals)
    components: AllocatorTotals = msgspec.field(default_factory=AllocatorTotals)
    """Memory totals of the device's software components."""


class Track(msgspec.Struct, frozen=True):
    """One row group of the timeline: a CPU thread, a device stream, or asynchronous operations."""

    pid: str
    tid: str
    process: str
    thread: str
    is_device: bool
    is_async: bool = False
    """Whether the track has asynchronous operations instead of a thread. ``tid`` is then the name of the operations."""
    process_order: int = 0
    """Sort key of the process, ascending."""
    thread_order: int = 0
    part: int = MISSING
    """Process of the track in a merged file; -1 if unknown, and in other files."""


class Steps(msgspec.Struct, frozen=True, eq=False):
    """Steps sorted by time. Empty if no steps were recorded. Windows include device work (docs/concepts/time.md)."""

    label: tuple[str, ...] = ()
    start_ns: Int64 = no_rows(np.int64)
    end_ns: Int64 = no_rows(np.int64)
    host_start_ns: Int64 = no_rows(np.int64)
    host_end_ns: Int64 = no_rows(np.int64)
    recorded: bool = False
    """False if the trace has no steps. A single step then covers the whole trace."""
    dropped: tuple[str, ...] = ()
    """Labels of steps at the end that were dropped because their device work was not recorded completely."""
    source: str = ""
    """"profiler", "annotation" (of a server), "stated" (reported by the profile) or "inferred"; "" without steps."""
    framework: str = ""
    """Display name of the framework that wrote the annotations."""
    served: Served = Served()
    """Server work of each step; empty if not recorded."""
    unanswered: str = ""
    """Reason why no steps were found by repetition (see ``steps/repetition.py``). "" if there are steps, or if
    repetition was not searched.
    """

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
        """Returns the index of the step that contains each time; -1 = none.

        ``on_host`` uses the step's time on the CPU instead of its window.
        """
        start, end = (self.host_start_ns, self.host_end_ns) if on_host else (self.start_ns, self.end_ns)
        place = np.searchsorted(start, time_ns, side="right") - 1
        return np.where((place >= 0) & (time_ns < np.append(end, 0)[place]), place, MISSING)


class FullTrace(msgspec.Struct, frozen=True):
    """Data about the whole trace. Only set if the trace does not fit into memory, so that only a window was opened."""

    end_ns: int
    steps: tuple[str, ...]
    """Labels of all recorded steps."""
    peak_memory_bytes: int
    """Estimated peak memory to open the whole trace."""
    budget_bytes: int
    """Memory available to readers."""
    first_work_ns: int = MISSING
    """Start of the first device work; -1 if there is no device work."""


class Window(msgspec.Struct, frozen=True, eq=False):
    """The part of a trace that was opened: all events that overlap ``[begin_ns, end_ns)``. Times are relative to
    the start of the trace.

    The window also includes device work that was launched in it, and the launches of device work that ran in it. At
    most ``lag_ns`` lies between a launch and the end of its work.
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
    """The part of the file on which numbers are based. Every payload includes it.

    ``start_ns`` and ``end_ns`` are the limits of the part that was opened. ``fraction_read`` is its share of all
    events.
    """

    start_ns: int
    end_ns: int
    fraction_read: float
    complete: bool
    """Whether the file is not truncated and was opened as a whole."""
    full: FullTrace | None = None
    """The whole trace, if only a window was opened; otherwise None."""


class TraceTable(msgspec.Struct, frozen=True, eq=False, dict=True, weakref=True):
    """Events with a duration, sorted by start, then longest first, then file order. In integer columns, -1 = none.

    - ``parent``: for operators, modules and runtime calls, the innermost of these that encloses the row on its thread.
    - ``operator``: innermost enclosing operator; for device rows, the operator that launched the work.
    - ``launch``: for device rows, the runtime call that launched the work.
    - ``python_parent``: innermost enclosing Python or module call.
    - ``forward``: for backward operators, the forward operator.
    - ``depth``: vertical position of the row on its track.
    """

    start_ns: Int64
    dur_ns: Int64
    name: Int32
    category: Int32
    kind: UInt8
    track: Int32
    device: Int16
    correlation: Int64
    external_id: Int64
    is_collective: Bool
    uses_matrix_unit: UInt8
    """``MatrixUse`` of each row; NO for rows other than kernels."""
    matrix_eligible: Bool
    parent: Int32
    operator: Int32
    launch: Int32
    python_parent: Int32
    forward: Int32
    self_ns: Int64
    """For operators, modules and runtime calls: the duration minus that of direct children.

    For other rows: the duration.
    """
    overlaps: Bool
    """Whether the row partially overlaps another row on its thread. Such a row is drawn at another depth."""
    depth: Int16

    strings: StringTable
    tracks: tuple[Track, ...]
    devices: tuple[DeviceInfo, ...]
    operators: OperatorArgs
    python: PythonArgs
    device_args: DeviceArgs
    collectives: CollectiveArgs
    clipped: ClippedRows
    calls: CallNames
    classes: ClassNames
    memory: MemoryEvents
    reported_memory: ReportedMemory
    counters: CounterEvents
    counter_series: CounterSeries
    arrows: Arrows
    steps: Steps
    metadata: Mapping[str, Any]
    report: ReadReport
    coverage: Coverage
    origin_ns: int
    """Time in the file that becomes time 0."""
    base_time_ns: int | None
    external_disagreements: int
    """Number of device rows whose external id and launch identify different operators."""
    others: tuple[OpenColumn, ...]
    """Recorded properties that have no column of their own, in the order of the profile."""
    reported_tables: tuple[ReportedTable, ...]
    blocks: AllocatorBlocks
    totals: AllocatorTotals
    components: AllocatorTotals
    recorder: Recorder
    captured: Captured = msgspec.field(default_factory=Captured)
    """Data from other recordings about the graphs that this trace replays.

    The caller adds it; it is never stored with the trace.
    """

    def with_captured(self, captures: Iterable[tuple[Captured, StringTable]], source: str) -> TraceTable:
        """Returns the trace with data added from other recordings about its graphs.

        All other columns are shared, not copied.
        """
        captured, strings = merge_captures(self.strings, captures, source)
        return replace(self, captured=captured, strings=strings)

    def calls_that(self, *roles: CallRole) -> Bool:
        """Returns which rows are runtime or driver calls with one of these roles."""
        wanted = self.calls.name[np.isin(self.calls.role, roles)]
        if not len(wanted):  # most traces: no need to check each row
            return np.zeros(len(self), np.bool_)
        names = np.zeros(len(self.strings) + 1, np.bool_)
        names[wanted] = True
        found: Bool = names[self.name] & (self.kind == EventKind.RUNTIME)
        return found

    @property
    def process(self) -> Int32 | None:
        """Returns the process of each row in a merged file (-1 = unknown). None for other files."""
        parts = np.array([track.part for track in self.tracks], np.int32)
        return parts[self.track] if (parts != MISSING).any() else None

    def ends(self, rows: npt.NDArray[Any]) -> Int64:
        """Returns the ends of some rows, in nanoseconds. For few rows, this is faster than ``end_ns``."""
        found: Int64 = self.start_ns[rows] + self.dur_ns[rows]
        return found

    @property
    def clock_ns(self) -> int | None:
        """Returns time 0 in nanoseconds since 1970; None if unknown.

        Old files record times since 1970. New files record a base time.
        """
        begin = (self.base_time_ns or 0) + self.origin_ns
        return begin if begin > _YEAR_2000_NS else None

    @property
    def end_ns(self) -> Int64:
        return self.start_ns + self.dur_ns

    def __len__(self) -> int:
        return len(self.start_ns)
