"""The model of a snapshot: what a reader returns, and what is derived from it once.

Events are numbered from 0 on each device; *after event e* is the state that includes it, and -1 is the state before the
first one. A block or a segment *lives* from its ``begin`` to its ``end``: it is there after event e when
``begin <= e < end``. What was there before the first event begins at -1, what is left at the end ends at ``NEVER``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from tb_plugin.model.trace.recorder import Recorder
from tb_plugin.model.trace.report import ReadReport
from tb_plugin.model.trace.schema import MISSING, no_rows
from tb_plugin.model.trace.strings import StringTable

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Int16 = npt.NDArray[np.int16]
Int8 = npt.NDArray[np.int8]
Bool = npt.NDArray[np.bool_]

NEVER = 2**31 - 1
"""The end of what is still there after the last event."""
HOST = -1
"""The device of pinned host memory."""


class Action(IntEnum):
    """What an event of the allocator did; the names of PyTorch in capitals."""

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
    """What a block of a segment is."""

    INACTIVE = 0
    PENDING = 1
    """Its release was requested; a stream may still use it."""
    ALLOCATED = 2


@dataclass(frozen=True, eq=False)
class Events:
    """The history, device by device in the order of the file. -1 = absent, unless said otherwise."""

    device: Int16 = no_rows(np.int16)
    action: Int8 = no_rows(np.int8)
    address: Int64 = no_rows(np.int64)
    """At an OOM event: bytes that the device had free."""
    size: Int64 = no_rows(np.int64)
    stream: Int16 = no_rows(np.int16)
    """Position in ``Snapshot.streams``."""
    time_ns: Int64 = no_rows(np.int64)
    """Since the epoch in a RawSnapshot, since ``origin_ns`` in a Snapshot."""
    stack: Int32 = no_rows(np.int32)
    pool: Int16 = no_rows(np.int16)
    """Position in ``Snapshot.pools``."""
    context: Int32 = no_rows(np.int32)
    """String id of the compiled region that was running."""
    metadata: Int32 = no_rows(np.int32)
    """String id of what a person attached."""
    category: Int32 = no_rows(np.int32)
    """String id; only synthetic snapshots state it."""


@dataclass(frozen=True, eq=False)
class FinalSegments:
    """Segments at the moment of the snapshot."""

    device: Int16 = no_rows(np.int16)
    address: Int64 = no_rows(np.int64)
    size: Int64 = no_rows(np.int64)
    stream: Int16 = no_rows(np.int16)
    pool: Int16 = no_rows(np.int16)
    is_large: Int8 = no_rows(np.int8)
    """-1 = not stated."""
    is_expandable: Int8 = no_rows(np.int8)
    stack: Int32 = no_rows(np.int32)


@dataclass(frozen=True, eq=False)
class FinalBlocks:
    """Blocks at the moment of the snapshot; ``segment`` is a position in the FinalSegments."""

    segment: Int32 = no_rows(np.int32)
    address: Int64 = no_rows(np.int64)
    size: Int64 = no_rows(np.int64)
    requested: Int64 = no_rows(np.int64)
    """Bytes that were asked for; -1 = not stated."""
    state: Int8 = no_rows(np.int8)
    stack: Int32 = no_rows(np.int32)


@dataclass(frozen=True, eq=False)
class Stacks:
    """Distinct call stacks: frames ``frame[first[i]:first[i + 1]]`` of stack i, innermost first."""

    first: Int64 = field(default_factory=lambda: np.zeros(1, np.int64))
    frame: Int32 = no_rows(np.int32)
    file: Int32 = no_rows(np.int32)
    """String ids, by frame."""
    line: Int32 = no_rows(np.int32)
    name: Int32 = no_rows(np.int32)

    def __len__(self) -> int:
        return len(self.first) - 1


@dataclass(frozen=True, eq=False)
class Annotations:
    """Annotations (``record_function``) that ran while the history was recorded."""

    device: Int16 = no_rows(np.int16)
    name: Int32 = no_rows(np.int32)
    is_start: Int8 = no_rows(np.int8)
    time_ns: Int64 = no_rows(np.int64)


@dataclass(frozen=True, eq=False)
class RawSnapshot:
    """What a reader returns: the file as columns, nothing derived."""

    events: Events
    segments: FinalSegments
    blocks: FinalBlocks
    stacks: Stacks
    annotations: Annotations
    strings: StringTable
    streams: tuple[int, ...]
    """Values of the streams; 0 is the default stream."""
    pools: tuple[tuple[int, int], ...]
    """(0, 0) is the pool that all share."""
    devices: int
    """How many devices the history has lists for, empty ones included."""
    settings: Mapping[str, Any]
    """How the allocator was set, as the file states it."""
    report: ReadReport
    recorder: Recorder
    device_type: int = MISSING
    """c10 DeviceType of its devices, as in a trace's MemoryEvents; -1 = not stated."""
    overflowed: tuple[int, ...] = ()
    """Devices of which the file states that their history is trimmed."""
    max_entries: int | None = None
    """How many events the recorder kept at most, where the file says so."""


@dataclass(frozen=True, eq=False)
class Blocks:
    """Blocks by device, then by their first event: those from before the history first."""

    device: Int16
    address: Int64
    size: Int64
    requested: Int64
    """Only of blocks that are left at the end; -1 = not known."""
    stream: Int16
    pool: Int16
    stack: Int32
    """That of the allocation; before the history what the snapshot states, or the release where releases repeat it."""
    begin: Int32
    freed: Int32
    """Event that asked for its release."""
    end: Int32
    """Event from which on its memory could be given to others."""
    category: Int32
    context: Int32
    metadata: Int32


@dataclass(frozen=True, eq=False)
class Segments:
    """Reserved ranges of addresses by device, then by their first event."""

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


@dataclass(frozen=True)
class Oddities:
    """What of a device's history does not fit together: numbers of events."""

    unmatched_releases: int = 0
    """Releases of an address that nothing had."""
    unreleased_reuse: int = 0
    """Blocks whose address was given again without a recorded release; they end there."""
    lost_blocks: int = 0
    """Blocks that were allocated and never released, and that the final state does not have."""
    unmatched_segments: int = 0
    """Segments that were given back or taken where the others say otherwise."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A snapshot as analyses take it."""

    events: Events
    first: Int64
    """Row of each device's first event, with the total at the end; devices as in ``names``."""
    blocks: Blocks
    segments: Segments
    stacks: Stacks
    annotations: Annotations
    strings: StringTable
    streams: tuple[int, ...]
    pools: tuple[tuple[int, int], ...]
    device_ids: tuple[int, ...]
    """Devices that have anything, HOST last."""
    settings: Mapping[str, Any]
    report: ReadReport
    recorder: Recorder
    device_type: int
    has_history: bool
    """Of any device. One whose only events are marks (of dumps and the program) has none: they are left out."""
    origin_ns: int
    """Epoch time of 0; 0 when no event states a time."""
    has_times: bool
    oddities: tuple[Oddities, ...]
    """By device, as ``device_ids``."""
    overflowed: tuple[int, ...]
    max_entries: int | None
