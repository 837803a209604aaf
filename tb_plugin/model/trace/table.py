"""The one trace model: what a reader collects (RawTrace) and what everybody works on (TraceTable).

It is one file because the two hold the same sections, and a new column is added to both.

A RawTrace holds columns in file order, exactly as read. ``assemble`` (assemble.py) sorts it, sets aside impossible
times, and computes nesting, launches and steps once; the result is immutable and lives in one Arrow file.

Rows are duration events. Facts that only some rows have stand in side tables ("sections") whose ``row`` column
points at the event, so that a million Python calls do not pay for the grid of a kernel.

In one file, for both are the same columns and sections: who adds one sees where else it stands.
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
    StatedMemory,
    StatedSteps,
    StatedTable,
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
    """String id of where a copy goes, as recorded beside its name."""


@dataclass(frozen=True, eq=False)
class ClippedRows:
    """Rows whose recorded duration cannot be right (overflow.py): ``dur_ns`` of the table is cut to what can be."""

    row: Int32 = no_rows(np.int32)
    recorded_ns: Int64 = no_rows(np.int64)
    """Duration as recorded."""


@dataclass(frozen=True, eq=False)
class CallNames:
    """Names of runtime and driver calls of which the device families know what they do."""

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
    """The rank in the job that sends what this recv gets."""
    destination_rank: Int64 = no_rows(np.int64)
    """The rank in the job that receives what this send gives."""


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
    """Values of recorded counters, not rows of the table: sorted by time. Each holds until the next one of its series."""

    time_ns: Int64 = no_rows(np.int64)
    value: Float64 = no_rows(np.float64)
    """Finite."""
    event: Int32 = no_rows(np.int32)
    """Number of the event in the file: one may hold values of several series."""
    name: Int32 = no_rows(np.int32)
    """String id of the counter's name, with its id in brackets where the event has one."""
    series: Int32 = no_rows(np.int32)
    """String id of the argument that holds the value."""
    pid: Int32 = no_rows(np.int32)
    """String id. Counters belong to processes."""
    tid: Int32 = no_rows(np.int32)
    """String id."""


@dataclass(frozen=True, eq=False)
class CounterSeries:
    """What the profile says of a series of a counter beside its values. Series of which it says nothing are left out.

    ``pid``, ``name`` and ``series`` as in ``CounterEvents``; -1 = not stated.
    """

    pid: Int32 = no_rows(np.int32)
    name: Int32 = no_rows(np.int32)
    series: Int32 = no_rows(np.int32)
    unit: Int32 = no_rows(np.int32)
    """String id of the unit's text, as ``analysis/recorded_units.py`` reads it: "bytes", "%", "ms", "MHz", ...

    Without it a unit in parentheses at the end of the name counts.
    """
    device: Int32 = no_rows(np.int32)
    """String id of the ``DeviceInfo.id`` that it is about."""


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
    """String id of what the trace calls it."""
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
    """Rows that lie on no thread: their ``tid`` names a track of the process, on which operations take lanes (lanes.py)."""

    row: Int32 = no_rows(np.int32)
    operation: Int32 = no_rows(np.int32)
    """Number of what they are part of; those of one operation nest."""


