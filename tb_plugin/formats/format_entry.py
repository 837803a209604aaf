"""Declarations of formats: names of their files, without importing their decoders."""

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

    The entry is a ``Reader``. It imports the class in ``reader.py`` only when memory is estimated or a file is
    read. A file of uncertain format goes to the first reader, by ``order``, that accepts it; specific formats come
    before general ones. ``raw`` names the class that ``read`` returns. ``uses`` lists the formats whose readers are
    passed to this reader.
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
    ) -> None:
        self.id = id
        self.title = title
        self.order = order
        self.raw_name = raw
        self.endings = endings
        self.find = find
        self.sniff = sniff
        self.implementation: type[Any] | None = None  # the reader class, once it is defined
        self._module = module
        self._uses = uses

    @property
    def raw(self) -> type[Any]:
        """Returns the class of the result of ``read``."""
        return load_class(self.raw_name)

    @cached_property
    def reader(self) -> Reader[Any]:
        """Imports the reader's code and returns the reader."""
        if self.implementation is None:
            import_module(f"{self._module}.reader")
        assert self.implementation is not None
        every = {each.id: each for each in import_module("tb_plugin.formats").READERS} if self._uses else {}
        made: Reader[Any] = self.implementation(*(every[name].reader for name in self._uses))
        return made

    def peak_memory_bytes(self, sizes: Mapping[str, FileSize]) -> int:
        """Returns the estimated peak memory of a read, in bytes."""
        return self.reader.peak_memory_bytes(sizes)

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> Any:
        """Reads the source, or a time window of it. Raises UnreadableTrace."""
        return self.reader.read(source, options, progress)


class DeclaredReader:
    """Base of reader classes that adds the members of their entry: ``class X(DeclaredReader, entry=FORMATS[0])``."""

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
        """Returns the class of the result of ``read``."""
        return self.entry.raw

    def find(self, listing: Sequence[ListedFile]) -> list[Candidate]:
        """Returns candidate profiles, based on file names."""
        return self.entry.find(listing)

    def sniff(self, head: bytes) -> bool:
        """Returns True if the first (uncompressed) bytes look like this format."""
        return self.entry.sniff(head)


def raw_name(reader: Reader[Any]) -> str:
    """Returns the name of the class that a reader returns, without importing it."""
    return reader.raw_name if isinstance(reader, FormatEntry) else name_of(reader.raw)


def as_windowed_reader(reader: Reader[Any]) -> Windowed | None:
    """Returns the reader if it can load time windows, otherwise None."""
    able = _loaded(reader)
    return able if isinstance(able, Windowed) else None


def as_identifying_reader(reader: Reader[Any]) -> Identifying | None:
    """Returns the reader if it can identify the job of a profile, otherwise None."""
    able = _loaded(reader)
    return able if isinstance(able, Identifying) else None


def _loaded(reader: Reader[Any]) -> Reader[Any]:
    return reader.reader if isinstance(reader, FormatEntry) else reader
