"""Declarations of formats, which do not import the decoders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import Any

from tb_plugin.formats.base import (
    Candidate,
    FileSize,
    Identifying,
    ListedFile,
    Progress,
    Reader,
    ReadOptions,
    Source,
    Windowed,
)
from tb_plugin.lib.lazy import load_class, name_of

TRACE = "tb_plugin.model.trace.table:RawTrace"  # result class of trace readers (``lib/lazy.py``)


class FormatEntry:
    """Declaration of a format, in ``formats/<format>/__init__.py``: ``FORMATS = (FormatEntry(__name__, ...),)``.

    The entry is a ``Reader``. It imports the class in ``reader.py`` only to estimate memory or to read a file. A
    file that could have several formats is read by the first reader, in the order of ``order``, that accepts it.
    Specific formats come before general ones. ``raw`` is the name of the class that ``read`` returns. ``uses``
    contains the formats whose readers are passed to this reader. ``records_devices``: every file contains device work.
    """

    def __init__(
        self,
        module: str,
        id: str,
        title: str,
        *,
        order: int,
        raw: str,
        endings: tuple[str, ...],
        find: Callable[[Sequence[ListedFile]], list[Candidate]],
        sniff: Callable[[bytes], bool],
        uses: tuple[str, ...] = (),
        records_devices: bool = False,
    ) -> None:
        self.id = id
        self.title = title
        self.order = order
        self.raw_name = raw
        self.endings = endings
        self.find = find
        self.sniff = sniff
        self.records_devices = records_devices
        self.implementation: type[Any] | None = None  # the reader class, once it is defined
        self._module = module
        self._uses = uses

    @property
    def raw(self) -> type[Any]:
        return load_class(self.raw_name)

    @cached_property
    def reader(self) -> Reader[Any]:
        if self.implementation is None:
            import_module(f"{self._module}.reader")
        assert self.implementation is not None
        every = {each.id: each for each in import_module("tb_plugin.formats").READERS} if self._uses else {}
        made: Reader[Any] = self.implementation(*(every[name].reader for name in self._uses))
        return made

    def peak_memory_bytes(self, sizes: Mapping[str, FileSize]) -> int:
        return self.reader.peak_memory_bytes(sizes)

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> Any:
        return self.reader.read(source, options, progress)


class DeclaredReader:
    """Base class of readers, with the members of an entry: ``class X(DeclaredReader, entry=FORMATS[0])``."""

    entry: FormatEntry
    id: str
    title: str
    endings: tuple[str, ...]

    def __init_subclass__(cls, entry: FormatEntry, **others: Any) -> None:
        super().__init_subclass__(**others)
        entry.implementation = cls
        cls.entry = entry
        cls.id, cls.title, cls.endings = entry.id, entry.title, entry.endings

    @property
    def raw(self) -> type[Any]:
        return self.entry.raw

    def find(self, listing: Sequence[ListedFile]) -> list[Candidate]:
        return self.entry.find(listing)

    def sniff(self, head: bytes) -> bool:
        return self.entry.sniff(head)


def raw_name(reader: Reader[Any]) -> str:
    """Returns the name of the class of the objects that ``read`` returns. Does not import that class."""
    return reader.raw_name if isinstance(reader, FormatEntry) else name_of(reader.raw)


def as_windowed_reader(reader: Reader[Any]) -> Windowed | None:
    able = _loaded(reader)
    return able if isinstance(able, Windowed) else None


def as_identifying_reader(reader: Reader[Any]) -> Identifying | None:
    able = _loaded(reader)
    return able if isinstance(able, Identifying) else None


def _loaded(reader: Reader[Any]) -> Reader[Any]:
    return reader.reader if isinstance(reader, FormatEntry) else reader
