"""Allocator events by device: who allocated, which release belongs to which allocation, and what was live when."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.allocator import HOST_TYPE, device_name, levels_of
from tb_plugin.trace.memo import remembered
from tb_plugin.trace.numbering import places_of
from tb_plugin.trace.schema import MISSING, EventKind
from tb_plugin.trace.table import MemoryEvents, TraceTable
from tb_plugin.trace.tree import inherit, innermost, nest, roots_of

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Blocks:
    """Blocks of one device by their first event. All are positions among the device's events, -1 = none."""

    allocation: Int64
    release: Int64
    bytes: Int64
    begin: Int64
    """The allocation; where none was recorded, the event of the address before the release: not live until after it."""
    end: Int64
    """The release; where none was recorded, the next event of the address: live until then at the most."""
    paired: Bool
    """Whether no event of the address contradicts: False without an address, and where an event must be missing."""

    def live(self, at: int) -> Bool:
        """Returns whether each block is live after the event at this position (-1: before the first), as far as is known."""
        alive: Bool = (self.begin <= at) & ((self.end == MISSING) | (self.end > at))
        return alive

    def told(self, at: int) -> Bool:
        """Returns whether each block was allocated in the trace and is live at a position."""
        # A block without an address may be gone: it is among what nobody can name.
        told: Bool = self.live(at) & (self.allocation != MISSING) & (self.paired | (self.end != MISSING))
        return told


@dataclass(frozen=True, eq=False)
class Device:
    """All allocator events of one device, by time. ``record`` are their positions in the trace's events."""

    name: str
    is_host: bool
    number: int
    """As the framework counts devices of its type, -1 = none."""
    record: Int64
    time_ns: Int64
    bytes: Int64
    allocated: Int64
    """Bytes allocated after each event: as recorded, else the change since the first event."""
    reserved: Int64
    """Bytes reserved after each event, -1 where none are recorded."""
    has_totals: bool
    has_addresses: bool
    address: Int64

    @cached_property
    def blocks(self) -> Blocks:
        """Returns the blocks that the events are about."""
        return pair(self.address, self.bytes)

    @property
    def before(self) -> int:
        """Bytes allocated before the first event."""
        return int(self.allocated[0] - self.bytes[0]) if len(self.record) else 0

    def at(self, time_ns: int) -> int:
        """Returns the position of the last event until then, -1 = none."""
        return int(self.each_at(np.array([time_ns]))[0])

    def each_at(self, times_ns: Int64) -> Int64:
        """Returns the position of the last event until each time, -1 = none."""
        return np.searchsorted(self.time_ns, times_ns, side="right").astype(np.int64) - 1

    def level(self, at: int) -> int:
        """Bytes allocated after the event at a position (-1: before the first)."""
        return int(self.allocated[at]) if at >= 0 else self.before


def devices_of(memory: MemoryEvents) -> list[Device]:
    """Returns the devices that the events name: accelerators by type and number, then the host."""
    number = np.where(memory.device_type == HOST_TYPE, MISSING, memory.device_id).astype(np.int64)
    kind = memory.device_type.astype(np.int64)
    key = (kind << 32) + number + 1
    found = []
    for value in np.unique(key).tolist():
        rows = np.flatnonzero(key == value)
        found.append(_device(memory, rows, int(kind[rows[0]]), int(number[rows[0]])))
    return [d for d in found if not d.is_host] + [d for d in found if d.is_host]


def _device(memory: MemoryEvents, rows: Int64, kind: int, number: int) -> Device:
    size, total, address = memory.bytes[rows], memory.total_allocated[rows], memory.address[rows]
    return Device(
        name=device_name(kind, number),
        is_host=kind == HOST_TYPE,
        number=number,
        record=rows,
        time_ns=memory.time_ns[rows],
        bytes=size,
        allocated=levels_of(total, size),
        reserved=memory.total_reserved[rows],
        has_totals=bool((total != MISSING).any()),
        has_addresses=bool(_has_address(address).any()),
        address=address,
    )


def _has_address(address: Int64) -> Bool:
    known: Bool = (address != 0) & (address != MISSING)
    return known


