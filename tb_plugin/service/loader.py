"""Loading of profiles. Each profile is parsed once; abandoned loads are cancelled."""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, suppress
from functools import cache, partial
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tb_plugin import __version__
from tb_plugin.devices.peaks import own_peaks
from tb_plugin.errors import CacheFileLost, Cancelled, TorchTraceError, UserError
from tb_plugin.model.trace.kernel_rules import RuleFile
from tb_plugin.registry import model_of
from tb_plugin.service.catalog import ProfileCatalog
from tb_plugin.service.profile_files import ProfileFiles
from tb_plugin.service.states import Entry, Load
from tb_plugin.service.summaries.sources import OpenSummary, any_summary
from tb_plugin.service.workers.memory_budget import (
    MEMORY_VARIABLE,
    decoder_bytes,
    decoders,
    local_file_sizes,
    peak_memory_bytes,
    unseen_sizes,
)
from tb_plugin.service.workers.model_cache import ModelFile
from tb_plugin.service.workers.parse import Complete, Limits, Open, Parse, Summary, rank_ending
from tb_plugin.service.workers.pool import Workers
from tb_plugin.service.workers.question import ABANDONED_READ_SECONDS, WAITING, Options, Progress, Question
from tb_plugin.service.workers.user_rules import class_rules, own_steps
from tb_plugin.storage.cache import FileStore
from tb_plugin.storage.checksum import seal_of, with_checksum, without_checksum
from tb_plugin.storage.listing import StoredFile
from tb_plugin.storage.local import stat_file
from tb_plugin.storage.safe_open import Located

log = logging.getLogger("torch_trace")

# Maximum number of concurrent copies: 64 workers sharing the bandwidth would all be slow.
_COPIES = 4
# Seconds that a request waits for checking a cached column file; 80 MB take 10 ms.
_CHECK_SECONDS = 0.5
_COLUMNS = ".arrow"
_SUMMARY = ".summary.json"
_SURVEY = ".survey.json"
_RANKS = ".ranks.json"
_LARGE_BYTES = 1024**3


