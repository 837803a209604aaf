"""Safe opening of local files that other users may replace.

If other users can write to a log directory, they could replace a listed file by a link, a blocking pipe or another
file.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO, NamedTuple

from tb_plugin.storage.local import LEADS_OUT, fingerprint, is_inside

# Without O_NONBLOCK, opening a pipe without a writer would block. Windows has neither flag.
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_STEP = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | _NO_LINK


class Located(NamedTuple):
    """A listed local file. An empty real directory or fingerprint is not checked."""

    path: str
    inside: str = ""
    fingerprint: str = ""

    def __fspath__(self) -> str:
        return self.path


def open_regular(file: str | Located) -> BinaryIO:
    """Opens a regular file for reading. Raises OSError if the file was replaced; the reason is a text for users."""
    wanted = file if isinstance(file, Located) else Located(file)
    descriptor = _open_beneath(wanted.path, wanted.inside) if wanted.inside else os.open(wanted.path, _READ)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(None, "The path is not a regular file", wanted.path)
        if wanted.fingerprint and fingerprint(status) != wanted.fingerprint:
            raise OSError(None, "The file was replaced after it was listed", wanted.path)
        return os.fdopen(descriptor, "rb")
    except OSError:
        os.close(descriptor)
        raise


def _open_beneath(path: str, inside: str) -> int:
    """Opens a path if its target is inside the directory ``inside``. Raises OSError.

    Each directory is opened relative to its parent, and links are not followed. A replaced directory therefore
    cannot lead out of ``inside``.
    """
    real = os.path.realpath(path)
    if not is_inside(real, inside):
        raise OSError(None, LEADS_OUT.rstrip("."), path)
    if os.open not in os.supports_dir_fd:
        return os.open(real, _READ | _NO_LINK)
    *folders, name = Path(real).relative_to(inside).parts
    at = os.open(inside, _STEP & ~_NO_LINK)
    try:
        for folder in folders:
            below = os.open(folder, _STEP, dir_fd=at)
            os.close(at)
            at = below
        return os.open(name, _READ | _NO_LINK, dir_fd=at)
    finally:
        os.close(at)
