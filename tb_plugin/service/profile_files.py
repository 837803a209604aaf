"""Files of a profile, and its place in the picker."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import msgspec

from tb_plugin.formats.base import Reader
from tb_plugin.storage.files import Folder
from tb_plugin.storage.listing import StoredFile


class Root(msgspec.Struct, frozen=True):
    """One log directory. ``name`` prefixes its runs (``--logdir_spec``); the default is its own name if there are
    several.
    """

    folder: Folder
    name: str = ""


class SummaryFile(msgspec.Struct, frozen=True):
    """A listed rank summary and its root folder."""

    folder: Folder
    file: StoredFile

    @property
    def url(self) -> str:
        """Returns its full path or URL."""
        return self.folder.locate(self.file.path)


class ProfileFiles(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """One profile: its name in the picker and its files."""

    run: str
    worker: str
    span: str
    time_unix_ms: int | None
    root: Root
    files: tuple[StoredFile, ...]
    reader: Reader[Any]
    file_worker: str = ""
    """Its worker by file name if the file reports another one: links may still use it."""
    stage: str = ""
    """Stage of the recording in its name, such as ``DECODE``."""
    place: str = ""
    """Path of the profile for users: its folder, or its only file."""
    grouped_by: str = ""
    """Why it is in a run with profiles of other folders or names (``discovery/distributed_jobs.py``), as a sentence."""
    summaries: tuple[SummaryFile, ...] = ()
    """Its up-to-date rank summaries, preferred first."""
    is_present: bool = True
    """False if the log directory has only its rank summary; ``files`` then has only that."""
    rank: str = ""
    """Its rank in a merged file; "": the whole file."""

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
        """Returns a text that changes when the content of one of its files may have changed."""
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
    """Returns the run name of a folder of a log directory."""
    relative = "" if folder.strip("/") == "." else folder.strip("/")
    if prefix := root.name or (root.folder.name if several else ""):
        return f"{prefix}/{relative}" if relative else prefix
    return relative or root.folder.name


def located(root: Root, path: str) -> str:
    """Returns the full path or URL of a path in a log directory."""
    return root.folder.locate(path) if path != "." else root.folder.url
