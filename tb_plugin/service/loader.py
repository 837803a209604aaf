"""Loading: found -> loading -> ready or failed, one parse per profile however many ask, stopped when nobody does."""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from tb_plugin import __version__
from tb_plugin.errors import Cancelled, TorchTraceError, UserError
from tb_plugin.service.catalog import Entry, ProfileCatalog
from tb_plugin.service.discovery import Found
from tb_plugin.service.pool import WAITING, Job, Workers
from tb_plugin.service.summary import Summary
from tb_plugin.service.worker import Progress
from tb_plugin.storage.cache import FileStore
from tb_plugin.storage.listing import StoredFile

log = logging.getLogger("torch_trace")

LEASE_SECONDS = 15.0
"""A parse that nobody asked about for so long is stopped."""
TASKS = "tb_plugin.service.tasks"
_COPIES = 4
"""How many profiles are copied at a time: the 64 workers of a run would share the line, and none would get ahead."""
_COLUMNS = ".arrow"
_SUMMARY = ".summary.json"


class Loader:
    """Drives the states of entries. One lock guards them all: every change is short."""

    def __init__(self, catalog: ProfileCatalog, workers: Workers, store: FileStore, tasks: str = TASKS) -> None:
        self._catalog = catalog
        self._workers = workers
        self._store = store
        self._tasks = tasks
        self._lock = threading.RLock()
        self._copying = threading.Semaphore(_COPIES)
        catalog.dropped = self.drop
        catalog.ticked = self.end_leases

    def begin(self, entry: Entry, retry: bool = False) -> None:
        """Renews the lease of an entry and starts to load it unless that was done. Returns at once.

        ``retry`` forgets a failure: a worker may have died for memory that is free again.
        """
        with self._lock:
            entry.polled = time.monotonic()
            if retry and entry.state == "failed":
                entry.state, entry.problem = "found", None
            if entry.state != "found" or entry.gone:
                return
            if self._take_cached(entry):
                return
            entry.state, entry.load, entry.copy = "loading", object(), None
            if entry.found.root.folder.is_local:
                paths = {name: entry.found.root.folder.locate(name) for name in entry.found.names}
                self._parse(entry, paths, ExitStack())
            else:
                threading.Thread(target=self._fetch, args=(entry, entry.load), daemon=True).start()

    def ready(self, entry: Entry) -> Entry:
        """Begins to load; the entry has a summary when it is loaded. Raises the error it failed with."""
        self.begin(entry)
        with self._lock:
            if entry.problem is not None:
                raise entry.problem
            # The cache may have dropped the columns to make room for others.
            if entry.state == "ready" and not _touch(entry.path):
                entry.state, entry.summary = "found", None
                self.begin(entry)
            return entry

    def wait(self, entry: Entry, watch: Callable[[float], None]) -> Entry:
        """Loads an entry and waits. Raises the error it failed with, Cancelled when its file went away."""
        while self.ready(entry).state != "ready":
            job = entry.job
            if entry.gone:
                raise Cancelled(f"{entry.found.url} changed while it was read.")
            if job is None:
                time.sleep(0.02)
                watch(entry.fraction)
                continue
            wait([job.future], timeout=0.2)
            watch(entry.fraction)
        return entry

    def drop(self, entry: Entry) -> None:
        """Stops the work on an entry whose file vanished or changed."""
        with self._lock:
            entry.gone = True
            job = self._abandon(entry)
        if job is not None:
            self._workers.cancel(job)

    def end_leases(self) -> None:
        """Stops parses that nobody asked about for LEASE_SECONDS."""
        oldest = time.monotonic() - LEASE_SECONDS
        with self._lock:
            late = [e for e in self._catalog.entries() if e.state == "loading" and e.polled < oldest]
            jobs = [self._abandon(entry) for entry in late]
        for job in filter(None, jobs):
            self._workers.cancel(job)

    def _abandon(self, entry: Entry) -> Job | None:
        """Forgets the load under way; the job that has to be stopped, if it had begun."""
        job, entry.job, entry.load = entry.job, None, None
        if entry.state == "loading":
            entry.state = "found"
            return job
        return None

    def _take_cached(self, entry: Entry) -> bool:
        key = cache_key(entry)
        columns, summary = self._store.get(key, _COLUMNS), self._store.get(key, _SUMMARY)
        if columns is None or summary is None:
            return False
        try:
            entry.summary = msgspec.json.decode(summary.read_bytes(), type=Summary)
        except (OSError, msgspec.MsgspecError):
            return False
        entry.path, entry.state = str(columns), "ready"
        return True

    def _fetch(self, entry: Entry, load: object) -> None:
        """Copies remote files into the cache, because workers open local paths only; then parses."""
        found, local, before = entry.found, {}, 0
        entry.copy = Progress(WAITING, since=time.monotonic())
        with ExitStack() as held:
            try:
                with self._copying:
                    entry.copy = Progress("copying", since=time.monotonic())
                    for file in found.files:
                        # Until it is parsed: the copies of other workers must not push it out meanwhile.
                        held.enter_context(self._store.held(*_copy_key(found, file)))
                        local[file.path] = str(self._copy(entry, load, file, before, entry.copy))
                        before += file.size
                entry.copy = entry.copy._replace(fraction=1.0)
            except Cancelled:
                return
            except Exception as error:  # the edge of a thread
                with self._lock:
                    if entry.load is load:
                        self._fail(entry, error)
                return
            with self._lock:
                if entry.load is load:
                    self._parse(entry, local, held.pop_all())

    def _copy(self, entry: Entry, load: object, file: StoredFile, before_bytes: int, progress: Progress) -> Path:
        """The local copy of one file. Raises StorageError, Cancelled when the load was abandoned."""
        found = entry.found

        def watch(done_bytes: int) -> None:
            if entry.load is not load:
                raise Cancelled(f"Nobody waits for {found.url}.")
            fraction = min(1.0, (before_bytes + done_bytes) / max(1, found.size_bytes))
            entry.copy = progress._replace(fraction=fraction)

        def fill(target: Path) -> None:
            found.root.folder.copy(file, target, watch)

        watch(0)
        key, suffix = _copy_key(found, file)
        return self._store.get(key, suffix) or self._store.put(key, suffix, fill)

    def copied(self, found: Found, file: StoredFile) -> Path | None:
        """The local copy of a remote file, where the cache has it."""
        return self._store.get(*_copy_key(found, file))

    def _parse(self, entry: Entry, paths: dict[str, str], held: ExitStack) -> None:
        """Has a worker parse local files; ``held`` is closed when it is done with them."""
        key = cache_key(entry)
        target, summary = str(self._store.path(key, _COLUMNS)), str(self._store.path(key, _SUMMARY))
        job = self._workers.submit(
            f"{self._tasks}:parse", entry.found.reader.id, paths, target, summary, key=target, heavy=True
        )
        entry.job, entry.path = job, target
        load = entry.load
        job.future.add_done_callback(lambda future: held.close())
        job.future.add_done_callback(lambda future: self._finish(entry, load, future))

    def _finish(self, entry: Entry, load: object, future: Future[Any]) -> None:
        error = future.exception()
        with self._lock:
            if entry.load is not load:
                return
            entry.job = entry.load = None
            if error is None:
                entry.summary, entry.state = future.result(), "ready"
            elif isinstance(error, Cancelled):
                entry.state = "found"
            else:
                self._fail(entry, error)
        self._store.evict(keep=Path(entry.path))

    def _fail(self, entry: Entry, error: BaseException) -> None:
        """A failed entry stays failed until its fingerprint changes and a new entry takes its place."""
        if not isinstance(error, UserError):
            if not isinstance(error, TorchTraceError):
                log.error("Loading %s failed.", entry.found.url, exc_info=error)
            error = UserError("An internal error happened.", entry.found.url, f"Please report it: {error}")
        entry.problem, entry.state, entry.job = error, "failed", None


@cache
def code_stamp() -> str:
    """Changes with the version and, where the package is installed for editing, with its files."""
    stamp = hashlib.blake2b(__version__.encode(), digest_size=8)
    package = Path(__file__).parent.parent
    for path in sorted(package.rglob("*.py")):
        stamp.update(f"{path.relative_to(package)}{path.stat().st_mtime_ns}".encode())
    return stamp.hexdigest()


def cache_key(entry: Entry) -> str:
    """Names a version of a profile and of this code: what stands in the cache under it never changes."""
    found = entry.found
    places = (found.root.folder.locate(name) for name in found.names)
    where = [os.path.realpath(place) if found.root.folder.is_local else place for place in places]
    return "|".join([code_stamp(), found.reader.id, *where, found.fingerprint])


def _copy_key(found: Found, file: StoredFile) -> tuple[str, str]:
    """Where the cache keeps the copy of one version of a remote file: key and suffix."""
    return f"copy|{found.root.folder.locate(file.path)}|{file.fingerprint}", "".join(Path(file.path).suffixes[-2:])


def _touch(path: str) -> bool:
    try:
        os.utime(path)
    except OSError:
        return False
    return True
