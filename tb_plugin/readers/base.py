"""The seam between bytes and tables: what a source of bytes is, and what a reader of a format does with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol

from tb_plugin.trace.table import RawTrace, Window
from tb_plugin.trace.window import Survey


class Source(Protocol):
    """The bytes of one profile: one file or a folder of files. Implemented by ``storage``."""

    def names(self) -> Sequence[str]:
        """Names of the files, relative to the profile."""
        ...

    def open(self, name: str) -> BinaryIO:
        """The raw (still compressed) bytes of one file. Raises StorageError."""
        ...

    def size(self, name: str) -> int:
        """Stored size in bytes."""
        ...


@dataclass(frozen=True)
class ListedFile:
    """A file found under the log directory; ``path`` is relative to it, with forward slashes."""

    path: str
    size: int
    fingerprint: str
    """Changes whenever the content may have changed (size, modification time, etag)."""


@dataclass(frozen=True)
class Candidate:
    """A profile that a reader thinks it could read.

    ``span`` is the digits of the file name's token (a time in ms or ns), or None. ``certain`` is False when only the
    extension speaks for it, so that the first bytes must be sniffed before it is offered.
    """

    reader: str
    run: str
    worker: str
    span: str | None
    names: tuple[str, ...]
    certain: bool


@dataclass(frozen=True)
class ReadOptions:
    """``chunk_bytes`` bounds the text decoded at once; the result must not depend on it.

    ``window`` is the part of the trace to keep, None = all. Files are not in order of time: all of the file is looked
    through, and what lies outside is let go at once, so that the memory is that of the window.
    """

    chunk_bytes: int = 512 * 1024
    window: Window | None = None


@dataclass(frozen=True)
class ReadState:
    """How far a read is: ``fraction`` of the stored bytes, 0..1, and the events decoded so far, also by kind.

    ``counts`` has the names of ``EventKind`` in lower case, "memory" (allocator events), "counter" and "other" (names,
    arrows, marks); only kinds that were met. ``head`` are the facts that the file states ahead of its events (as
    ``RawTrace.metadata``), which are right before anything else is.
    """

    fraction: float
    events: int
    counts: Mapping[str, int]
    head: Mapping[str, Any] = field(default_factory=dict)


Progress = Callable[[ReadState], None]
"""Called several times a second while reading and once at the end; may raise Cancelled to stop the read."""


def no_progress(state: ReadState) -> None:
    """A Progress for callers that do not show any."""


class Reader(Protocol):
    """One trace format. Add one by a file here and a line in ``READERS``."""

    id: str

    def find(self, listing: Sequence[ListedFile]) -> list[Candidate]:
        """The profiles among the listed files, judged by name alone."""
        ...

    def sniff(self, head: bytes) -> bool:
        """True when a file that begins with these (uncompressed) bytes may hold this format."""
        ...

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> RawTrace:
        """The source, or the window of it. Raises UnreadableTrace when there is no event list at all."""
        ...

    def survey(self, source: Source, options: ReadOptions, progress: Progress) -> Survey:
        """What is when in the source, in a small part of the memory of a ``read``. Raises UnreadableTrace."""
        ...
