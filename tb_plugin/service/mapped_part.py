"""Memory-mapped file with the merged result of a run.

Worker processes share its pages instead of copying them.

a table as an Arrow stream, ...   each starts at a multiple of 8
    the result without its tables     MessagePack, with the byte range of each table
    size of the MessagePack part      8 bytes, little endian
    checksum of all bytes before      storage/checksum.py
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pyarrow as pa

from tb_plugin.analysis.base import Part
from tb_plugin.service.part_codec import StoredPart, from_stored, serialize
from tb_plugin.storage.checksum import STAMP_BYTES, append_checksum, has_valid_checksum

SUFFIX = ".joined"
_LENGTH_BYTES = 8


class _Head(msgspec.Struct, frozen=True):
    part: StoredPart
    sizes: list[int]


def write(part: Part, path: Path) -> None:
    """Writes a result, table by table. Raises OSError."""
    sizes, end = [], 0
    with pa.OSFile(os.fspath(path), "wb") as sink:
        for frame in part.frames.values():
            with pa.ipc.new_stream(sink, frame.data.schema) as writer:
                writer.write_table(frame.data)
            sizes.append(sink.tell() - end)
            end = sink.tell()
        head = msgspec.msgpack.encode(_Head(serialize(part, lambda table: b""), sizes))
        sink.write(head)
        sink.write(len(head).to_bytes(_LENGTH_BYTES, "little"))
    append_checksum(path)


def read(path: str) -> Part:
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
    return from_stored(head.part, lambda name, data: pa.ipc.open_stream(next(left)).read_all())