class Loader:
    def __init__(
        self, catalog: ProfileCatalog, workers: Workers, store: FileStore, without_views: bool = False
    ) -> None:
        self._catalog = catalog
        self._without_views = without_views
        self._workers = workers
        self._store = store
        self._lock = threading.RLock()
        self._copying = threading.Semaphore(_COPIES)
        catalog.dropped = self.drop
        catalog.ranks = partial(merged_ranks, store)

    def begin(self, entry: Entry, retry: bool = False) -> None:
        """Renews the request and starts loading without waiting. ``retry`` clears an earlier failure."""
        with self._lock:
            entry.ask()
            if retry:
                entry.forgive()
            load = entry.begin()
            if load is None:
                return
            kept = self._cached_files(entry)
            if kept is None:
                self._read(entry, load)
                return
            check = threading.Thread(target=self._use_cached, args=(entry, load, *kept), daemon=True)
            check.start()
        # The check usually ends in time. A huge file on a slow disk is shown as loading.
        check.join(_CHECK_SECONDS)

    def ready(self, entry: Entry) -> Entry:
        """Starts loading if necessary and returns the entry. Raises the error of a failed load."""
        self.begin(entry)
        with self._lock:
            if entry.problem is not None:
                raise entry.problem
            known = entry.summary if entry.files.is_present else None
            lost = entry.state == "ready" and known is not None and not _has_columns(entry.path, known)
        if lost:
            # The cache may have evicted the columns, or a user cleared it.
            self.lose(entry)
            self.begin(entry)
        return entry

    def lose(self, entry: Entry) -> None:
        """Deletes a damaged column file. The next request loads the profile again."""
        with self._lock:
            if path := entry.lose():
                self._store.remove(Path(path))

    def wait(self, entry: Entry, watch: Callable[[float], None]) -> Entry:
        """Waits for a load; ``watch`` gets the loaded fraction. Raises its error, Cancelled if the file changed."""
        while self.ready(entry).state != "ready":
            job = entry.job
            if entry.gone:
                raise Cancelled(f"{entry.files.url} changed while it was read.")
            if job is None:
                time.sleep(0.02)
                watch(entry.fraction)
                continue
            wait([job.future], timeout=0.2)
            watch(entry.fraction)
        return entry

    def drop(self, entry: Entry) -> None:
        with self._lock:
            load = entry.leave()
        self._stop(load)

    def end_leases(self) -> None:
        """Stops loading profiles that nobody requested for ABANDONED_READ_SECONDS."""
        oldest = time.monotonic() - ABANDONED_READ_SECONDS
        with self._lock:
            known = [entry for profile in self._catalog.entries() for entry in profile.all()]
            late = [entry for entry in known if entry.state == "loading" and entry.polled < oldest]
            loads = [(entry, entry.load) for entry in late]
            ended = [load for entry, load in loads if entry.release(load)]
        for load in ended:
            self._stop(load)

    def _stop(self, load: Load | None) -> None:
        if load is not None and load.job is not None:
            self._workers.cancel(load.job)

    def _read(self, entry: Entry, load: Load) -> None:
        if entry.files.root.folder.is_local:
            paths = {file.path: entry.files.root.folder.located(file) for file in entry.files.files}
            self._parse(entry, load, paths, ExitStack())
        else:
            threading.Thread(target=self._fetch, args=(entry, load), daemon=True).start()

    def _cached_files(self, entry: Entry) -> tuple[Path, Path] | None:
        if not entry.files.is_present:
            return None
        key, rank = self._file_key(entry), entry.files.rank
        columns, summary = (self._store.get(key, rank_ending(rank, ending)) for ending in (_COLUMNS, _SUMMARY))
        return None if columns is None or summary is None else (columns, summary)

    def _use_cached(self, entry: Entry, load: Load, columns: Path, summary: Path) -> None:
        known = _checked(columns, summary)
        with self._lock:
            if entry.load is not load:
                return
            if known is not None and known.without_views and not self._without_views:
                file = ModelFile(str(columns), model_of(entry.files.reader).id)
                self._complete(entry, load, Complete(file, known.columns, str(summary)))
                return
            if known is not None:
                _settle(entry, load, known, str(columns))
                return
            log.warning("The cached data of %s is missing or damaged; the file is read again.", entry.files.url)
            self._store.remove(columns)
            self._store.remove(summary)
            self._read(entry, load)

    def _complete(self, entry: Entry, load: Load, question: Complete) -> None:
        path = question.file.path
        job = self._workers.submit(question, key=path, label=entry.files.url)
        load.reading(job, path, is_part=False)
        job.future.add_done_callback(lambda future: self._finish(entry, load, future))

    def _fetch(self, entry: Entry, load: Load) -> None:
        found, local, before = entry.files, dict[str, Located](), 0
        load.copying(Progress(WAITING, since=time.monotonic()))
        with ExitStack() as held:
            try:
                with self._copying:
                    copy = Progress("copying", since=time.monotonic())
                    load.copying(copy)
                    for file in found.files:
                        # Protected until it is parsed, so that copies of other workers do not evict it.
                        held.enter_context(self._store.pinned(self._store.path(*_copy_key(found, file))))
                        local[file.path] = Located(str(self._copy(entry, load, file, before, copy)))
                        before += file.size
                load.copying(copy._replace(fraction=1.0))
                with self._lock:
                    if entry.load is load:
                        self._parse(entry, load, local, held.pop_all())
            except Cancelled:
                return
            except Exception as error:  # top level of a thread
                _fail(entry, load, error)

    def _copy(self, entry: Entry, load: Load, file: StoredFile, before_bytes: int, progress: Progress) -> Path:
        found = entry.files

        def watch(done_bytes: int) -> None:
            if entry.load is not load:
                raise Cancelled(f"The request for {found.url} was cancelled.")
            fraction = min(1.0, (before_bytes + done_bytes) / max(1, found.size_bytes))
            load.copying(progress._replace(fraction=fraction))

        def fill(target: Path) -> None:
            found.root.folder.copy(file, target, watch)

        watch(0)
        key, suffix = _copy_key(found, file)
        return self._store.get(key, suffix) or self._store.put(key, suffix, fill)

    def copied(self, found: ProfileFiles, file: StoredFile) -> Path | None:
        """Returns the cached copy of a remote file, or None."""
        return self._store.get(*_copy_key(found, file))

    def _parse(self, entry: Entry, load: Load, paths: dict[str, Located], held: ExitStack) -> None:
        found, limits = entry.files, None
        question: Question[Summary]
        options: Options = {"label": found.url}
        columns = ""
        if found.is_present:
            key, need, limits = self._file_key(entry), self._need_bytes(entry), self._limits(entry)
            target, summary = (str(self._store.path(key, ending)) for ending in (_COLUMNS, _SUMMARY))
            files, rules = tuple(paths.items()), class_rules()
            question = Parse(found.reader.id, files, target, summary, limits, rules, own_steps(), found.rank)
            count = decoders(need, self._workers.budget) if limits is None else 1
            peak = need + decoder_bytes(count) if limits is None else min(need, limits.budget_bytes)
            options |= {"key": target, "heavy": True, "peak_memory_bytes": peak}
            columns = str(self._store.path(key, rank_ending(found.rank, _COLUMNS)))
            question = replace(question, without_views=self._without_views, decoders=count)
        else:
            (file,) = paths.values()
            question = OpenSummary(any_summary(file), model_of(found.reader).id, found.url, is_checked=False)
            options["key"] = os.fspath(file)
        job = self._workers.submit(question, **options)
        load.reading(job, columns, limits is not None)
        job.future.add_done_callback(lambda future: held.close())
        job.future.add_done_callback(lambda future: self._finish(entry, load, future))

    def key(self, entry: Entry) -> str:
        """Returns the cache key of a profile or of its window. The key also depends on the memory budget."""
        key, rank = self._file_key(entry), entry.files.rank
        return f"{key}|{rank}" if rank else key

    def _file_key(self, entry: Entry) -> str:
        limits, key = self._limits(entry), cache_key(entry.files)
        return key if limits is None else f"{key}|window {limits.window}|{limits.budget_bytes}"

    def _limits(self, entry: Entry) -> Limits | None:
        need, budget = self._need_bytes(entry), self._workers.budget
        if not entry.window and need <= budget:
            return None
        return Limits(entry.window, need, budget, str(self._store.path(cache_key(entry.files), _SURVEY)))

    def _need_bytes(self, entry: Entry) -> int:
        found, folder = entry.files, entry.files.root.folder

        def estimate() -> int:
            if folder.is_local:
                sizes = local_file_sizes({file.path: folder.located(file) for file in found.files})
            else:
                sizes = unseen_sizes({file.path: file.size for file in found.files})
            return peak_memory_bytes(found.reader, sizes)

        return entry.peak_memory_bytes(estimate)

    def _finish(self, entry: Entry, load: Load, future: Future[Summary]) -> None:
        error = future.exception()
        ranks = [] if error is not None else future.result().ranks
        # Checked even after a failure, which may come from a file that was replaced during the read.
        replaced = _was_replaced(entry.files)
        with self._lock:
            if entry.load is not load:
                return
            if replaced:
                # The result may mix the old and the new file, so it is discarded. The next scan adds the new file.
                entry.leave()
                if load.path:
                    self._store.remove(Path(load.path))
            elif ranks:
                with suppress(OSError):  # otherwise the file is read again to find them
                    self._store.put(cache_key(entry.files), _RANKS, partial(_write_ranks, ranks))
            elif error is None:
                _settle(entry, load, future.result(), load.path)
                if load.path and self._need_bytes(entry) > _LARGE_BYTES:
                    # The worker is replaced because of its size. Its successor opens the file in advance.
                    self._workers.submit(Open(file_of(entry)), key=entry.path, label=entry.files.url)
            elif isinstance(error, Cancelled | CacheFileLost):
                entry.release(load)  # another process evicted the file; the next request loads it again
            else:
                _fail(entry, load, error)
        if replaced:
            self._catalog.rescan()
        elif ranks:
            self._catalog.split(entry.files, ranks)
        for path in [self._store.path(self._file_key(entry), rank_ending(rank, _COLUMNS)) for rank in ranks]:
            self._store.count(path)
        if load.path and not ranks:
            self._store.count(Path(load.path))


