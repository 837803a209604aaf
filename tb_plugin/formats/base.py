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
    """Files of one profile: a single file or a folder. Implementations are in ``storage``."""

    def names(self) -> Sequence[str]: ...

    def open(self, name: str) -> BinaryIO:
        """Opens a file for reading its bytes as stored, without decompression. Raises StorageError."""
        ...

    def size(self, name: str) -> int: ...


class FileSize(msgspec.Struct, frozen=True):
    """File size as known before the read."""

    stored_bytes: int
    is_packed: bool = False  # based on the first bytes, or on the name if these are not available
    declared_bytes: int | None = None
    """Size at the end of a gzip file: modulo 2**32, and only of its last member; None if unknown."""

    def text_bytes(self, ratio: int) -> int:
        """Returns the estimated uncompressed size. ``ratio`` is the format's typical compression ratio."""
        if not self.is_packed:
            return self.stored_bytes
        likely = ratio * self.stored_bytes
        # The value is too small if the file has several members or more than 4 GiB of text.
        stated = self.declared_bytes
        return stated if stated is not None and likely / 10 < stated < likely * 10 else likely


class ListedFile(msgspec.Struct, frozen=True):
    """A file in the log directory. ``path`` is relative to the log directory, with forward slashes."""

    path: str
    size: int
    fingerprint: str
    """Text made from size, modification time and etag. It changes whenever the content may have changed."""


class Candidate(msgspec.Struct, frozen=True):
    """A possible profile.

    A candidate claims its files. If two candidates claim the same file, the stronger candidate wins.

    ``span`` contains the digits of the time in the file name (ms or ns), or None. ``certain`` is False if only the
    file extension matches; then the first bytes of the file decide.
    """

    reader: str
    run: str
    worker: str
    span: str | None
    names: tuple[str, ...]
    """Files to read. The first is the main file: readers check its first bytes, and users can download it."""
    certain: bool
    root: str = ""
    """Folder displayed as the profile, if the profile is not a single file. "." is the log directory."""
    also: tuple[str, ...] = ()
    """Files of this profile that are claimed but not read."""
    time_unix_ns: int | None = None
    """Recording time from the file names, if ``span`` does not contain it."""
    stage: str = ""
    """Stage of the recording, such as ``DECODE``, from the file name. It becomes part of the span's name."""
    is_quiet: bool = False
    """True for common file extensions: the file is not listed as skipped if no reader accepts it."""

    @property
    def strength(self) -> tuple[bool, int]:
        """Returns the priority for claimed files: certain candidates first, then those with more files."""
        return (self.certain, len(self.names) + len(self.also))

    @property
    def place(self) -> str:
        """Returns the path that identifies the profile to users, relative to the log directory."""
        return self.root or self.names[0]


def each_file(candidate_of: Callable[[str], Candidate | None]) -> Callable[[Sequence[ListedFile]], list[Candidate]]:
    """Returns the ``find`` of a format that needs only the path of a file."""

    def find(listing: Sequence[ListedFile]) -> list[Candidate]:
        found = (candidate_of(file.path) for file in listing)
        return [candidate for candidate in found if candidate is not None]

    return find


class JobInfo(msgspec.Struct, frozen=True):
    """The job of a profile. Files contain no job id, so these fields are compared to group profiles."""

    rank: int
    world_size: int  # 0 if unknown
    backend: str = ""
    group: str = ""
    """Description of the group of all ranks, which is equal on all ranks. "" if unknown."""
    process: str = ""
    """Host and process that recorded the profile. Equal for all profiles of that process. "" if unknown."""
    start_ns: int | None = None  # approximate start of the recording
    clock: str = "unix"
    """"unix" (time since 1970), or the name of another clock that all profiles of a job share."""
    first_step: int | None = None


class ReadOptions(msgspec.Struct, frozen=True):
    """Options of a read. ``chunk_bytes`` of text are decoded at once. ``window``: time window to load; None = everything."""

    chunk_bytes: int = 512 * 1024
    window: Window | None = None
    class_rules: RuleFile = RuleFile()
    """Kernel class rules of the user. They take precedence over the built-in rules."""
    own_steps: str = ""
    """Pattern for step annotations, set by the user (``TORCH_TRACE_STEPS``)."""
    decoders: int = 1
    """Number of decoder processes; 1 = decode in this process. Any number gives the same result."""
    piece_bytes: int = 4 * 1024 * 1024
    """Text that a decoder process gets at once."""


class ReadState(msgspec.Struct, frozen=True):
    """Progress. ``fraction`` of the stored bytes; ``counts`` of events by EventKind, memory, counter and other."""

    fraction: float
    events: int
    counts: Mapping[str, int]
    head: Mapping[str, Any] = msgspec.field(default_factory=dict)


Progress = Callable[[ReadState], None]
"""Receives the progress several times per second during a read, and once at the end. May raise Cancelled."""


def no_progress(state: ReadState) -> None: ...


class Reader(Protocol[Raw_co]):
    """A reader for one format (see ``format_entry.py``). Optional features have protocols such as ``Windowed``."""

    id: str
    """Permanent id of the reader, used in cache keys and in ``ReadReport.format``."""

    title: str
    """Format name for users, such as "PyTorch trace"."""

    @property
    def raw(self) -> type[Raw_co]:
        """Returns the class of the objects that ``read`` returns. This class determines the model (see ``model_kinds/``)."""
        ...

    endings: tuple[str, ...]
    """File extensions for users if no profile was found, such as ``.json.gz``. That of a folder ends in "/"."""

    def find(self, listing: Sequence[ListedFile]) -> list[Candidate]: ...

    def sniff(self, head: bytes) -> bool:
        """Returns True if the first bytes (uncompressed) look like this format."""
        ...

    def peak_memory_bytes(self, sizes: Mapping[str, FileSize]) -> int:
        """Returns the estimated peak memory of ``read``. If too low, the system may kill the worker."""
        ...

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> Raw_co:
        """Reads the source. Raises UnreadableTrace if the source is not a trace, and any error that ``progress`` raises."""
        ...


@runtime_checkable
class Windowed(Protocol):
    """A reader whose ``read`` supports ``ReadOptions.window``, for profiles that do not fit into memory."""

    def survey(self, source: Source, options: ReadOptions, progress: Progress) -> Survey:
        """Returns bounds, steps and work with much less memory than ``read``. Raises WindowUnsupported, or as ``read``."""
        ...

    def room_bytes(self, memory_bytes: int) -> int:
        """Returns how much text (see ``Survey.cell_bytes``) can be read with ``memory_bytes``."""
        ...


@runtime_checkable
class Identifying(Protocol):
    """A reader for profiles that contain their rank and job, to group them whatever their folders and names."""

    def identify(self, names: Sequence[str], head: Callable[[str], bytes]) -> JobInfo | None:
        """Returns the job, or None. ``head`` returns the first 64 KiB of a file (uncompressed) and may raise."""
        ...