@dataclass(frozen=True, eq=False)
class RawTrace:
    """What a reader hands over: n duration events in file order, times in absolute nanoseconds as the file states them.

    ``pid``, ``tid``, ``name`` and ``category`` are string ids; the ``row`` of a section is a position in file order.
    ``correlation`` and ``external_id`` are -1 when absent (0 is what the file said: 0).
    ``device`` is a position in ``devices``, -1 on the host.
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
    """MatrixUse of each row; NO for all that is no kernel."""
    matrix_eligible: Bool
    strings: StringTable
    devices: tuple[DeviceInfo, ...]
    report: ReadReport
    operators: OperatorArgs = field(default_factory=OperatorArgs)
    python: PythonArgs = field(default_factory=PythonArgs)
    device_args: DeviceArgs = field(default_factory=DeviceArgs)
    collectives: CollectiveArgs = field(default_factory=CollectiveArgs)
    memory: MemoryEvents = field(default_factory=MemoryEvents)
    stated_memory: StatedMemory = field(default_factory=StatedMemory)
    counters: CounterEvents = field(default_factory=CounterEvents)
    counter_series: CounterSeries = field(default_factory=CounterSeries)
    flows: Flows = field(default_factory=Flows)
    arrows: ArrowEnds = field(default_factory=ArrowEnds)
    process_names: Mapping[str, str] = field(default_factory=dict)
    """pid text -> process name (labels appended in parentheses)."""
    thread_names: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(pid text, tid text) -> thread name."""
    process_order: Mapping[str, int] = field(default_factory=dict)
    """pid text -> where the trace wants the process, smallest first."""
    thread_order: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """(pid text, tid text) -> where the trace wants the thread in its process."""
    nth: Int64 | None = None
    """Order of rows with equal bounds, outermost first, where the trace says which encloses the other; -1 = it does not."""
    asynchronous: AsyncRows = field(default_factory=AsyncRows)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Top-level keys of the file other than the event list; JSON values."""
    base_time_ns: int | None = None
    """Epoch nanoseconds to add to a file time to get wall time (baseTimeNanoseconds), None when unknown."""
    window: Window | None = None
    """The part of the file that was read, None = all of it."""
    is_external_id_sure: bool = False
    """The external id of device work is that of the operator that asked for it, also where another thread launched it."""
    recorder: Recorder = UNKNOWN_RECORDER
    calls: CallNames = field(default_factory=lambda: CallNames())
    classes: ClassNames = field(default_factory=lambda: ClassNames())
    stated_steps: StatedSteps | None = None
    """Steps that the profile states; None: they are looked for among the rows."""
    others: tuple[OpenColumn, ...] = ()
    """Recorded facts that have no column of their own above, by the name that the profile gives them."""
    stated: tuple[StatedTable, ...] = ()
    blocks: AllocatorBlocks = field(default_factory=AllocatorBlocks)
    totals: AllocatorTotals = field(default_factory=AllocatorTotals)
    components: AllocatorTotals = field(default_factory=AllocatorTotals)
    """What parts of the device's software hold, under the names of these parts."""


@dataclass(frozen=True)
class Track:
    """One row group of a timeline: a host thread, a device stream, or operations of a process that belong to no thread."""

    pid: str
    tid: str
    process: str
    thread: str
    is_device: bool
    is_async: bool = False
    """No thread: ``tid`` is the name of the operations."""
    process_order: int = 0
    """Where the trace wants the process, smallest first."""
    thread_order: int = 0
    part: int = MISSING
    """Which of the processes of a merged file it belongs to; -1 in other files, and where nobody knows."""


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps after the device extension of docs/concepts/time.md, in order of time; empty when none was recorded."""

    label: tuple[str, ...] = ()
    start_ns: Int64 = no_rows(np.int64)
    end_ns: Int64 = no_rows(np.int64)
    host_start_ns: Int64 = no_rows(np.int64)
    host_end_ns: Int64 = no_rows(np.int64)
    recorded: bool = False
    """False when the trace has no steps and the one step covers the whole trace."""
    dropped: tuple[str, ...] = ()
    """Labels of trailing steps whose device work was not recorded completely."""
    found: str = ""
    """How: "profiler" (it marked them), "annotation" (a server did), "stated" or "inferred"; "" where there are none."""
    framework: str = ""
    """Whose annotations they are, in words."""
    served: Served = Served()
    """What each worked on; empty where no step says so."""
    unanswered: str = ""
    """Why nothing that repeats was taken for steps (``steps/repetition.py``), "" where there are some or nobody looked."""

    def only(self, places: Sequence[int]) -> Steps:
        """Returns the steps at these positions."""
        at = np.array(places, np.intp)
        return replace(
            self,
            label=tuple(self.label[i] for i in places),
            start_ns=self.start_ns[at],
            end_ns=self.end_ns[at],
            host_start_ns=self.host_start_ns[at],
            host_end_ns=self.host_end_ns[at],
            served=self.served.only(at),
        )

    def at(self, time_ns: Int64, *, on_host: bool = False) -> Int64:
        """Returns the position of the step in whose window (or time on the host) each time lies, -1 = none."""
        start, end = (self.host_start_ns, self.host_end_ns) if on_host else (self.start_ns, self.end_ns)
        place = np.searchsorted(start, time_ns, side="right") - 1
        return np.where((place >= 0) & (time_ns < np.append(end, 0)[place]), place, MISSING)


@dataclass(frozen=True)
class Whole:
    """The trace of which only a window was opened, because all of it does not fit into the memory."""

    end_ns: int
    steps: tuple[str, ...]
    """Labels of all its recorded steps."""
    need_bytes: int
    """Memory that opening all of it would take, estimated."""
    budget_bytes: int
    """Memory that the readers may take."""
    first_work_ns: int = MISSING
    """When the first device work of the trace begins, -1 = never."""


@dataclass(frozen=True, eq=False)
class Window:
    """Which part of a trace to keep: what touches ``[begin_ns, end_ns)``, counted from the trace's start.

    Kept as well, wherever they lie: the launch of device work inside, and what a call inside launched. Both are no
    further away than ``lag_ns``.
    """

    origin_ns: int
    """File time of the trace's start."""
    begin_ns: int
    end_ns: int
    lag_ns: int
    steps: Steps
    """Recorded steps wholly inside, measured in the whole trace; none when not even one fits."""
    whole: Whole


