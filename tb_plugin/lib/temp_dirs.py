"""Private temporary directories, removed at exit.

SIGKILL and SIGHUP end a process without cleanup. Therefore the next start removes the directories of ended
processes. Each directory has a lock that the operating system releases when its process ends.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # On Windows, directories of killed processes remain until the system removes them.
    fcntl = None  # type: ignore[assignment]  # a module elsewhere

PREFIX = "torch-trace-"
LOCK = ".lock"


class PrivateFolder:
    """A temporary directory that only this user can read. Creating a directory also removes abandoned directories."""

    def __init__(self) -> None:
        remove_abandoned()
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        # The lock gets its final name only once it is held: otherwise a starting process could take it.
        unnamed = self.path / f"{LOCK}.new"
        self._lock = _locked(unnamed, os.O_CREAT)
        if self._lock is not None:
            unnamed.rename(self.path / LOCK)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *error: object) -> None:
        self.remove()

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def remove_abandoned() -> None:
    """Removes directories of ended processes. One without a lock is skipped: a process may be creating it."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            if folder.is_symlink() or (hasattr(os, "getuid") and folder.stat().st_uid != os.getuid()):
                continue
            lock = _locked(folder / LOCK)
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def _locked(path: Path, flags: int = 0) -> int | None:
    if fcntl is None:
        return None
    descriptor = -1
    try:
        descriptor = os.open(path, os.O_RDWR | flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        if descriptor >= 0:
            os.close(descriptor)
        return None
    return descriptor