def _fail(entry: Entry, load: Load, error: BaseException) -> None:
    if not isinstance(error, UserError):
        if not isinstance(error, TorchTraceError):
            log.error("Loading %s failed.", entry.files.url, exc_info=error)
        error = UserError("An internal error happened.", entry.files.url, f"Please report it: {error}")
    entry.fail(load, error)


def _settle(entry: Entry, load: Load, summary: Summary, path: str) -> None:
    entry.settle(load, summary, path)
    if summary.window is not None and not entry.window:
        need, budget = (size / 1e6 for size in (summary.window.peak_memory_bytes, summary.window.budget_bytes))
        text = "%s needs about %.0f MB of memory, but %s=%.0f. Only a window of it was opened."
        log.warning(text, entry.files.url, need, MEMORY_VARIABLE, budget)


def file_of(entry: Entry) -> ModelFile:
    return ModelFile(entry.path, model_of(entry.files.reader).id)


@cache
def code_stamp() -> str:
    """Returns a text that changes with the version and, if installed as editable, with each source file."""
    stamp = hashlib.blake2b(__version__.encode(), digest_size=8)
    package = Path(__file__).parent.parent
    files = [each for each in _files_below(str(package)) if each.name.endswith((".py", ".txt"))]
    start = len(str(package)) + 1
    for file in sorted(files, key=lambda each: each.path.replace(os.sep, "\0")):  # sorted by directory, like Path
        stamp.update(f"{file.path[start:]}{file.stat().st_mtime_ns}".encode())
    return stamp.hexdigest()