@dataclass(frozen=True)
class Coverage:
    """How much of the file stands behind the numbers. Every payload repeats it.

    ``start_ns`` and ``end_ns`` bound what was opened, ``fraction_read`` is its share of the events.
    """

    start_ns: int
    end_ns: int
    fraction_read: float
    complete: bool
    """The file has its end, and all of it was opened."""
    whole: Whole | None = None
    """None: all of the file was opened."""


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
    """MatrixUse of each row; NO for all that is no kernel."""
    matrix_eligible: Bool
    parent: Int32
    operator: Int32
    launch: Int32
    python_parent: Int32
    forward: Int32
    self_ns: Int64
    """Host rows of the op tree: duration less the durations of direct children; other rows: the duration."""
    overlaps: Bool
    """True when the row partially overlaps another of its thread and stands on a lane of its own."""
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
    stated_memory: StatedMemory
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
    """Device rows whose external id names another operator than the one around their launch."""
    others: tuple[OpenColumn, ...]
    """Recorded facts that have no column of their own, in the order of the profile."""
    stated: tuple[StatedTable, ...]
    blocks: AllocatorBlocks
    totals: AllocatorTotals
    components: AllocatorTotals
    recorder: Recorder
    """The tool that recorded it, in words."""
    captured: Captured = field(default_factory=Captured, metadata={"cached": False})
    """What another recording tells of the graphs that this one replays. Never kept: who asks with it puts it here."""

    def with_captured(self, captures: Iterable[tuple[Captured, StringTable]], source: str) -> TraceTable:
        """Returns the trace with what other recordings tell of its graphs; its other columns are shared."""
        captured, strings = merge_captures(self.strings, captures, source)
        return replace(self, captured=captured, strings=strings)

    def calls_that(self, *roles: CallRole) -> Bool:
        """Returns which rows are runtime or driver calls of these roles."""
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
        """Returns the ends of some rows, nanoseconds: of few in far less time than of all."""
        found: Int64 = self.start_ns[rows] + self.dur_ns[rows]
        return found

    @property
    def clock_ns(self) -> int | None:
        """Returns when time 0 was, nanoseconds since 1970: old files count from then, new ones state what they count from.

        None: neither.
        """
        begin = (self.base_time_ns or 0) + self.origin_ns
        return begin if begin > _YEAR_2000_NS else None

    @property
    def end_ns(self) -> Int64:
        """Returns the end of every row, nanoseconds."""
        return self.start_ns + self.dur_ns

    def __len__(self) -> int:
        return len(self.start_ns)
