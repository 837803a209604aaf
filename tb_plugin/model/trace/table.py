"""The trace model: reader output (RawTrace) and assembled TraceTable.

It is one file because the two have the same sections, and a new column is added to both.

A RawTrace has columns in file order, exactly as read. ``assemble`` (assemble.py) sorts it, excludes impossible times,
and computes nesting, launches and steps once; the result is immutable and stored in one Arrow file.

Rows are duration events. Properties of some rows are in side tables ("sections") whose ``row`` column points at the
event, so that a million Python calls do not pay for the grid of a kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

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


@dataclass(frozen=True, eq=False)
class OperatorArgs:
    """Arguments of host operators and annotations. All string ids (-1 = absent) but the last two."""

    row: Int32 = no_rows(np.int32)
    shapes: Int32 = no_rows(np.int32)
    """Text of ``Input Dims`` as compact JSON, e.g. ``[[2, 8], []]`` (separator ", ")."""
    types: Int32 = no_rows(np.int32)
    """Text of ``Input type`` as compact JSON."""
    strides: Int32 = no_rows(np.int32)
    concrete: Int32 = no_rows(np.int32)
    """Text of ``Concrete Inputs``."""
    stack: Int32 = no_rows(np.int32)
    """``Call stack``: frames separated by ``;``, innermost first."""
    sequence: Int64 = no_rows(np.int64)
    """Autograd sequence number, -1 = absent."""
    forward_thread: Int64 = no_rows(np.int64)
    """``Fwd thread id``, -1 = absent."""


@dataclass(frozen=True, eq=False)
class PythonArgs:
    """Arguments of Python function calls and modules; -1 = absent."""

    row: Int32 = no_rows(np.int32)
    python_id: Int64 = no_rows(np.int64)
    parent_id: Int64 = no_rows(np.int64)
    module_id: Int64 = no_rows(np.int64)


@dataclass(frozen=True, eq=False)
class DeviceArgs:
    """Arguments of kernels, copies and sets; -1 or NaN = absent."""

    row: Int32 = no_rows(np.int32)
    stream: Int32 = no_rows(np.int32)
    """String id of the stream's text."""
    grid: Int32 = no_rows(np.int32)
    """String id of ``[x, y, z]``."""
    block: Int32 = no_rows(np.int32)
    registers: Int64 = no_rows(np.int64)
    """Registers per thread."""
    shared_memory: Int64 = no_rows(np.int64)
    """Bytes of shared memory per block."""
    blocks_per_sm: Float64 = no_rows(np.float64)
    occupancy: Float64 = no_rows(np.float64)
    """Estimated achieved occupancy as a ratio 0..1."""
    bytes: Int64 = no_rows(np.int64)
    """Bytes moved or set."""
    direction: Int32 = no_rows(np.int32)
    """String id of the direction of a copy, as recorded next to its name."""


@dataclass(frozen=True, eq=False)
class ClippedRows:
    """Rows with an implausible recorded duration (overflow.py); ``dur_ns`` of the table is shortened."""

    row: Int32 = no_rows(np.int32)
    recorded_ns: Int64 = no_rows(np.int64)
    """Duration as recorded."""


@dataclass(frozen=True, eq=False)
class CallNames:
    """Names of runtime and driver calls with a known role."""

    name: Int32 = no_rows(np.int32)
    """String id."""
    role: UInt8 = no_rows(np.uint8)
    """CallRole."""


@dataclass(frozen=True, eq=False)
class CollectiveArgs:
    """Arguments of collectives (record_param_comms and the kernels they launch); -1 = absent."""

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
    """The sending rank of a recv, in the job."""
    destination_rank: Int64 = no_rows(np.int64)
    """The receiving rank of a send, in the job."""


@dataclass(frozen=True, eq=False)
class MemoryEvents:
    """Allocator events, not rows of the table: sorted by time. -1 = absent totals or address 0."""

    time_ns: Int64 = no_rows(np.int64)
    bytes: Int64 = no_rows(np.int64)
    """Positive = allocation, negative = release."""
    address: Int64 = no_rows(np.int64)
    total_allocated: Int64 = no_rows(np.int64)
    total_reserved: Int64 = no_rows(np.int64)
    device_type: Int32 = no_rows(np.int32)
    """c10 DeviceType: 0 CPU, 1 CUDA, 6 HIP, 12 XPU, ..."""
    device_id: Int32 = no_rows(np.int32)
    pid: Int32 = no_rows(np.int32)
    """String id."""
    tid: Int32 = no_rows(np.int32)
    """String id."""


