"""Walking a local directory: every real directory once, however many links lead to it.

Written with ``os.scandir`` because fsspec's local listing neither resolves links nor says which directory is which,
and because a log directory is walked every few seconds.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from pathlib import Path

from tb_plugin.storage.listing import Listing, StoredFile, Unlisted


def fingerprint(status: os.stat_result) -> str:
    """Changes whenever the content may have changed."""
    return f"{status.st_size}-{status.st_mtime_ns}-{status.st_ino}"


def walk(root: str) -> Listing:
    """All regular files under ``root``. Directories that cannot be read are reported in the listing.

    Links to directories are followed after all plain directories, so that a directory is listed under its own name
    and not under a link's; each is entered once, which also ends loops.
    """
    files: list[StoredFile] = []
    unlisted: list[Unlisted] = []
    entered: set[tuple[int, int]] = set()
    plain: deque[str] = deque([""])
    links: deque[str] = deque()
    while plain or links:
        relative = plain.popleft() if plain else links.popleft()
        path = os.path.join(root, relative) if relative else root  # noqa: PTH118 (text in, text out: a hot loop)
        try:
            status = os.stat(path)  # noqa: PTH116
            if (status.st_dev, status.st_ino) in entered:
                continue
            entered.add((status.st_dev, status.st_ino))
            with os.scandir(path) as entries:
                for entry in sorted(entries, key=lambda e: e.name):
                    _place(entry, relative, files, unlisted, plain, links)
        except OSError as error:
            unlisted.append(Unlisted(relative or ".", _reason(error)))
    return Listing(tuple(sorted(files, key=lambda f: f.path)), tuple(unlisted))


def stat_file(path: str) -> StoredFile:
    """One regular file as the listing of a log directory that is this file. Raises OSError."""
    status = Path(path).stat()
    return StoredFile(Path(path).name, status.st_size, fingerprint(status))


def _place(
    entry: os.DirEntry[str],
    parent: str,
    files: list[StoredFile],
    unlisted: list[Unlisted],
    plain: deque[str],
    links: deque[str],
) -> None:
    """Sorts one directory entry into files, directories to enter, and links to enter last."""
    relative = f"{parent}/{entry.name}" if parent else entry.name
    if (shown := _shown(relative)) != relative:
        unlisted.append(Unlisted(shown, "The name is not valid UTF-8."))
        return
    try:
        if entry.is_dir():
            (links if entry.is_symlink() else plain).append(relative)
            return
        status = entry.stat()
    except OSError as error:
        unlisted.append(Unlisted(relative, _reason(error)))
        return
    # Pipes and sockets would block whoever opens them.
    if stat.S_ISREG(status.st_mode):
        files.append(StoredFile(relative, status.st_size, fingerprint(status)))


def _shown(name: str) -> str:
    """A name with what is no text in it replaced; it could not travel in JSON or in a URL."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
