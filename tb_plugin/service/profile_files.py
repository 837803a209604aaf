"""Files of a profile, and its run, worker and span."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import msgspec

from tb_plugin.formats.base import Reader
from tb_plugin.storage.files import Folder
from tb_plugin.storage.listing import StoredFile


class Root(msgspec.Struct, frozen=True):
    """One log directory.

    ``name`` is the prefix of its runs (``--logdir_spec``). If it is empty and there are several log directories,
    the prefix is the directory name.
    """

    folder: Folder
    name: str = ""


class SummaryFile(msgspec.Struct, frozen=True):
    """A rank summary and its root directory."""

    folder: Folder
    file: StoredFile

    @property
    def url(self) -> str:
        """Returns the full path or URL."""
        return self.folder.locate(self.file.path)


class ProfileFiles(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """One profile: its run, worker, span and files."""

    run: str
    worker: str
    span: str
    time_unix_ms: int | None
    root: Root
    files: tuple[StoredFile, ...]
    reader: Reader[Any]
    file_worker: str = ""
    """Worker from the file name, if the file reports another one; old links may use it."""
    stage: str = ""
    """Stage in the file name, such as ``DECODE``."""
    place: str = ""
    """Path shown to users: the folder, or the only file."""
    grouped_by: str = ""
    """Sentence that explains why profiles of several folders form one run; "" = they do not."""
    summaries: tuple[SummaryFile, ...] = ()
    """Up-to-date rank summaries, preferred first."""
    is_present: bool = True
    """False if the trace is missing; ``files`` then has only its rank summary."""
    rank: str = ""
    """Rank within a merged file; "" = the whole file."""

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the paths of its files, relative to the log directory."""
        return tuple(file.path for file in self.files)

    @property
    def recording(self) -> str:
        """Returns the stage in the file name, or else the span."""
        return self.stage or self.span

    @property
    def fingerprint(self) -> str:
        """Returns a text that changes whenever the content of a file may have changed."""
        return "|".join(file.fingerprint for file in self.files)

    @property
    def url(self) -> str:
        """Returns the full path or URL of the folder or only file."""
        return full_path(self.root, self.place or self.names[0])

    @property
    def stem(self) -> str:
        """Returns the name of the folder or file without the extension of its format."""
        name = PurePosixPath(self.place or self.names[0]).name or self.root.folder.name
        endings = (ending.rstrip("/") for ending in self.reader.endings if name.endswith(ending.rstrip("/")))
        return name.removesuffix(max(endings, key=len, default=""))

    @property
    def size_bytes(self) -> int:
        """Returns the total size of its files."""
        return sum(file.size for file in self.files)


def run_name(root: Root, folder: str, several: bool) -> str:
    """Returns the run name for a folder of a log directory.

    ``several``: prefix it with the log directory, because there are several.
    """
    relative = "" if folder.strip("/") == "." else folder.strip("/")
    if prefix := root.name or (root.folder.name if several else ""):
        return f"{prefix}/{relative}" if relative else prefix
    return relative or root.folder.name


def full_path(root: Root, path: str) -> str:
    """Returns the full path or URL of a relative path in a log directory."""
    return root.folder.locate(path) if path != "." else root.folder.url