@dataclass(frozen=True, eq=False)
class CounterEvents:
    """Values of recorded counters, not rows of the table: sorted by time. Each is valid until the next of its
    series.
    """

    time_ns: Int64 = no_rows(np.int64)
    value: Float64 = no_rows(np.float64)
    """Finite."""
    event: Int32 = no_rows(np.int32)
    """Number of the event in the file: one may hold values of several series."""
    name: Int32 = no_rows(np.int32)
    """String id of the counter's name, with its id in brackets if the event has one."""
    series: Int32 = no_rows(np.int32)
    """String id of the argument with the value."""
    pid: Int32 = no_rows(np.int32)
    """String id. Counters belong to processes."""
    tid: Int32 = no_rows(np.int32)
    """String id."""


@dataclass(frozen=True, eq=False)
class CounterSeries:
    """Reported properties of counter series. Series without any are omitted.

    ``pid``, ``name`` and ``series`` as in ``CounterEvents``; -1 = not reported.
    """

    pid: Int32 = no_rows(np.int32)
    name: Int32 = no_rows(np.int32)
    series: Int32 = no_rows(np.int32)
    unit: Int32 = no_rows(np.int32)
    """String id of the unit's text, as ``analysis/recorded_units.py`` reads it: "bytes", "%", "ms", "MHz", ...

    Without it a unit in parentheses at the end of the name counts.
    """
    device: Int32 = no_rows(np.int32)
    """String id of the ``DeviceInfo.id`` of its device."""


@dataclass(frozen=True, eq=False)
class Flows:
    """Both ends of forward-backward arrows, by flow id, in file order. Times as the rows' ``start_ns``."""

    start_time_ns: Int64 = no_rows(np.int64)
    start_pid: Int32 = no_rows(np.int32)
    start_tid: Int32 = no_rows(np.int32)
    end_time_ns: Int64 = no_rows(np.int64)
    end_pid: Int32 = no_rows(np.int32)
    end_tid: Int32 = no_rows(np.int32)


@dataclass(frozen=True, eq=False)
class ArrowEnds:
    """Recorded arrows between events, each end as a place in time, in file order. Times as the rows' ``start_ns``.

    An arrow begins at the innermost event around its start. It ends at the innermost one around its end, or, where
    ``to_next`` says so, at the next event that begins on that thread or stream. Where the trace names the event itself,
    it is that one: ``start_row`` and ``end_row``, positions in file order, -1 = none; empty where it never does.
    """

    name: Int32 = no_rows(np.int32)
    """String id of its name in the trace."""
    start_time_ns: Int64 = no_rows(np.int64)
    start_pid: Int32 = no_rows(np.int32)
    start_tid: Int32 = no_rows(np.int32)
    end_time_ns: Int64 = no_rows(np.int64)
    end_pid: Int32 = no_rows(np.int32)
    end_tid: Int32 = no_rows(np.int32)
    to_next: Bool = no_rows(np.bool_)
    start_row: Int32 = no_rows(np.int32)
    end_row: Int32 = no_rows(np.int32)


@dataclass(frozen=True, eq=False)
class Arrows:
    """Recorded arrows between rows, sorted by (tail, head); launches and forward operators have columns of their own."""

    tail: Int32 = no_rows(np.int32)
    """Row at which it begins."""
    head: Int32 = no_rows(np.int32)
    """Row at which it ends."""
    name: Int32 = no_rows(np.int32)
    """String id."""


@dataclass(frozen=True, eq=False)
class AsyncRows:
    """Rows without a thread: their ``tid`` names a track of the process, on which operations take lanes (lanes.py)."""

    row: Int32 = no_rows(np.int32)
    operation: Int32 = no_rows(np.int32)
    """Number of their operation; rows of one operation nest."""


