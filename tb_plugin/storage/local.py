"""Listing of local directories.

This module uses ``os.scandir``, because fsspec does not resolve links and is too slow for a listing every few
seconds.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from pathlib import Path

import msgspec

from tb_plugin import settings
from tb_plugin.storage.listing import Listing, StoredFile, Unlisted

# The value ``1`` allows symbolic links that lead out of the log directory.
LINKS_VARIABLE = settings.FOLLOW_LINKS.name
LEADS_OUT = f"This is a symbolic link that leads out of the log directory. Set {LINKS_VARIABLE}=1 to follow it."


def fingerprint(status: os.stat_result) -> str:
    """Returns a text that changes when the file changes."""
    return f"{status.st_size}-{status.st_mtime_ns}-{status.st_ino}"


def follows_links() -> bool:
    return os.environ.get(LINKS_VARIABLE, "").strip().lower() in ("1", "true", "yes", "on")


def walk(root: str) -> Listing:
    """Lists regular files, and refused or unreadable entries. Each real directory is listed once, by links last."""
    walk = _Walk("" if follows_links() else os.path.realpath(root))
    entered: set[tuple[int, int]] = set()
    while walk.plain or walk.links:
        relative = walk.plain.popleft() if walk.plain else walk.links.popleft()
        path = os.path.join(root, relative) if relative else root  # noqa: PTH118 (text in, text out: a hot loop)
        try:
            status = os.stat(path)  # noqa: PTH116 (as above)
            if (status.st_dev, status.st_ino) in entered:
                continue
            entered.add((status.st_dev, status.st_ino))
            with os.scandir(path) as entries:
                for entry in sorted(entries, key=lambda e: e.name):
                    walk.place(entry, relative)
        except OSError as error:
            walk.unlisted.append(Unlisted(relative or ".", _reason(error)))
    return Listing(tuple(sorted(walk.files, key=lambda f: f.path)), tuple(walk.unlisted))


def stat_file(path: str) -> StoredFile:
    status = Path(path).stat()
    return StoredFile(Path(path).name, status.st_size, fingerprint(status), status.st_mtime_ns)


def is_inside(path: str, folder: str) -> bool:
    """Returns whether ``path`` is ``folder`` or is inside ``folder``. Both must be results of ``os.path.realpath``."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


class _Walk(msgspec.Struct):
    """A listing in progress. ``inside`` is empty if links may lead out of the log directory."""

    inside: str
    files: list[StoredFile] = msgspec.field(default_factory=list)
    unlisted: list[Unlisted] = msgspec.field(default_factory=list)
    plain: deque[str] = msgspec.field(default_factory=lambda: deque([""]))
    links: deque[str] = msgspec.field(default_factory=deque)

    def place(self, entry: os.DirEntry[str], parent: str) -> None:
        relative = f"{parent}/{entry.name}" if parent else entry.name
        if (shown := _printable_name(relative)) != relative:
            self.unlisted.append(Unlisted(shown, "The name is not valid UTF-8."))
            return
        try:
            is_link = entry.is_symlink()
            if is_link and self.inside and not is_inside(os.path.realpath(entry.path), self.inside):
                self.unlisted.append(Unlisted(relative, LEADS_OUT))
                return
            if entry.is_dir():
                (self.links if is_link else self.plain).append(relative)
                return
            status = entry.stat()
        except OSError as error:
            self.unlisted.append(Unlisted(relative, _reason(error)))
            return
        # Pipes and sockets are skipped, because reading them would block.
        if stat.S_ISREG(status.st_mode):
            self.files.append(StoredFile(relative, status.st_size, fingerprint(status), status.st_mtime_ns))


def _printable_name(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