def pair(address: Int64, size: Int64) -> Blocks:
    """Pairs releases with the events of their addresses before them that are allocations; what stays alone is kept."""
    rows = np.flatnonzero(size)
    order = rows[np.argsort(address[rows], kind="stable")]
    known, grew = _has_address(address[order]), size[order] > 0
    same = (address[order][1:] == address[order][:-1]) & known[1:]
    before = np.concatenate(([MISSING], np.where(same, order[:-1], MISSING))) if len(order) else order
    after = np.concatenate((np.where(same, order[1:], MISSING), [MISSING])) if len(order) else order
    after_grew, before_grew = size[after] > 0, size[before] > 0  # meaningless where there is none
    released = grew & (after != MISSING) & ~after_grew
    alone = ~grew & ((before == MISSING) | ~before_grew)
    first = grew | alone  # the event that stands for its block
    allocation = np.where(grew, order, MISSING)[first]
    release = np.where(grew, np.where(released, after, MISSING), order)[first]
    begin = np.where(grew, order, before)[first]
    end = np.where(grew, after, order)[first]
    paired = (known & (released | (np.where(grew, after, before) == MISSING)))[first]
    by_time = np.argsort(order[first], kind="stable")
    return Blocks(
        allocation[by_time], release[by_time], np.abs(size[order[first]])[by_time], begin[by_time], end[by_time],
        paired[by_time],
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Owners:
    """Whom each allocator event (or another moment of a thread) belongs to: rows of the trace, -1 = none."""

    operators: Int64
    """Operator rows of the threads that have allocator events."""
    parent: Int32
    """Their parents, as positions among them."""
    root: Int32
    """The outermost operators that they stand in, the same way."""
    operator: Int32
    """Position among ``operators`` for each event."""
    module: Int32
    """Row of the module call for each event; of a backward operator, the module of its forward operator."""
    forward: Int32
    """The forward operator of each event's operator, or of the nearest one around it that has one."""

    def names(self, trace: TraceTable, events: Int64) -> Int32:
        """Returns name ids of the operators of events."""
        return _take(trace.name, _take(self.operators, self.operator[events]))

    def callers(self, trace: TraceTable, events: Int64) -> Int32:
        """Returns name ids of the operators around those."""
        return _take(trace.name, _take(self.operators, _take(self.parent, self.operator[events])))

    def outermost(self, trace: TraceTable, events: Int64) -> Int32:
        """Returns name ids of the operators around which there is no other, of those open at events."""
        return _take(trace.name, _take(self.operators, _take(self.root, self.operator[events])))

    def modules(self, trace: TraceTable, events: Int64) -> Int32:
        """Returns name ids of the modules of events."""
        return _take(trace.name, self.module[events])


def _take(values: npt.NDArray[np.signedinteger], at: npt.NDArray[np.signedinteger]) -> Int32:
    """Values (ids or positions) at positions, -1 for -1."""
    found = values[at] if len(values) else at
    return np.where(at == MISSING, MISSING, found).astype(np.int32)


def owners_of(trace: TraceTable) -> Owners:
    """Returns the innermost operator and module call open on the thread of each allocator event."""
    return owners_at(trace, tracks_of(trace), trace.memory.time_ns)


def owners_at(trace: TraceTable, track: Int32, time: Int64) -> Owners:
    """Returns the innermost operator and module call open on a thread at each moment; -1 is no thread."""
    known = np.unique(track[track != MISSING])
    operators = np.flatnonzero((trace.kind == EventKind.OPERATOR) & np.isin(trace.track, known))
    parent = places_of(operators, len(trace))[trace.operator[operators]]
    operator = innermost(
        trace.track[operators],
        trace.start_ns[operators],
        trace.start_ns[operators] + trace.dur_ns[operators],
        parent,
        track,
        time,
    )
    forward = _take(inherit(trace.forward[operators], parent), operator)
    return Owners(operators, parent, roots_of(parent), operator, _modules(trace, track, time, forward), forward)


def _modules(trace: TraceTable, track: Int32, time: Int64, forward: Int32) -> Int32:
    rows = np.flatnonzero(trace.kind == EventKind.MODULE)
    none: Int32 = np.full(len(track), MISSING, np.int32)
    if not len(rows):
        return none
    nesting = nest(trace.track[rows], trace.start_ns[rows], trace.ends(rows))

    def around(at_track: Int32, at: Int64) -> Int32:
        place = innermost(trace.track[rows], trace.start_ns[rows], trace.ends(rows), nesting.parent, at_track, at)
        return _take(rows.astype(np.int32), place)

    module = around(track, time)
    backward = (module == MISSING) & (forward != MISSING)
    module[backward] = around(trace.track[forward[backward]], trace.start_ns[forward[backward]])
    return module


@remembered
def tracks_of(trace: TraceTable) -> Int32:
    """Returns the track of each allocator event, -1 when its thread has no row."""
    memory = trace.memory
    of_thread = {(t.pid, t.tid): i for i, t in enumerate(trace.tracks) if not t.is_device}
    key = memory.pid.astype(np.int64) << 32 | memory.tid.astype(np.int64)
    keys, which = np.unique(key, return_inverse=True)
    threads = [(trace.strings[int(k >> 32)], trace.strings[int(k & 0xFFFFFFFF)]) for k in keys]
    found = [of_thread.get(thread, MISSING) for thread in threads]
    return np.array(found, np.int32)[which.ravel()] if found else np.empty(0, np.int32)
