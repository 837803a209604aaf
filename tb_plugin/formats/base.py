"""Interfaces between stored files and readers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO, Protocol, TypeVar, runtime_checkable

import msgspec

from tb_plugin.model.trace.kernel_rules import RuleFile
from tb_plugin.model.trace.table import Window
from tb_plugin.model.trace.window import Survey

Raw_co = TypeVar("Raw_co", covariant=True)

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
GZIP_MAGIC = b"\x1f\x8b"  # compression is recognised by the first bytes, or by the name if these are not available


class Source(Protocol):
    """Files of one profile: a single file or a folder. Implemented by ``storage``."""

    def names(self) -> Sequence[str]:
        """Returns the file names, relative to the profile."""
        ...

    def open(self, name: str) -> BinaryIO:
        """Opens a file for reading its stored bytes, without decompression. Raises StorageError."""
        ...

    def size(self, name: str) -> int:
        """Returns the stored size in bytes."""
        ...


class FileSize(msgspec.Struct, frozen=True):
    """File size as known before reading."""

    stored_bytes: int
    is_packed: bool = False  # based on the first bytes, or on the name if these are not available
    declared_bytes: int | None = None
    """Uncompressed size recorded at the end of the archive (modulo 2**32, last member only). None if unknown."""

    def text_bytes(self, ratio: int) -> int:
        """Returns the estimated uncompressed size in bytes. ``ratio``: usual compression ratio of the format."""
        if not self.is_packed:
            return self.stored_bytes
        likely = ratio * self.stored_bytes
        # The value is too small if the file has several members or more than 4 GiB of text.
        stated = self.declared_bytes
        return stated if stated is not None and likely / 10 < stated < likely * 10 else likely


class ListedFile(msgspec.Struct, frozen=True):
    """A file in the log directory. ``path`` is relative to it, with forward slashes."""

    path: str
    size: int
    fingerprint: str
    """Changes whenever the content may have changed. Made from size, modification time and etag."""


class Candidate(msgspec.Struct, frozen=True):
    """A possible profile.

    A candidate claims its files. If two candidates claim the same file, the stronger one wins.

    ``span`` contains the digits of the time in the file name (ms or ns), or None. ``certain`` is False if only the
    extension matches; the first bytes then decide.
    """

    reader: str
    run: str
    worker: str
    span: str | None
    names: tuple[str, ...]
    """Files to read. The first is the main file: its first bytes are checked, and users can download it."""
    certain: bool
    root: str = ""
    """Folder displayed as the profile, if it is not a single file. "." is the log directory."""
    also: tuple[str, ...] = ()
    """Files of this profile that are claimed but not read."""
    time_unix_ns: int | None = None
    """Recording time in the file names, if not in ``span``."""
    stage: str = ""
    """Part of a recording, from the file name, such as ``DECODE``. Used to name the span."""
    is_quiet: bool = False
    """If no reader accepts the file, do not list it as skipped. Set for common extensions."""

    @property
    def strength(self) -> tuple[bool, int]:
        """Returns the priority among overlapping claims: certain candidates first, then those with more files."""
        return (self.certain, len(self.names) + len(self.also))

    @property
    def place(self) -> str:
        """Returns the path that identifies the profile to users, relative to the log directory."""
        return self.root or self.names[0]


class JobInfo(msgspec.Struct, frozen=True):
    """The distributed job of a profile. Files contain no job id, so these fields are compared."""

    rank: int
    world_size: int  # 0 if unknown
    backend: str = ""
    group: str = ""
    """Description of the group of all ranks, equal on all ranks. "" if unknown."""
    process: str = ""
    """Host and process that recorded the profile, equal for all profiles of that process. "" if unknown."""
    start_ns: int | None = None  # approximate start of the recording
    clock: str = "unix"
    """"unix" (since 1970), or the name of another clock that all profiles of a job share."""
    first_step: int | None = None


class ReadOptions(msgspec.Struct, frozen=True):
    """Options of a read.

    ``chunk_bytes`` limits the text decoded at once; it does not change the result. ``window`` is the time window to
    load, None = everything. A windowed read still scans the whole file, because events are not sorted by time.
    """

    chunk_bytes: int = 512 * 1024
    window: Window | None = None
    class_rules: RuleFile = RuleFile()
    """User rules for kernel classes. They take precedence over the built-in rules."""
    own_steps: str = ""
    """User pattern for step annotations (``TORCH_TRACE_STEPS``)."""


class ReadState(msgspec.Struct, frozen=True):
    """Progress of a read: fraction of the stored bytes (0 to 1) and number of decoded events.

    The keys of ``counts`` are the names of ``EventKind`` in lower case, "memory" (allocator events), "counter" and
    "other" (names, arrows, marks). Zero counts are omitted. ``head`` is the metadata written before the events.
    """

    fraction: float
    events: int
    counts: Mapping[str, int]
    head: Mapping[str, Any] = msgspec.field(default_factory=dict)


Progress = Callable[[ReadState], None]
"""Called several times per second during a read, and once at the end. May raise Cancelled."""


def no_progress(state: ReadState) -> None:
    """Ignores progress reports."""


class Reader(Protocol[Raw_co]):
    """A reader for one trace format, declared in ``formats/<format>/__init__.py`` (see ``format_entry.py``).

    All members are required. Optional features have their own protocols, such as ``Windowed``.
    """

    id: str
    """Permanent id of the reader, used in cache keys and in ``ReadReport.format``."""

    title: str
    """Format name for users, such as "PyTorch trace"."""

    @property
    def raw(self) -> type[Raw_co]:
        """Returns the type of the result of ``read``. It determines the model (see ``models``)."""
        ...

    endings: tuple[str, ...]
    """File extensions such as ``.json.gz``, displayed if no profile was found. Folder extensions end in "/"."""

    def find(self, listing: Sequence[ListedFile]) -> list[Candidate]:
        """Returns candidate profiles, based on file names."""
        ...

    def sniff(self, head: bytes) -> bool:
        """Returns True if the first (uncompressed) bytes look like this format."""
        ...

    def peak_memory_bytes(self, sizes: Mapping[str, FileSize]) -> int:
        """Returns the estimated peak memory of ``read`` in bytes. ``sizes``: file sizes by name.

        The memory of an idle worker process is not included. If the estimate is too low, a worker may be killed.
        """
        ...

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> Raw_co:
        """Reads the source, or a time window of it if the reader is ``Windowed``.

        Raises UnreadableTrace if the source is not a trace, and any error from ``progress``.
        """
        ...


@runtime_checkable
class Windowed(Protocol):
    """A reader that can load a time window of a profile: ``read`` supports ``ReadOptions.window``.

    Without it, a profile that does not fit into memory cannot be loaded.
    """

    def survey(self, source: Source, options: ReadOptions, progress: Progress) -> Survey:
        """Returns time bounds, steps and device work. Uses much less memory than ``read``.

        Raises WindowUnsupported if the profile can only be loaded as a whole, and any error that ``read`` raises.
        """
        ...

    def room_bytes(self, memory_bytes: int) -> int:
        """Returns how many bytes of text (see ``Survey.cell_bytes``) can be read with ``memory_bytes`` of memory."""
        ...


@runtime_checkable
class Identifying(Protocol):
    """A reader for profiles that contain their rank and job, so that they can be grouped regardless of folders and
    names.
    """

    def identify(self, names: Sequence[str], head: Callable[[str], bytes]) -> JobInfo | None:
        """Returns the job of a profile, or None if unknown.

        ``head`` returns the first 64 KiB (uncompressed) of a file and may raise. Nothing else is read.
        """
        ...
