"""Interfaces between stored bytes and readers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO, Protocol, TypeVar, runtime_checkable

import msgspec

from tb_plugin.model.trace.kernel_rules import RuleFile
from tb_plugin.model.trace.table import Window
from tb_plugin.model.trace.window import Survey

Raw_co = TypeVar("Raw_co", covariant=True)

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
GZIP_MAGIC = b"\x1f\x8b"  # compression is judged by first bytes, or by the name if they are not available


class Source(Protocol):
    """The bytes of one profile: one file or a folder of files. Implemented by ``storage``."""

    def names(self) -> Sequence[str]:
        """Returns the names of the files, relative to the profile."""
        ...

    def open(self, name: str) -> BinaryIO:
        """Returns the raw (still compressed) bytes of one file. Raises StorageError."""
        ...

    def size(self, name: str) -> int:
        """Returns the stored size in bytes."""
        ...


class FileSize(msgspec.Struct, frozen=True):
    """Size of a file, as far as it is known before reading."""

    stored_bytes: int
    is_packed: bool = False  # by its first bytes, or by its name if they are not available
    declared_bytes: int | None = None
    """Uncompressed size from the archive's end (modulo 2**32, last member only), None if unknown."""

    def text_bytes(self, ratio: int) -> int:
        """Returns the estimated uncompressed size, bytes; ``ratio`` is the usual compression ratio."""
        if not self.is_packed:
            return self.stored_bytes
        likely = ratio * self.stored_bytes
        # A value that is too small comes from several members or from more than 4 GiB.
        stated = self.declared_bytes
        return stated if stated is not None and likely / 10 < stated < likely * 10 else likely


class ListedFile(msgspec.Struct, frozen=True):
    """A file found under the log directory; ``path`` is relative to it, with forward slashes."""

    path: str
    size: int
    fingerprint: str
    """Changes whenever the content may have changed (size, modification time, etag)."""


class Candidate(msgspec.Struct, frozen=True):
    """A possible profile.

    A candidate claims its files. Where claims overlap, the strongest one wins.

    ``span`` has the digits of the time in the file name (ms or ns), or None. If only the extension matches,
    ``certain`` is False and the first bytes are sniffed.
    """

    reader: str
    run: str
    worker: str
    span: str | None
    names: tuple[str, ...]
    """Files that ``read`` gets. The first is the main file: it is sniffed, and downloaded as the original."""
    certain: bool
    root: str = ""
    """Folder that users see as the profile, if it is not the file itself; "." is the log directory."""
    also: tuple[str, ...] = ()
    """Files of this profile that are claimed but not read."""
    time_unix_ns: int | None = None
    """Recording time, if the names contain it outside ``span``."""
    stage: str = ""
    """Part of a recording in the name, such as ``DECODE``; it names the span."""
    is_quiet: bool = False
    """Only a common extension matches: a refused file is not listed as skipped."""

    @property
    def strength(self) -> tuple[bool, int]:
        """Returns the rank among overlapping claims: certain first, then more files."""
        return (self.certain, len(self.names) + len(self.also))

    @property
    def place(self) -> str:
        """Returns the path that users see as the profile, relative to the log directory."""
        return self.root or self.names[0]


class JobInfo(msgspec.Struct, frozen=True):
    """Distributed job that a profile names. Files do not identify their job, so these fields are compared."""

    rank: int
    world_size: int  # 0 if unknown
    backend: str = ""
    group: str = ""
    """Description of the group of all ranks, equal on all ranks; empty if unknown."""
    process: str = ""
    """Host and process that recorded it, equal for all profiles of the process; empty if unknown."""
    start_ns: int | None = None  # approximate start of the recording
    clock: str = "unix"
    """"unix" (since 1970), or another name that profiles of one job share."""
    first_step: int | None = None


class ReadOptions(msgspec.Struct, frozen=True):
    """Options of a read.

    ``chunk_bytes`` bounds the text decoded at once; the result does not depend on it. ``window`` is the part to load,
    None for all. Files are not sorted by time: a windowed read goes through the whole file and drops outside events
    at once.
    """

    chunk_bytes: int = 512 * 1024
    window: Window | None = None
    class_rules: RuleFile = RuleFile()
    """User rules for kernel classes, applied before the built-in rules."""
    own_steps: str = ""
    """User pattern for step annotations (``TORCH_TRACE_STEPS``)."""


class ReadState(msgspec.Struct, frozen=True):
    """Progress of a read: the fraction of the stored bytes, 0 to 1, and the decoded events.

    ``counts`` has the names of ``EventKind`` in lower case, "memory" (allocator events), "counter" and "other"
    (names, arrows, marks); zero counts are missing. ``head`` has the metadata written before the events (as
    ``RawTrace.metadata``).
    """

    fraction: float
    events: int
    counts: Mapping[str, int]
    head: Mapping[str, Any] = msgspec.field(default_factory=dict)


Progress = Callable[[ReadState], None]
"""Called several times per second and once at the end of a read; may raise Cancelled."""


def no_progress(state: ReadState) -> None:
    """Ignores the progress."""


class Reader(Protocol[Raw_co]):
    """A reader of one trace format, declared in ``formats/<format>/__init__.py`` (see ``format_entry.py``).

    All members are required. Optional abilities have protocols of their own, such as ``Windowed``.
    """

    id: str
    """Names the reader in cache keys and in ``ReadReport.format``; never changes."""

    title: str
    """Name of the format for users, such as "PyTorch trace"."""

    @property
    def raw(self) -> type[Raw_co]:
        """Returns the type that ``read`` returns; it selects the model (see ``models``)."""
        ...

    endings: tuple[str, ...]
    """Extensions of possible profiles, such as ``.json.gz``, listed if nothing was found; a folder's ends in "/"."""

    def find(self, listing: Sequence[ListedFile]) -> list[Candidate]:
        """Returns candidate profiles, judged by file name."""
        ...

    def sniff(self, head: bytes) -> bool:
        """Returns True if the first (uncompressed) bytes look like this format."""
        ...

    def peak_memory_bytes(self, sizes: Mapping[str, FileSize]) -> int:
        """Returns the estimated peak memory of ``read``, bytes, from the file sizes by name.

        The memory of an idle worker process is not included. A worker may be killed if the estimate is too low.
        """
        ...

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> Raw_co:
        """Returns the source, or a window of it if the reader is ``Windowed``.

        Raises UnreadableTrace if the source is not a trace, and what ``progress`` raises.
        """
        ...


@runtime_checkable
class Windowed(Protocol):
    """A reader that can open part of a profile: its ``read`` obeys ``ReadOptions.window``.

    Other profiles that do not fit into memory are refused.
    """

    def survey(self, source: Source, options: ReadOptions, progress: Progress) -> Survey:
        """Returns bounds, steps and work, with a small part of the memory of a ``read``.

        Raises WindowUnsupported for a profile that opens only as a whole, and what ``read`` raises.
        """
        ...

    def room_bytes(self, memory_bytes: int) -> int:
        """Returns how many bytes, as ``Survey.cell_bytes`` counts them, fit into ``memory_bytes``."""
        ...


@runtime_checkable
class Identifying(Protocol):
    """A reader whose profiles name their rank and job, so that they are joined across folders and names."""

    def identify(self, names: Sequence[str], head: Callable[[str], bytes]) -> JobInfo | None:
        """Returns the job of the profile, None if unknown.

        ``head`` returns the first 64 KiB (uncompressed) of a file and may raise; nothing else is read.
        """
        ...