@dataclass(frozen=True, eq=False)
class RawTrace:
    """Output of a reader: n duration events in file order, times in absolute nanoseconds as in the file.

    ``pid``, ``tid``, ``name`` and ``category`` are string ids; the ``row`` of a section is a position in file order.
    ``correlation`` and ``external_id`` are -1 when absent (0 is recorded as 0). ``device`` is a position in
    ``devices``, -1 on the host.
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
    """MatrixUse of each row; NO for all rows other than kernels."""
    matrix_eligible: Bool
    strings: StringTable
    devices: tuple[DeviceInfo, ...]
    report: ReadReport
    operators: OperatorArgs = field(default_factory=OperatorArgs)
    python: PythonArgs = field(default_factory=PythonArgs)
    device_args: DeviceArgs = field(default_factory=DeviceArgs)
    collectives: CollectiveArgs = field(default_factory=CollectiveArgs)
    memory: MemoryEvents = field(default_factory=MemoryEvents)
    reported_memory: ReportedMemory = field(default_factory=ReportedMemory)
    counters: CounterEvents = field(default_factory=CounterEvents)
    counter_series: CounterSeries = field(default_factory=CounterSeries)
    flows: Flows = field(default_factory=Flows)
    arrows: ArrowEnds = field(default_factory=ArrowEnds)
    process_names: Mapping[str, str] = field(default_factory=dict)
    """pid text -> process name (labels appended in parentheses)."""
    thread_names: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(pid text, tid text) -> thread name."""
    process_order: Mapping[str, int] = field(default_factory=dict)
    """pid text -> order of the process, smallest first."""
    thread_order: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """(pid text, tid text) -> order of the thread in its process."""
    nth: Int64 | None = None
    """Order of rows with equal bounds, outermost first, if recorded; -1 = not recorded."""
    asynchronous: AsyncRows = field(default_factory=AsyncRows)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Top-level keys of the file other than the event list; JSON values."""
    base_time_ns: int | None = None
    """Epoch nanoseconds to add to a file time to get wall time (baseTimeNanoseconds), None when unknown."""
    window: Window | None = None
    """The part of the file that was read, None = all of it."""
    is_external_id_sure: bool = False
    """Whether the external id of device work is always its requesting operator, also for launches on another thread."""
    recorder: Recorder = UNKNOWN_RECORDER
    calls: CallNames = field(default_factory=lambda: CallNames())
    classes: ClassNames = field(default_factory=lambda: ClassNames())
    reported_steps: ReportedSteps | None = None
    """Steps reported by the profile; None: they are derived from rows."""
    others: tuple[OpenColumn, ...] = ()
    """Recorded properties without a column, by their name in the profile."""
    reported_tables: tuple[ReportedTable, ...] = ()
    blocks: AllocatorBlocks = field(default_factory=AllocatorBlocks)
    totals: AllocatorTotals = field(default_factory=AllocatorTotals)
    components: AllocatorTotals = field(default_factory=AllocatorTotals)
    """Allocated memory of software components of the device, by component."""


@dataclass(frozen=True)
class Track:
    """One row group of a timeline: a host thread, a device stream, or operations without a thread."""

    pid: str
    tid: str
    process: str
    thread: str
    is_device: bool
    is_async: bool = False
    """No thread: ``tid`` is the name of the operations."""
    process_order: int = 0
    """Order of the process, smallest first."""
    thread_order: int = 0
    part: int = MISSING
    """Its process in a merged file; -1 in other files, or if unknown."""


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps after the device extension of docs/concepts/time.md, by time; empty when none was recorded."""

    label: tuple[str, ...] = ()
    start_ns: Int64 = no_rows(np.int64)
    end_ns: Int64 = no_rows(np.int64)
    host_start_ns: Int64 = no_rows(np.int64)
    host_end_ns: Int64 = no_rows(np.int64)
    recorded: bool = False
    """False when the trace has no steps and the one step covers the whole trace."""
    dropped: tuple[str, ...] = ()
    """Labels of trailing steps whose device work was not recorded completely."""
    source: str = ""
    """Source: "profiler", "annotation" (of a server), "stated" or "inferred"; "" without steps."""
    framework: str = ""
    """The framework of the annotations, for users."""
    served: Served = Served()
    """Work of each step; empty if not recorded."""
    unanswered: str = ""
    """Why no repetition became steps (``steps/repetition.py``), "" if there are steps or none were searched."""

    def take(self, places: Sequence[int]) -> Steps:
        """Returns the steps at these positions."""
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
        """Returns the position of the step whose window (or host time) contains each time, -1 = none."""
        start, end = (self.host_start_ns, self.host_end_ns) if on_host else (self.start_ns, self.end_ns)
        place = np.searchsorted(start, time_ns, side="right") - 1
        return np.where((place >= 0) & (time_ns < np.append(end, 0)[place]), place, MISSING)


@dataclass(frozen=True)
class FullTrace:
    """The whole trace of an opened window that exists because the trace does not fit into memory."""

    end_ns: int
    steps: tuple[str, ...]
    """Labels of all its recorded steps."""
    peak_memory_bytes: int
    """Estimated memory for opening it."""
    budget_bytes: int
    """Memory that the readers may take."""
    first_work_ns: int = MISSING
    """Start of the first device work of the trace, -1 = never."""


