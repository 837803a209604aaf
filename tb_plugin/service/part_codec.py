"""Serialisation of view results for the cache and other processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from tb_plugin.analysis.base import Frame, Number, Part
from tb_plugin.payloads import Column, CoverageInfo, Payload, Sort
from tb_plugin.storage.checksum import with_checksum, without_checksum


class StoredFrame(Struct, frozen=True):
    """A serialised table of a view result."""

    name: str
    title: str
    columns: list[Column]
    data: bytes
    """Arrow IPC stream."""
    row_key: list[str]
    name_column: str
    sort: Sort | None


class StoredPart(Struct, frozen=True):
    """A serialised view result."""

    coverage: CoverageInfo
    facts: dict[str, Number]
    frames: Mapping[str, StoredFrame]
    payloads: dict[str, Payload]
    layout: list[str]
    worker: str
    steps: list[str]
    searched: bool


def dump(part: Part) -> bytes:
    """Serialises a view result: a checksum, followed by MessagePack that contains Arrow tables."""
    return with_checksum(msgspec.msgpack.encode(serialize(part, _write)))


def load(
    content: bytes,
    read: Callable[[str, bytes], pa.Table] = lambda name, data: _read(data),
    kind: type[StoredPart] = StoredPart,
) -> Part:
    """Deserialises the output of ``dump``. Raises ValueError if the content is damaged.

    ``read`` converts the name and the Arrow stream of a table to a table. ``kind`` is the expected type.
    """
    return from_stored(msgspec.msgpack.decode(without_checksum(content), type=kind), read)


def serialize(part: Part, write: Callable[[pa.Table], bytes]) -> StoredPart:
    """Serialises a view result. ``write`` serialises one table."""
    frames = {
        name: StoredFrame(f.name, f.title, list(f.columns), write(f.data), list(f.row_key), f.name_column, f.sort)
        for name, f in part.frames.items()
    }
    return StoredPart(
        part.coverage,
        dict(part.facts),
        frames,
        dict(part.payloads),
        list(part.layout),
        part.worker,
        list(part.steps),
        part.searched,
    )


def from_stored(kept: StoredPart, read: Callable[[str, bytes], pa.Table]) -> Part:
    """Deserialises a view result. ``read`` returns a table from its name and bytes."""
    frames = {
        name: Frame(f.name, f.title, f.columns, read(name, f.data), f.row_key, f.name_column, f.sort)
        for name, f in kept.frames.items()
    }
    return Part(
        kept.coverage,
        kept.facts,
        frames,
        kept.payloads,
        kept.layout,
        kept.worker,
        tuple(kept.steps),
        kept.searched,
    )


def with_borrowed(part: Part, other: Part | None, names: Sequence[str]) -> Part:
    """Returns a copy of ``part`` that also contains the tables and payloads in ``names`` of ``other``, if ``other``
    is given.
    """
    if other is None:
        return part
    frames = {name: other.frames[name] for name in names if name in other.frames}
    payloads = {name: other.payloads[name] for name in names if name in other.payloads}
    return replace(part, frames={**part.frames, **frames}, payloads={**part.payloads, **payloads})


def _read(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()


def _write(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
