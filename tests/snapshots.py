"""Snapshots for tests: what PyTorch would pickle, in plain Python, through the reader into the model."""

from __future__ import annotations

import pickle
from typing import Any

from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.formats.memory_snapshot.reader import MemorySnapshotReader
from tb_plugin.model.snapshot.assemble import assemble
from tb_plugin.model.snapshot.table import RawSnapshot, Snapshot
from tb_plugin.model.trace.table import TraceTable
from tests.formats.sources import Bytes

Json = dict[str, Any]


def read(content: bytes, is_fast: bool = True) -> RawSnapshot:
    """What the reader makes of the bytes of a file."""
    return MemorySnapshotReader(is_fast).read(Bytes(content, "snapshot.pickle"), ReadOptions(), no_progress)


def pickled(events: list[Json], segments: list[Json] | None = None, protocol: int = 4, **more: Any) -> bytes:
    """The pickle of a snapshot of one device."""
    return pickle.dumps({"segments": segments or [], "device_traces": [events], **more}, protocol=protocol)


def snapshot(events: list[Json], segments: list[Json] | None = None, **more: Any) -> Snapshot:
    """The model of a snapshot of one device."""
    return assemble(read(pickled(events, segments, **more)))


def recorded_beside(table: TraceTable, device_type: int = 1) -> bytes:
    """The snapshot that the process of a trace would have written: the same allocations, in whole microseconds."""
    memory, start = table.memory, (table.base_time_ns or 0) + table.origin_ns
    mine = (memory.device_type == device_type) & (memory.address > 0)
    columns = (memory.time_ns[mine] + start, memory.bytes[mine], memory.address[mine])
    events: list[Json] = []
    for time, size, address in zip(*(column.tolist() for column in columns), strict=True):
        actions = ("alloc",) if size > 0 else ("free_requested", "free_completed")
        events += [event(action, address, abs(size)) | {"time_us": time // 1000} for action in actions]
    return pickled(events, [segment(0x7F2000000000, 1 << 30)])


def event(action: str, addr: int, size: int, time_us: int = 0, **more: Any) -> Json:
    """An event of the history."""
    return {
        "action": action,
        "addr": addr,
        "size": size,
        "stream": 0,
        "time_us": 1_000_000 + time_us,
        "frames": [],
        **more,
    }


def frames(*lines: str) -> list[Json]:
    """A stack, innermost first, of texts ``file:line:name``."""
    found = []
    for line in lines:
        file, number, name = line.split(":")
        found.append({"filename": file, "line": int(number), "name": name})
    return found


def segment(address: int, size: int, blocks: list[tuple[int, str]] = (), **more: Any) -> Json:  # type: ignore[assignment]
    """A segment with blocks (size, state) from its begin on; the rest is one inactive block."""
    told, at = [], address
    for length, state in blocks:
        told.append({"address": at, "size": length, "requested_size": length, "state": state, "frames": []})
        at += length
    if at < address + size:
        told.append(
            {"address": at, "size": address + size - at, "requested_size": 0, "state": "inactive", "frames": []}
        )
    return {
        "device": 0, "address": address, "total_size": size, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0),
        "is_expandable": False, "frames": [], "blocks": told, **more,
    }  # fmt: skip
