"""The snapshot model, as returned by a reader and as assembled.

Events are numbered from 0 on each device; *after event e* is the state that includes it, and -1 is the state before the
first one. A block or a segment *lives* from ``begin`` to ``end``: it exists after event e when ``begin <= e < end``.
Those from before the first event begin at -1; those left at the end end at ``NEVER``.
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

# The end of what still exists after the last event.
NEVER = 2**31 - 1
# The device of pinned host memory.
HOST = -1


class Action(IntEnum):
    """Actions of the allocator; PyTorch's names in capitals."""

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
    """State of a block of a segment."""

    INACTIVE = 0
    PENDING = 1
    """Its release was requested; a stream may still use it."""
    ALLOCATED = 2


@dataclass(frozen=True, eq=False)
class Events:
    """The history by device, in file order. -1 = absent, unless noted."""

    device: Int16 = no_rows(np.int16)
    action: Int8 = no_rows(np.int8)
    address: Int64 = no_rows(np.int64)
    """For an OOM event: free bytes of the device."""
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
    """String id of user metadata."""
    category: Int32 = no_rows(np.int32)
    """String id; only in synthetic snapshots."""


@dataclass(frozen=True, eq=False)
class FinalSegments:
    """Segments at the moment of the snapshot."""

    device: Int16 = no_rows(np.int16)
    address: Int64 = no_rows(np.int64)
    size: Int64 = no_rows(np.int64)
    stream: Int16 = no_rows(np.int16)
    pool: Int16 = no_rows(np.int16)
    is_large: Int8 = no_rows(np.int8)
    """-1 = not reported."""
    is_expandable: Int8 = no_rows(np.int8)
    stack: Int32 = no_rows(np.int32)


@dataclass(frozen=True, eq=False)
class FinalBlocks:
    """Blocks at the moment of the snapshot; ``segment`` is a position in the FinalSegments."""

    segment: Int32 = no_rows(np.int32)
    address: Int64 = no_rows(np.int64)
    size: Int64 = no_rows(np.int64)
    requested: Int64 = no_rows(np.int64)
    """Requested bytes; -1 = not reported."""
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
    """Annotations (``record_function``) during the history."""

    device: Int16 = no_rows(np.int16)
    name: Int32 = no_rows(np.int32)
    is_start: Int8 = no_rows(np.int8)
    time_ns: Int64 = no_rows(np.int64)


@dataclass(frozen=True, eq=False)
class RawSnapshot:
    """The file as columns, from a reader, without derived data."""

    events: Events
    segments: FinalSegments
    blocks: FinalBlocks
    stacks: Stacks
    annotations: Annotations
    strings: StringTable
    streams: tuple[int, ...]
    """Values of the streams; 0 is the default stream."""
    pools: tuple[tuple[int, int], ...]
    """(0, 0) is the shared pool."""
    devices: int
    """Number of device histories in the file, including empty ones."""
    settings: Mapping[str, Any]
    """Allocator settings in the file."""
    report: ReadReport
    recorder: Recorder
    device_type: int = MISSING
    """c10 DeviceType of its devices, as in MemoryEvents of a trace; -1 = not reported."""
    overflowed: tuple[int, ...] = ()
    """Devices with a trimmed history."""
    max_entries: int | None = None
    """Maximum number of events of the recorder, if reported."""


@dataclass(frozen=True, eq=False)
class Blocks:
    """Blocks by device, then by first event; those from before the history first."""

    device: Int16
    address: Int64
    size: Int64
    requested: Int64
    """Requested bytes, only for blocks left at the end; -1 = unknown."""
    stream: Int16
    pool: Int16
    stack: Int32
    """Stack of the allocation; before the history, that of the snapshot or of the release, if releases repeat it."""
    begin: Int32
    freed: Int32
    """Event that requested its release."""
    end: Int32
    """Event after which its memory could be reused."""
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
    """Inconsistencies in the history of a device, as numbers of events."""

    unmatched_releases: int = 0
    """Releases of an address that was not allocated."""
    unreleased_reuse: int = 0
    """Blocks whose address was reused without a recorded release; they end there."""
    lost_blocks: int = 0
    """Blocks that were allocated, never released, and are missing in the final state."""
    unmatched_segments: int = 0
    """Segments whose allocation or release contradicts other events."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A snapshot for analyses."""

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
    """Devices with any data, HOST last."""
    settings: Mapping[str, Any]
    report: ReadReport
    recorder: Recorder
    device_type: int
    has_history: bool
    """Whether any device has one. Marks alone (of dumps and the program) are no history."""
    origin_ns: int
    """Epoch time of 0; 0 when no event has a time."""
    has_times: bool
    oddities: tuple[Oddities, ...]
    """By device, as ``device_ids``."""
    overflowed: tuple[int, ...]
    max_entries: int | None
