"""Parts at hand, on their way between processes, and in the cache: what one profile contributes to an answer."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable

import msgspec
import pyarrow as pa
from msgspec import Struct

from tb_plugin.analyses.base import Frame, Number, Part
from tb_plugin.payloads import Column, CoverageInfo, Payload, Sort
from tb_plugin.storage.seal import sealed, unsealed

_PART_BYTES = 10_000
"""Of a part besides its tables."""


class OpenParts:
    """The parts that were used last, as many as ``max_bytes`` of tables allow. Tables that parts share count once."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._parts: OrderedDict[tuple[object, ...], Part] = OrderedDict()
        self._users: Counter[int] = Counter()
        """Tables by identity -> parts that hold them."""
        self._bytes = 0

    def get(self, key: tuple[object, ...], make: Callable[[], Part]) -> Part:
        """The part under a key, made when it is not there."""
        if key not in self._parts:
            self._parts[key] = part = make()
            self._count(part, 1)
            while self._bytes > self._max_bytes and len(self._parts) > 1:
                self._count(self._parts.popitem(last=False)[1], -1)
        self._parts.move_to_end(key)
        return self._parts[key]

    def forget(self, path: str) -> None:
        """Lets go of all whose key begins with ``path``."""
        for key in [key for key in self._parts if key[0] == path]:
            self._count(self._parts.pop(key), -1)

    def clear(self) -> None:
        """Lets go of all."""
        self._parts.clear()
        self._users.clear()
        self._bytes = 0

    def _count(self, part: Part, change: int) -> None:
        self._bytes += change * _PART_BYTES
        for frame in part.frames.values():
            table = id(frame.data)
            before, self._users[table] = self._users[table], self._users[table] + change
            if not before or not self._users[table]:  # the first to come, or the last to go
                self._bytes += change * frame.data.nbytes
            if not self._users[table]:
                del self._users[table]


class _StoredFrame(Struct, frozen=True):
    name: str
    title: str
    columns: list[Column]
    data: bytes
    """An Arrow IPC stream."""
    row_key: list[str]
    name_column: str
    sort: Sort | None


class _StoredPart(Struct, frozen=True):
    coverage: CoverageInfo
    facts: dict[str, Number]
    frames: dict[str, _StoredFrame]
    payloads: dict[str, Payload]
    layout: list[str]
    worker: str
    steps: list[str]
    searched: bool


def dump(part: Part) -> bytes:
    """A part as MessagePack, its tables as Arrow, behind a checksum."""
    frames = {
        name: _StoredFrame(f.name, f.title, list(f.columns), _write(f.data), list(f.row_key), f.name_column, f.sort)
        for name, f in part.frames.items()
    }
    stored = _StoredPart(
        part.coverage,
        dict(part.facts),
        frames,
        dict(part.payloads),
        list(part.layout),
        part.worker,
        list(part.steps),
        part.searched,
    )
    return sealed(msgspec.msgpack.encode(stored))


def load(content: bytes) -> Part:
    """The part that ``dump`` wrote. Raises ValueError when the content is damaged."""
    stored = msgspec.msgpack.decode(unsealed(content), type=_StoredPart)
    frames = {
        name: Frame(f.name, f.title, f.columns, pa.ipc.open_stream(f.data).read_all(), f.row_key, f.name_column, f.sort)
        for name, f in stored.frames.items()
    }
    return Part(
        stored.coverage,
        stored.facts,
        frames,
        stored.payloads,
        stored.layout,
        stored.worker,
        tuple(stored.steps),
        stored.searched,
    )


def _write(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
