"""The seam between bytes and tables: what a source of bytes is, and what a reader of a format does with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol, TypeVar, runtime_checkable

from tb_plugin.model.trace.kernel_rules import RuleFile
from tb_plugin.model.trace.table import Window
from tb_plugin.model.trace.window import Survey

Raw_co = TypeVar("Raw_co", covariant=True)

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
"""First bytes of a Zstandard archive."""
GZIP_MAGIC = b"\x1f\x8b"
"""First bytes of a gzip archive. Compression is judged by them, and by a name only where the bytes are not at hand."""


class Source(Protocol):
    """The bytes of one profile: one file or a folder of files. Implemented by ``storage``."""

    def names(self) -> Sequence[str]:
        """Names of the files, relative to the profile."""
        ...

    def open(self, name: str) -> BinaryIO:
        """Returns the raw (still compressed) bytes of one file. Raises StorageError."""
        ...

    def size(self, name: str) -> int:
        """Returns the stored size in bytes."""
        ...


@dataclass(frozen=True)
class FileSize:
    """How large a file of a profile is, as far as it is known before the file is read."""

    stored_bytes: int
    is_packed: bool = False
    """It is an archive: by its first bytes, or by its name where only that is at hand."""
    stated_bytes: int | None = None
    """Uncompressed bytes that the end of the archive states (modulo 2**32, of its last member), None = not known."""

    def text_bytes(self, ratio: int) -> int:
        """Returns about how many bytes the file holds uncompressed; archives of its kind pack ``ratio`` times."""
        if not self.is_packed:
            return self.stored_bytes
        likely = ratio * self.stored_bytes
        # Too small a statement comes from several members or from more than 4 GiB.
        stated = self.stated_bytes
        return stated if stated is not None and likely / 10 < stated < likely * 10 else likely


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

    It claims its files: where claims overlap the strongest stands, and the others are dropped without a word.

    ``span`` is the digits of the file name's token (a time in ms or ns), or None. ``certain`` is False when only the
    extension speaks for it, so that the first bytes must be sniffed before it is offered.
    """

    reader: str
    run: str
    worker: str
    span: str | None
    names: tuple[str, ...]
    """Names of the files that ``read`` gets. The first is the main one: it is sniffed, and downloaded as the original."""
    certain: bool
    root: str = ""
    """Path of what a person takes for the profile, where that is not the file itself: its folder, "." the log directory."""
    also: tuple[str, ...] = ()
    """Files that belong to it and are not read: claimed, so that nobody takes them for profiles of their own."""
    time_unix_ns: int | None = None
    """When it was recorded, where the names tell it in another way than ``span``."""
    stage: str = ""
    """Part of a recording that the name tells, such as ``DECODE``: the name of its span."""
    is_quiet: bool = False
    """Nothing but a common ending speaks for it: refused, it is not told among what was skipped."""

    @property
    def strength(self) -> tuple[bool, int]:
        """Returns what overlapping claims are compared by: a certain one is stronger, then that on more files."""
        return (self.certain, len(self.names) + len(self.also))

    @property
    def place(self) -> str:
        """Returns the path of what a person takes for the profile, relative to the log directory."""
        return self.root or self.names[0]


@dataclass(frozen=True)
class JobInfo:
    """What a profile states of the distributed job that it was recorded in. No file names its job: these are compared."""

    rank: int
    world_size: int
    """0 where it is not stated."""
    backend: str = ""
    group: str = ""
    """What describes the group of all ranks, the same on all of them; empty where nothing is stated."""
    process: str = ""
    """Host and process that recorded it, the same for all profiles of that process; empty where nothing is stated."""
    start_ns: int | None = None
    """When recording began, about."""
    clock: str = "unix"
    """Which clock that is: "unix" since 1970, or another name that profiles of one job share."""
    first_step: int | None = None


@dataclass(frozen=True)
class ReadOptions:
    """``chunk_bytes`` bounds the text decoded at once; the result must not depend on it.

    ``window`` is the part of the trace to keep, None = all. Files are not in order of time: all of the file is looked
    through, and what lies outside is let go at once, so that the memory is that of the window.
    """

    chunk_bytes: int = 512 * 1024
    window: Window | None = None
    class_rules: RuleFile = RuleFile()
    """What a person says that kernels do, before the rules of the package."""
    own_steps: str = ""
    """A person's own pattern of annotations that are steps (``TORCH_TRACE_STEPS``)."""


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
    """Serves as the Progress of callers that do not show any."""


class Reader(Protocol[Raw_co]):
    """A reader knows one trace format. A format is declared in ``formats/<format>/__init__.py`` (``format_entry.py``).

    Everything here is required. What only some readers can is a Protocol of its own: ``Windowed``.
    """

    id: str
    """Names the reader in cache keys and in ``ReadReport.format``; it never changes."""

    title: str
    """What a file of the format is, for people: whose it is, and what."""

    @property
    def raw(self) -> type[Raw_co]:
        """Returns the type that ``read`` returns: it says which model a profile of this format is (see ``models``)."""
        ...

    endings: tuple[str, ...]
    """Of names that may be its profiles, such as ``.json.gz``, told where nothing was found; that of a folder ends in "/"."""

    def find(self, listing: Sequence[ListedFile]) -> list[Candidate]:
        """Returns the profiles among the listed files, judged by name alone."""
        ...

    def sniff(self, head: bytes) -> bool:
        """Returns True when a file that begins with these (uncompressed) bytes may hold this format."""
        ...

    def need_bytes(self, sizes: Mapping[str, FileSize]) -> int:
        """Returns how many bytes of memory ``read`` will take at its peak, estimated from the files' sizes by name.

        What an idle worker process takes is not part of it. Too small an estimate may end in a killed worker.
        """
        ...

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> Raw_co:
        """Returns the source, or the window of it where the reader is ``Windowed``.

        Raises UnreadableTrace when the source holds no trace at all, and what ``progress`` raises.
        """
        ...


@runtime_checkable
class Windowed(Protocol):
    """A reader that can open a part of a profile: its ``read`` obeys ``ReadOptions.window``.

    Profiles of other readers that do not fit into the memory are refused with the reason.
    """

    def survey(self, source: Source, options: ReadOptions, progress: Progress) -> Survey:
        """Returns what is when in the source, in a small part of the memory of a ``read``. Raises what ``read`` raises.

        Raises WindowUnsupported for a profile of which it can open no part.
        """
        ...

    def room_bytes(self, memory_bytes: int) -> int:
        """Returns how much of what ``Survey.cell_bytes`` counts a read can keep in so much memory."""
        ...


@runtime_checkable
class Identifying(Protocol):
    """What a reader can do besides whose profiles state rank and job: they are joined across folders and names."""

    def identify(self, names: Sequence[str], head: Callable[[str], bytes]) -> JobInfo | None:
        """Returns what the profile of these files states of its job; None when nothing.

        ``head`` gives the first 64 KiB (uncompressed) of a file; nothing else is read. Passes on what it raises.
        """
        ...
