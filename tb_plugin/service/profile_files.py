"""What a scan finds: a profile's files, and its place in the picker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from tb_plugin.formats.base import Reader
from tb_plugin.storage.files import Folder
from tb_plugin.storage.listing import StoredFile


@dataclass(frozen=True)
class Root:
    """One log directory. ``name`` prefixes its runs (``--logdir_spec``); by default that of one of several directories."""

    folder: Folder
    name: str = ""


@dataclass(frozen=True)
class SummaryFile:
    """A rank summary as it was listed, and below which folder it lies."""

    folder: Folder
    file: StoredFile

    @property
    def url(self) -> str:
        """Returns its full path or URL."""
        return self.folder.locate(self.file.path)


@dataclass(frozen=True, eq=False)
class ProfileFiles:
    """One profile: its place in the picker and its files."""

    run: str
    worker: str
    span: str
    time_unix_ms: int | None
    root: Root
    files: tuple[StoredFile, ...]
    reader: Reader[Any]
    file_worker: str = ""
    """Its worker by the name of its file, where the file reports another: links may still hold it."""
    stage: str = ""
    """Part of a recording that its name tells, such as ``DECODE``."""
    place: str = ""
    """Path of what a person takes for the profile: its folder, or its only file."""
    grouped_by: str = ""
    """Why it stands in a run with profiles of other folders or names (``discovery/distributed_jobs.py``), in words."""
    summaries: tuple[SummaryFile, ...] = ()
    """Its rank summaries that are not older, the one to use first: a later one counts where those before are no use."""
    is_here: bool = True
    """False where nothing but its rank summary is in the log directory: ``files`` is that one."""
    rank: str = ""
    """Which of the ranks that its file was merged from it is; empty: all that the file holds."""

    @property
    def names(self) -> tuple[str, ...]:
        """Paths of its files, relative to the root."""
        return tuple(file.path for file in self.files)

    @property
    def recording(self) -> str:
        """Returns what its name says of its span."""
        return self.stage or self.span

    @property
    def fingerprint(self) -> str:
        """Changes whenever the content of one of its files may have changed."""
        return "|".join(file.fingerprint for file in self.files)

    @property
    def url(self) -> str:
        """Returns the full path or URL of its file or folder."""
        return located(self.root, self.place or self.names[0])

    @property
    def stem(self) -> str:
        """Returns the name of its file or folder without the ending of the format."""
        name = PurePosixPath(self.place or self.names[0]).name or self.root.folder.name
        endings = (ending.rstrip("/") for ending in self.reader.endings if name.endswith(ending.rstrip("/")))
        return name.removesuffix(max(endings, key=len, default=""))

    @property
    def size_bytes(self) -> int:
        """Returns the bytes of all its files."""
        return sum(file.size for file in self.files)


def run_name(root: Root, folder: str, several: bool) -> str:
    """Returns the run that a folder of a log directory is, which may be one of several."""
    relative = "" if folder.strip("/") == "." else folder.strip("/")
    if prefix := root.name or (root.folder.name if several else ""):
        return f"{prefix}/{relative}" if relative else prefix
    return relative or root.folder.name


def located(root: Root, path: str) -> str:
    """Returns the full path or URL of a path of a log directory."""
    return root.folder.locate(path) if path != "." else root.folder.url
