"""A keyed file store bounded in size: column files, local copies of remote files, small results.

It knows no types: a key is any text, a value is a file. Writes are atomic, so that several processes may share one
folder; the least recently used files go first when the bound is passed.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import sys
import tempfile
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

log = logging.getLogger("torch_trace")

DIR_VARIABLE = "TORCH_TRACE_CACHE_DIR"
"""Environment variable: a folder, or ``off`` for a private temporary one that is removed at exit."""
LIMIT_VARIABLE = "TORCH_TRACE_CACHE_MB"
"""Environment variable: the bound in megabytes (10**6 bytes)."""
DEFAULT_LIMIT_BYTES = 8_000_000_000
_STALE_SECONDS = 3600
"""A file that was not written to for so long was left behind by a process that was killed."""
_PARTIAL = ".part-"


class FileStore:
    """Files by key under one folder of at most ``limit_bytes`` (a file being written may pass it for a moment)."""

    def __init__(self, folder: Path, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self._held: Counter[Path] = Counter()
        self._lock = threading.Lock()
        # 0700: a trace names paths and operators of somebody's work.
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def path(self, key: str, suffix: str) -> Path:
        """Where the file of a key lives, whether or not it exists."""
        return self.folder / (hashlib.blake2b(key.encode(), digest_size=20).hexdigest() + suffix)

    def get(self, key: str, suffix: str) -> Path | None:
        """The file of a key, marked as used now; None when there is none."""
        path = self.path(key, suffix)
        try:
            os.utime(path)
        except OSError:
            return None
        return path

    def put(self, key: str, suffix: str, write: Callable[[Path], object]) -> Path:
        """Lets ``write`` fill a file and keeps it under the key. Atomic; what ``write`` raises is passed on."""
        path = self.path(key, suffix)
        partial = self.partial(path)
        try:
            write(partial)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
        self.evict(keep=path)
        return path

    def partial(self, path: Path) -> Path:
        """A fresh name beside ``path`` for a file that is being written; ``replace`` it when it is whole."""
        return path.with_name(f"{path.name}{_PARTIAL}{os.getpid()}-{time.monotonic_ns()}")

    @contextmanager
    def held(self, key: str, suffix: str) -> Iterator[None]:
        """Keeps the file of a key from eviction by this process, whether it exists already or comes meanwhile."""
        path = self.path(key, suffix)
        with self._lock:
            self._held[path] += 1
        try:
            yield
        finally:
            with self._lock:
                self._held[path] -= 1
                self._held += Counter()  # forgets those that nobody holds

    def evict(self, keep: Path | None = None) -> None:
        """Removes least recently used files until the bound holds; never ``keep`` nor what is held.

        Files that are being written count, but only abandoned ones are removed.
        """
        with self._lock:
            kept = {*self._held, keep}
        writing = 0
        entries: list[tuple[float, int, Path]] = []
        for path in self.folder.iterdir():
            try:
                status = path.stat()
            except OSError:  # another process was faster
                continue
            if _PARTIAL in path.name:
                if time.time() - status.st_mtime <= _STALE_SECONDS or not _remove(path):
                    writing += status.st_size
                continue
            entries.append((status.st_mtime, status.st_size, path))
        total = writing + sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self.limit_bytes:
                break
            if path not in kept and _remove(path):
                total -= size


def open_store() -> FileStore:
    """The store that the environment asks for; a private temporary one when its folder cannot be written."""
    wanted = os.environ.get(DIR_VARIABLE, "").strip()
    limit = _limit_bytes()
    if wanted.lower() != "off":
        folder = Path(wanted).expanduser() if wanted else _user_cache() / "torch-trace"
        try:
            store = FileStore(folder, limit)
            if os.access(folder, os.W_OK):
                return store
            reason = "it is not writable"
        except OSError as error:
            reason = str(error)
        log.warning("The cache folder %s cannot be used (%s); a temporary one is used.", folder, reason)
    folder = Path(tempfile.mkdtemp(prefix="torch-trace-"))
    store = FileStore(folder, limit)
    weakref.finalize(store, shutil.rmtree, folder, ignore_errors=True)
    return store


def _limit_bytes() -> int:
    text = os.environ.get(LIMIT_VARIABLE, "").strip()
    if not text:
        return DEFAULT_LIMIT_BYTES
    try:
        return max(1, int(float(text) * 1_000_000))
    except ValueError:
        log.warning("%s=%s is not a number; the default is used.", LIMIT_VARIABLE, text)
        return DEFAULT_LIMIT_BYTES


def _user_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:  # on Windows a mapped file cannot go while it is open
        return False
    return True