@dataclass(frozen=True, eq=False)
class Window:
    """The kept part of a trace: events that overlap ``[begin_ns, end_ns)``, counted from the trace's start.

    Also kept: launches of device work inside, and device work launched inside. Both are within ``lag_ns``.
    """

    origin_ns: int
    """File time of the trace's start."""
    begin_ns: int
    end_ns: int
    lag_ns: int
    steps: Steps
    """Recorded steps completely inside, measured in the whole trace; none when not even one fits."""
    full: FullTrace


@dataclass(frozen=True)
class Coverage:
    """How much of the file the numbers cover, repeated in every payload.

    ``start_ns`` and ``end_ns`` bound the opened part, ``fraction_read`` is its share of the events.
    """

    start_ns: int
    end_ns: int
    fraction_read: float
    complete: bool
    """Whether the file has its end and was opened completely."""
    full: FullTrace | None = None
    """None: the whole file was opened."""


@dataclass(frozen=True, eq=False)
class TraceTable:
    """n duration events sorted by (start, longest first, file order); int columns use -1 for "none".

    ``parent`` is the innermost OPERATOR, MODULE or RUNTIME event of the same host thread that contains a row of those
    kinds; ``operator`` is the innermost OPERATOR around a row (itself excluded) or, on device rows, the operator that
    launched it; ``launch`` is the RUNTIME row that launched a device row; ``python_parent`` is the innermost PYTHON or
    MODULE call around a PYTHON or MODULE row (itself excluded) or around an OPERATOR row; ``forward`` is the forward
    operator of a backward operator; ``lane`` and ``depth`` say where a row is drawn on its track.
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
    """MatrixUse of each row; NO for all rows other than kernels."""
    matrix_eligible: Bool
    parent: Int32
    operator: Int32
    launch: Int32
    python_parent: Int32
    forward: Int32
    self_ns: Int64
    """Host rows of the op tree: duration minus direct children; other rows: the duration."""
    overlaps: Bool
    """True when the row partially overlaps another of its thread and is drawn on a separate lane."""
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
    """File time of ``start_ns == 0``."""
    base_time_ns: int | None
    external_disagreements: int
    """Device rows whose external id and launch give different operators."""
    others: tuple[OpenColumn, ...]
    """Recorded properties without a column, in the order of the profile."""
    reported_tables: tuple[ReportedTable, ...]
    blocks: AllocatorBlocks
    totals: AllocatorTotals
    components: AllocatorTotals
    recorder: Recorder
    """The recording tool."""
    captured: Captured = field(default_factory=Captured, metadata={"cached": False})
    """Data of another recording about replayed graphs. Never stored: the caller adds it."""

    def with_captured(self, captures: Iterable[tuple[Captured, StringTable]], source: str) -> TraceTable:
        """Returns the trace with data of other recordings about its graphs; its columns are shared."""
        captured, strings = merge_captures(self.strings, captures, source)
        return replace(self, captured=captured, strings=strings)

    def calls_that(self, *roles: CallRole) -> Bool:
        """Returns which rows are runtime or driver calls with these roles."""
        wanted = self.calls.name[np.isin(self.calls.role, roles)]
        if not len(wanted):  # as of most traces those of graphs: no look at each row
            return np.zeros(len(self), np.bool_)
        names = np.zeros(len(self.strings) + 1, np.bool_)
        names[wanted] = True
        found: Bool = names[self.name] & (self.kind == EventKind.RUNTIME)
        return found

    @property
    def process(self) -> Int32 | None:
        """Returns the process of each row in a file of several merged traces, -1 = unknown; None in other files."""
        parts = np.array([track.part for track in self.tracks], np.int32)
        return parts[self.track] if (parts != MISSING).any() else None

    def ends(self, rows: npt.NDArray[Any]) -> Int64:
        """Returns the ends of some rows, nanoseconds; faster than ``end_ns`` for few rows."""
        found: Int64 = self.start_ns[rows] + self.dur_ns[rows]
        return found

    @property
    def clock_ns(self) -> int | None:
        """Returns the wall time of time 0, nanoseconds since 1970; None if unknown.

        Old files count from 1970, new ones record their base time.
        """
        begin = (self.base_time_ns or 0) + self.origin_ns
        return begin if begin > _YEAR_2000_NS else None

    @property
    def end_ns(self) -> Int64:
        """Returns the end of every row, nanoseconds."""
        return self.start_ns + self.dur_ns

    def __len__(self) -> int:
        return len(self.start_ns)
