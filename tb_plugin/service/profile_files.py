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

    ``name`` is the prefix of its run names (``--logdir_spec``). If ``name`` is empty and there are several log
    directories, the directory name is the prefix.
    """

    folder: Folder
    name: str = ""
    is_dropped: bool = False
    """Whether the folder contains files that a user dropped on the page."""


class SummaryFile(msgspec.Struct, frozen=True):
    folder: Folder
    file: StoredFile

    @property
    def url(self) -> str:
        return self.folder.locate(self.file.path)


class ProfileFiles(msgspec.Struct, frozen=True, eq=False, weakref=True):
    run: str
    worker: str
    span: str
    time_unix_ms: int | None
    root: Root
    files: tuple[StoredFile, ...]
    reader: Reader[Any]
    file_worker: str = ""
    """Worker in the file name, if the file reports a different worker. Old links may use this name."""
    stage: str = ""
    place: str = ""
    """Path shown to users: the folder of the files, or the file if there is only one."""
    grouped_by: str = ""
    """Sentence that explains why profiles of several folders form one run; "" = the run is a single folder."""
    summaries: tuple[SummaryFile, ...] = ()
    """Up-to-date rank summaries, in order of preference."""
    is_present: bool = True
    """False if the trace is missing. ``files`` then contains only the rank summary."""
    rank: str = ""
    """Rank within a merged file; "" = the whole file."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.files)

    @property
    def recording(self) -> str:
        """Returns the stage in the file name, or the span if there is no stage."""
        return self.stage or self.span

    @property
    def fingerprint(self) -> str:
        """Returns a text that changes when a file changes."""
        return "|".join(file.fingerprint for file in self.files)

    @property
    def url(self) -> str:
        """Returns the full path or URL of the folder, or of the file if there is only one."""
        return full_path(self.root, self.place or self.names[0])

    @property
    def stem(self) -> str:
        """Returns the name of the folder or file. The extension of its format is removed."""
        name = PurePosixPath(self.place or self.names[0]).name or self.root.folder.name
        endings = (ending.rstrip("/") for ending in self.reader.endings if name.endswith(ending.rstrip("/")))
        return name.removesuffix(max(endings, key=len, default=""))

    @property
    def size_bytes(self) -> int:
        return sum(file.size for file in self.files)


def run_name(root: Root, folder: str, several: bool) -> str:
    """Returns the run name of a folder; ``several``: it starts with the name of the log directory."""
    relative = "" if folder.strip("/") == "." else folder.strip("/")
    if prefix := root.name or (root.folder.name if several else ""):
        return f"{prefix}/{relative}" if relative else prefix
    return relative or root.folder.name


def pattern_names(root: Root, run: str) -> tuple[str, str]:
    """Returns the names of a run that files of the log directory may use: with and without the directory's name."""
    return run, run.removeprefix(f"{root.name or root.folder.name}/")


def full_path(root: Root, path: str) -> str:
    """Converts a path relative to a log directory to a full path or URL."""
    return root.folder.locate(path) if path != "." else root.folder.url