def _files_below(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                yield entry
            elif entry.name != "__pycache__":
                yield from _files_below(entry.path)


def cache_key(found: ProfileFiles) -> str:
    """Returns a key that changes with the files of the profile and with the package version."""
    model = model_of(found.reader)
    places = (found.root.folder.locate(name) for name in found.names)
    where = [os.path.realpath(place) if found.root.folder.is_local else place for place in places]
    rules = class_rules()
    own = [f"classes {rules.text} {rules.problem}"] if rules != RuleFile() else []
    own += [f"steps {steps}"] if (steps := own_steps()) else []
    own += [f"peaks {peaks}"] if (peaks := own_peaks().peaks) else []
    return "|".join([code_stamp(), f"{model.id} {model.version}", found.reader.id, *where, found.fingerprint, *own])


def merged_ranks(store: FileStore, found: Sequence[ProfileFiles]) -> list[list[str]]:
    """Returns the ranks of each merged file that is in the cache. The list is empty for all other files."""
    if not store.has_any(_RANKS):
        return [[] for _ in found]
    return [_cached_ranks(store, one) for one in found]


def _cached_ranks(store: FileStore, found: ProfileFiles) -> list[str]:
    path = store.get(cache_key(found), _RANKS) if found.is_present else None
    try:
        return [] if path is None else msgspec.json.decode(without_checksum(path.read_bytes()), type=list[str])
    except (OSError, ValueError):  # msgspec's errors are ValueErrors
        return []


def _write_ranks(ranks: Sequence[str], path: Path) -> None:
    path.write_bytes(with_checksum(msgspec.json.encode(ranks)))


def _copy_key(found: ProfileFiles, file: StoredFile) -> tuple[str, str]:
    return f"copy|{found.root.folder.locate(file.path)}|{file.fingerprint}", "".join(Path(file.path).suffixes[-2:])


def _checked(columns: Path, summary: Path) -> Summary | None:
    try:
        known = msgspec.json.decode(without_checksum(summary.read_bytes()), type=Summary)
        return known if seal_of(columns) == known.columns else None
    except (OSError, ValueError):  # msgspec's errors are ValueErrors
        return None


def _has_columns(path: str, summary: Summary) -> bool:
    with suppress(OSError):  # a read-only folder is still readable
        os.utime(path)
    try:
        return Path(path).stat().st_size == summary.columns.size_bytes
    except OSError:
        return False


def _was_replaced(found: ProfileFiles) -> bool:
    if not found.root.folder.is_local:
        return False  # the copy was checked when it was made
    for file in found.files:
        with suppress(OSError):
            if stat_file(found.root.folder.locate(file.path)).fingerprint != file.fingerprint:
                return True
    return False
