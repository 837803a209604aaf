"""The snapshot model, before and after assembly.

The events of each device are numbered from 0. The state *after event e* includes the effect of event e. State -1 is
the state before the first event. A block or segment exists after event e if ``begin <= e < end``. If it existed
before the first event, ``begin`` is -1. If it still exists after the last event, ``end`` is ``NEVER``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import msgspec
import numpy as np

from tb_plugin.lib.arrays import Int8, Int16, Int32, Int64
from tb_plugin.model.trace.recorder import Recorder
from tb_plugin.model.trace.report import ReadReport
from tb_plugin.model.trace.schema import MISSING, no_rows
from tb_plugin.model.trace.strings import StringTable

# End of blocks and segments that still exist after the last event.
NEVER = 2**31 - 1
# Device number of pinned host memory.
HOST = -1


class Action(IntEnum):
    ALLOC = 0
    FREE_REQUESTED = 1
    FREE_COMPLETED = 2
    SEGMENT_ALLOC = 3
    SEGMENT_FREE = 4
    SEGMENT_MAP = 5
    SEGMENT_UNMAP = 6
    SNAPSHOT = 7
    OOM = 8
    ANNOTATE = 9
    UNKNOWN = 10


class State(IntEnum):
    INACTIVE = 0
    PENDING = 1
    """The release of the block was requested, but a stream may still use the block."""
    ALLOCATED = 2


class Events(msgspec.Struct, frozen=True, eq=False):
    """Allocator events, grouped by device, in file order. -1 = absent, unless noted otherwise."""

    device: Int16 = no_rows(np.int16)
    action: Int8 = no_rows(np.int8)
    address: Int64 = no_rows(np.int64)
    """Address of the block or segment. For an out-of-memory event, the number of unused bytes of the device."""
    size: Int64 = no_rows(np.int64)
    stream: Int16 = no_rows(np.int16)
    time_ns: Int64 = no_rows(np.int64)
    """Time in nanoseconds: since 1970 in a RawSnapshot, since ``origin_ns`` in a Snapshot."""
    stack: Int32 = no_rows(np.int32)
    pool: Int16 = no_rows(np.int16)
    context: Int32 = no_rows(np.int32)
    metadata: Int32 = no_rows(np.int32)
    category: Int32 = no_rows(np.int32)
    """String id of the category. Only synthetic snapshots have categories."""


class FinalSegments(msgspec.Struct, frozen=True, eq=False):
    device: Int16 = no_rows(np.int16)
    address: Int64 = no_rows(np.int64)
    size: Int64 = no_rows(np.int64)
    stream: Int16 = no_rows(np.int16)
    pool: Int16 = no_rows(np.int16)
    is_large: Int8 = no_rows(np.int8)
    """1 for a segment of the large pool, 0 for one of the small pool; -1 if not reported."""
    is_expandable: Int8 = no_rows(np.int8)
    stack: Int32 = no_rows(np.int32)


class FinalBlocks(msgspec.Struct, frozen=True, eq=False):
    """Blocks at the time of the snapshot. ``segment`` is an index into FinalSegments."""

    segment: Int32 = no_rows(np.int32)
    address: Int64 = no_rows(np.int64)
    size: Int64 = no_rows(np.int64)
    requested: Int64 = no_rows(np.int64)
    state: Int8 = no_rows(np.int8)
    stack: Int32 = no_rows(np.int32)


class Stacks(msgspec.Struct, frozen=True, eq=False):
    """Distinct call stacks. Stack i has the frames ``frame[first[i]:first[i + 1]]``, innermost first."""

    first: Int64 = msgspec.field(default_factory=lambda: np.zeros(1, np.int64))
    frame: Int32 = no_rows(np.int32)
    file: Int32 = no_rows(np.int32)
    line: Int32 = no_rows(np.int32)
    name: Int32 = no_rows(np.int32)

    def __len__(self) -> int:
        return len(self.first) - 1


class Annotations(msgspec.Struct, frozen=True, eq=False):
    device: Int16 = no_rows(np.int16)
    name: Int32 = no_rows(np.int32)
    is_start: Int8 = no_rows(np.int8)
    time_ns: Int64 = no_rows(np.int64)


class _SnapshotColumns(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    events: Events
    stacks: Stacks
    annotations: Annotations
    strings: StringTable
    streams: tuple[int, ...]
    """Stream ids; 0 is the default stream."""
    pools: tuple[tuple[int, int], ...]
    """Ids of memory pools; (0, 0) is the shared pool."""
    settings: Mapping[str, Any]
    report: ReadReport
    recorder: Recorder
    device_type: int = MISSING
    """c10 DeviceType of the devices, as in MemoryEvents; -1 if not reported."""
    overflowed: tuple[int, ...] = ()
    max_entries: int | None = None


class RawSnapshot(_SnapshotColumns, frozen=True, eq=False, kw_only=True):
    segments: FinalSegments
    blocks: FinalBlocks
    devices: int
    """Number of device histories in the file, including empty histories."""


class Blocks(msgspec.Struct, frozen=True, eq=False):
    """Memory blocks, sorted by device and first event. Blocks that existed before the history come first."""

    device: Int16
    address: Int64
    size: Int64
    requested: Int64
    """Number of requested bytes of each block that exists at the end; -1 = unknown."""
    stream: Int16
    pool: Int16
    stack: Int32
    """Stack of the allocation; for blocks from before the history, of the final state or the release event."""
    begin: Int32
    freed: Int32
    end: Int32
    """Event after which the block's memory could be reused."""
    category: Int32
    context: Int32
    metadata: Int32


class Segments(msgspec.Struct, frozen=True, eq=False):
    device: Int16
    address: Int64
    size: Int64
    stream: Int16
    pool: Int16
    stack: Int32
    is_large: Int8
    is_expandable: Int8
    begin: Int32
    end: Int32


class Oddities(msgspec.Struct, frozen=True):
    unmatched_releases: int = 0
    unreleased_reuse: int = 0
    """Number of blocks without a recorded release whose address was allocated again, which ends them."""
    lost_blocks: int = 0
    """Number of blocks that have no recorded release and are missing from the final state."""
    unmatched_segments: int = 0
    """Number of segments whose allocation or release contradicts other events."""


class Snapshot(_SnapshotColumns, frozen=True, eq=False, kw_only=True, dict=True, weakref=True):
    first: Int64
    """Index of each device's first event, in the order of ``device_ids``, and the number of all events."""
    blocks: Blocks
    segments: Segments
    device_ids: tuple[int, ...]
    """Ids of the devices that have data. ``HOST`` is the last id."""
    has_history: bool
    """Whether any device has allocator events. Snapshot and annotation events do not count."""
    origin_ns: int
    """Time 0 of the snapshot, in nanoseconds since 1970; 0 if no event has a time."""
    has_times: bool
    oddities: tuple[Oddities, ...]
