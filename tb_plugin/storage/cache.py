"""A file cache with limited size.

Writes are atomic, so several processes may share one folder. Above the size limit, the least recently used files
are removed. Users may delete the files at any time. If the folder is not writable at the start, a private temporary
folder is used.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import sys
import tempfile
import threading
import time
import uuid
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from tb_plugin import settings
from tb_plugin.errors import CacheRefused
from tb_plugin.lib.temp_dirs import LOCK, PrivateFolder, remove_abandoned

Value = TypeVar("Value")

log = logging.getLogger("torch_trace")

# Cache folder. Empty or ``off``: a private temporary folder, removed at exit.
DIR_VARIABLE = settings.CACHE.name
# Size limit in megabytes (10**6 bytes).
LIMIT_VARIABLE = settings.CACHE_MB.name
DEFAULT_LIMIT_BYTES = 8_000_000_000
# Seconds after which a temporary file is considered abandoned.
_STALE_SECONDS = 3600
_PARTIAL = ".part-"
# 1/16 of the limit stays free. The folder is checked again after that many bytes were written.
_FREE_DIVISOR = 16


class FileStore:
    """Cached files by key, in a folder of at most ``limit_bytes``, except briefly during a write."""

    def __init__(self, folder: Path, limit_bytes: int = DEFAULT_LIMIT_BYTES, is_private: bool = False) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self.is_private = is_private
        """Whether the folder is temporary. A temporary folder is removed when this process ends."""
        self._held: Counter[Path] = Counter()
        self._unseen_bytes: int | None = None
        """Bytes written since the last listing of the folder; None before the first listing."""
        self._lock = threading.Lock()
        _make(folder)

    def path(self, key: str, suffix: str) -> Path:
        """Returns the path of the file of a key. The file may not exist."""
        return self.folder / (hashlib.blake2b(key.encode(), digest_size=20).hexdigest() + suffix)

    def get(self, key: str, suffix: str) -> Path | None:
        """Returns the file of a key and marks the file as recently used. Returns None if there is no such file."""
        path = self.path(key, suffix)
        try:
            os.utime(path)
        except OSError:
            return None
        return path

    def has_any(self, suffix: str) -> bool:
        return any(path.name.endswith(suffix) for path in self._files())

    def put(self, key: str, suffix: str, write: Callable[[Path], object]) -> Path:
        """Creates the file of a key atomically. ``write`` writes the content. Raises the errors of ``write``."""
        path = self.path(key, suffix)
        write_atomically(path, write)
        self.count(path)
        return path

    def count(self, path: Path) -> None:
        """Counts a new file, and evicts if necessary. The folder is listed rarely, because that is slow."""
        try:
            size = path.stat().st_size
        except OSError:  # another process evicted it
            return
        with self._lock:
            if self._unseen_bytes is not None and self._unseen_bytes + size <= self.limit_bytes // _FREE_DIVISOR:
                self._unseen_bytes += size
                return
        self.evict(keep=path)

    def remove(self, path: Path) -> None:
        _remove(path)

    @contextmanager
    def pinned(self, *paths: Path) -> Iterator[None]:
        """Protects files from eviction by this process during the ``with`` block. The files need not exist yet."""
        with self._lock:
            self._held.update(paths)
        try:
            yield
        finally:
            with self._lock:
                self._held.subtract(paths)
                for path in paths:
                    if self._held[path] <= 0:  # no thread protects it any more
                        del self._held[path]

    def _files(self) -> list[Path]:
        try:
            return [path for path in self.folder.iterdir() if path.name != LOCK]
        except OSError:  # the folder was removed; the next write creates it again
            return []

    def evict(self, keep: Path | None = None) -> None:
        """Removes the least recently used files above the limit, except ``keep``, pinned and partial files."""
        with self._lock:
            kept = {*self._held, keep}
            self._unseen_bytes = 0
        writing = 0
        entries: list[tuple[float, int, Path]] = []
        for path in self._files():
            try:
                status = path.stat()
            except OSError:  # another process has already created it
                continue
            if _PARTIAL in path.name:
                if time.time() - status.st_mtime <= _STALE_SECONDS or not _remove(path):
                    writing += status.st_size
                continue
            entries.append((status.st_mtime, status.st_size, path))
        total = writing + sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self.limit_bytes - self.limit_bytes // _FREE_DIVISOR:
                break
            if path not in kept and _remove(path):
                total -= size


def write_atomically(path: Path, write: Callable[[Path], Value]) -> Value:
    """Creates the file from a temporary one that ``write`` writes. Raises OSError, and the errors of ``write``."""
    _make(path.parent)
    # Not named by process id: machines that share a folder may have equal ids.
    partial = path.with_name(f"{path.name}{_PARTIAL}{uuid.uuid4().hex}")
    try:
        value = write(partial)
        partial.replace(path)
        return value
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def put_atomically(target: str, write: Callable[[Path], Value]) -> Value:
    """Does ``write_atomically`` for a file of the cache. Raises CacheRefused."""
    try:
        try:
            return write_atomically(Path(target), write)
        except FileNotFoundError:  # the cache was cleared meanwhile
            return write_atomically(Path(target), write)
    except OSError as error:
        raise cache_error_message(Path(target), error) from error


def cache_error_message(path: Path, error: OSError) -> CacheRefused:
    do = f"Free up disk space, or choose another folder with {DIR_VARIABLE}."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return CacheRefused("The cache folder is full.", str(path.parent), do)
    reason = error.strerror or str(error)
    return CacheRefused(f"Cannot write to the cache folder: {reason}.", str(path.parent), do)


def open_store() -> FileStore:
    """Opens the cache in the configured folder. If that folder is not writable, uses a private temporary folder."""
    remove_abandoned()
    folder = _wanted_folder()
    limit = _limit_bytes()
    if folder is not None:
        try:
            store = FileStore(folder, limit)
            # Tested by writing: a file system may be read-only, and root ignores permissions.
            with tempfile.TemporaryFile(dir=folder):
                return store
        except OSError as error:
            log.warning("Cannot use the cache folder %s (%s). Using a temporary one.", folder, error)
    private = PrivateFolder()
    store = FileStore(private.path, limit, is_private=True)
    weakref.finalize(store, private.remove)
    return store


def _wanted_folder() -> Path | None:
    wanted = os.environ.get(DIR_VARIABLE, str(_user_cache() / "torch-trace")).strip()
    return None if wanted.lower() in ("", "off") else Path(wanted).expanduser()


def _make(folder: Path) -> None:
    # Mode 0700, because traces contain private paths and names.
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)


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
    except OSError:  # Windows cannot delete a mapped file while it is open
        return False
    return True
