"""Serialisation of view results for the cache and other processes.

Worker processes memory-map the merged result of a run, so that they share its pages::

    a table as an Arrow stream, ...   each starts at a multiple of 8
    the result without its tables     MessagePack, with the byte range of each table
    size of the MessagePack part      8 bytes, little endian
    checksum of all bytes before      storage/checksum.py
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pyarrow as pa
from msgspec import Struct

from tb_plugin.analysis.base import Frame, Number, Part
from tb_plugin.payloads import Column, CoverageInfo, Payload, Sort
from tb_plugin.storage.checksum import STAMP_BYTES, append_checksum, has_valid_checksum, with_checksum, without_checksum

# Suffix of memory-mapped results.
MAPPED = ".joined"
_LENGTH_BYTES = 8


class StoredFrame(Struct, frozen=True):
    name: str
    title: str
    columns: list[Column]
    data: bytes
    row_key: list[str]
    name_column: str
    sort: Sort | None
    sql: str = ""


class StoredPart(Struct, frozen=True):
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
    return with_checksum(msgspec.msgpack.encode(_stored(part, _write)))


def load(
    content: bytes,
    read: Callable[[str, bytes], pa.Table] = lambda name, data: _read(data),
    kind: type[StoredPart] = StoredPart,
) -> Part:
    """Deserialises ``dump``; ``read`` converts the named Arrow stream of a table. Raises ValueError if damaged."""
    return _part(msgspec.msgpack.decode(without_checksum(content), type=kind), read)


class _Head(Struct, frozen=True):
    part: StoredPart
    sizes: list[int]


def write_mapped(part: Part, path: Path) -> None:
    """Writes a result for ``read_mapped``, table by table. Raises OSError."""
    sizes, end = [], 0
    with pa.OSFile(os.fspath(path), "wb") as sink:
        for frame in part.frames.values():
            with pa.ipc.new_stream(sink, frame.data.schema) as writer:
                writer.write_table(frame.data)
            sizes.append(sink.tell() - end)
            end = sink.tell()
        head = msgspec.msgpack.encode(_Head(_stored(part, lambda table: b""), sizes))
        sink.write(head)
        sink.write(len(head).to_bytes(_LENGTH_BYTES, "little"))
    append_checksum(path)


def read_mapped(path: str) -> Part:
    """Reads a result. Its tables are memory-mapped. Raises OSError, and ValueError if the file is damaged."""
    if not has_valid_checksum(path):
        raise ValueError("The checksum does not match.")
    with pa.memory_map(path) as file:
        content = file.read_buffer()
    end = content.size - STAMP_BYTES - _LENGTH_BYTES
    length = int.from_bytes(content.slice(end, _LENGTH_BYTES), "little")
    head = msgspec.msgpack.decode(content.slice(end - length, length), type=_Head)
    streams, begin = [], 0
    for count in head.sizes:
        streams.append(content.slice(begin, count))
        begin += count
    left = iter(streams)
    return _part(head.part, lambda name, data: _read(next(left)))


def _stored(part: Part, write: Callable[[pa.Table], bytes]) -> StoredPart:
    frames = {
        name: StoredFrame(
            f.name, f.title, list(f.columns), write(f.data), list(f.row_key), f.name_column, f.sort, f.sql
        )
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


def _part(kept: StoredPart, read: Callable[[str, bytes], pa.Table]) -> Part:
    frames = {
        name: Frame(f.name, f.title, f.columns, read(name, f.data), f.row_key, f.name_column, f.sort, f.sql)
        for name, f in kept.frames.items()
    }
    return Part(
        kept.coverage, kept.facts, frames, kept.payloads, kept.layout, kept.worker, tuple(kept.steps), kept.searched
    )


def _read(data: bytes | pa.Buffer) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()


def _write(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
