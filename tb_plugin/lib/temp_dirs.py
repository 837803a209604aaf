"""Private temporary folders, removed at exit.

Folders of killed processes are removed at the next start: SIGKILL and SIGHUP run no code. Each folder has a lock that
the system releases when its process ends.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: folders of killed processes stay until the system clears its own
    fcntl = None  # type: ignore[assignment]  # a module elsewhere

PREFIX = "torch-trace-"
LOCK = ".lock"


class PrivateFolder:
    """A temporary folder that only this user may read. Removes those of ended processes."""

    def __init__(self) -> None:
        remove_abandoned()
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        # Named when it is held: another process that starts would take a lock that nobody holds yet.
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
    """Removes private folders whose process has ended. One without a lock is skipped: it may be under construction."""
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
