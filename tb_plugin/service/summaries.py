"""Parts of ranks from elsewhere: from rank summaries that are listed, and from a cluster that computes what is missing.

Nothing of a summary is decoded here: a worker process takes it apart, looks at everything, and writes the part that it
holds into the cache, where it is what a part computed here would be.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tb_plugin.analyses.distributed.shapes import stamp
from tb_plugin.errors import CacheRefused, TorchTraceError, UserError
from tb_plugin.service.found import Found, SummaryFile
from tb_plugin.service.opened import OpenModels
from tb_plugin.service.pool import Workers
from tb_plugin.service.question import Report
from tb_plugin.service.rank_summary import MOST_BYTES, SummaryRefused, Wanted, opened
from tb_plugin.service.states import Entry
from tb_plugin.service.summarizing import settings_here
from tb_plugin.storage.cache import FileStore, put_whole
from tb_plugin.storage.files import open_local
from tb_plugin.storage.opening import Located

log = logging.getLogger("torch_trace")

SUFFIX = ".part"
_COPY = ".ttsummary"
_BATCH = 16
"""Summaries that one question to a worker is about."""
_COPIES = 16
"""Remote summaries that are copied at a time."""
_DAMAGED = "cannot be taken"


@dataclass(frozen=True)
class Item:
    """One summary on this machine, what it has to be of, and where its part goes."""

    file: str | Located
    wanted: Wanted
    target: str


@dataclass(frozen=True)
class TakeParts:
    """Asks to take the parts out of summaries."""

    items: tuple[Item, ...]

    def answer(self, models: OpenModels, report: Report) -> list[str]:
        """Returns for each why it was refused, as the end of a sentence; empty where it was taken. Raises CacheRefused."""
        return [_taken(item) for item in self.items]


def _taken(item: Item) -> str:
    try:
        with open_local(item.file) as stream:
            content = stream.read(MOST_BYTES + 1)
        _, body = opened(content, item.wanted)
    except (SummaryRefused, UserError) as error:
        return str(error) if isinstance(error, SummaryRefused) else f"cannot be read ({error.what})"
    put_whole(item.target, lambda partial: partial.write_bytes(body))
    return ""


@dataclass
class Taken:
    """What is known of the part of one rank: ``path`` once it is there, ``refused`` once it is known not to come."""

    path: Path | None = None
    refused: str = ""
    under_way: Future[str] | None = field(default=None, repr=False)


class Summaries:
    """Takes parts out of summaries ahead of the question, several at a time; remembers what was refused."""

    def __init__(self, workers: Workers, store: FileStore) -> None:
        self._workers = workers
        self._store = store
        self._lock = threading.Lock()
        self._known: dict[str, Future[str]] = {}
        """By key: what ``TakeParts`` said of the summary."""
        self._copying: ThreadPoolExecutor | None = None

    def begin(self, entries: Sequence[Entry]) -> None:
        """Has workers take what is not there yet of the summaries of these profiles. Returns at once."""
        new: list[tuple[SummaryFile, Item, Future[str]]] = []
        for entry in entries:
            found = entry.found
            if found.summary is None or entry.window:
                continue
            key = _key(found)
            with self._lock:
                known = self._known.get(key)
                is_lost = known is not None and known.done() and not known.result() and not self._there(key)
                if known is not None and not is_lost:
                    continue
                future: Future[str] = Future()
                self._known[key] = future
                if known is None and self._there(key):
                    future.set_result("")
                    continue
            item = Item("", _wanted(found), str(self._store.path(key, SUFFIX)))
            new.append((found.summary, item, future))
        for start in range(0, len(new), _BATCH):
            self._take(new[start : start + _BATCH])

    def of(self, entry: Entry) -> Taken | None:
        """Returns what is known of the part of a profile, after ``begin``; None where it has no summary."""
        if entry.found.summary is None or entry.window:
            return None
        key = _key(entry.found)
        known = self._known.get(key)
        if known is None or not known.done():
            return Taken(under_way=known or Future())
        refused = known.result()
        path = None if refused else self._store.get(key, SUFFIX)
        return Taken(path, refused, None if refused or path else known)

    def file_of(self, entry: Entry) -> str | Located | None:
        """Returns where on this machine the summary of a profile lies, None where its copy is gone."""
        summary = entry.found.summary
        if summary is None:
            return None
        if summary.folder.is_local:
            return summary.folder.located(summary.file)
        copy = self._store.get(_copy_key(summary), _COPY)
        return None if copy is None else str(copy)

    def wait(self, entries: Sequence[Entry]) -> None:
        """Waits until nothing is under way for these profiles."""
        wait([taken.under_way for entry in entries if (taken := self.of(entry)) and taken.under_way is not None])

    def _there(self, key: str) -> bool:
        return self._store.get(key, SUFFIX) is not None

    def _take(self, batch: Sequence[tuple[SummaryFile, Item, Future[str]]]) -> None:
        if all(file.folder.is_local for file, _, _ in batch):
            items = [Item(file.folder.located(file.file), item.wanted, item.target) for file, item, _ in batch]
            self._ask(items, [future for _, _, future in batch])
            return
        with self._lock:
            if self._copying is None:
                self._copying = ThreadPoolExecutor(_COPIES, "torch-trace-summaries")
            copying = self._copying
        copies = [copying.submit(self._copy, file) for file, _, _ in batch]
        threading.Thread(target=self._ask_copied, args=(copies, batch), daemon=True).start()

    def _copy(self, file: SummaryFile) -> Path:
        """The local copy of a remote summary. Raises StorageError."""
        key = _copy_key(file)
        return self._store.get(key, _COPY) or self._store.put(
            key, _COPY, lambda target: file.folder.copy(file.file, target)
        )

    def _ask_copied(
        self, copies: Sequence[Future[Path]], batch: Sequence[tuple[SummaryFile, Item, Future[str]]]
    ) -> None:
        items, futures = [], []
        for copy, (_, item, future) in zip(copies, batch, strict=True):
            try:
                items.append(Item(str(copy.result()), item.wanted, item.target))
                futures.append(future)
            except Exception as error:  # the edge of a thread
                future.set_result(f"cannot be read ({error.what if isinstance(error, UserError) else error})")
        self._ask(items, futures)

    def _ask(self, items: Sequence[Item], futures: Sequence[Future[str]]) -> None:
        if not items:
            return
        try:
            job = self._workers.submit(TakeParts(tuple(items)), key=items[0].target, about="rank summaries")
        except TorchTraceError:
            for future in futures:
                future.set_result(_DAMAGED)
            return
        job.future.add_done_callback(partial(self._settle, futures))

    def _settle(self, futures: Sequence[Future[str]], answer: Future[list[str]]) -> None:
        error = answer.exception()
        if isinstance(error, CacheRefused) and self._store.leave(error):
            said = [""] * len(futures)  # and nothing is there: they are taken again into the other folder
        elif error is None:
            said = answer.result()
        else:
            said = [_DAMAGED] * len(futures)
        if error is not None and not isinstance(error, UserError):
            log.warning("Rank summaries could not be taken: %s", error)
        for future, refused in zip(futures, said, strict=True):
            future.set_result(refused)
        with suppress(OSError):
            self._store.evict()


def _copy_key(summary: SummaryFile) -> str:
    return f"summary|{summary.url}|{summary.file.fingerprint}"


def _key(found: Found) -> str:
    """Names the part of a profile's summary in the cache: this version of the summary, for this version of the profile."""
    summary = found.summary
    assert summary is not None
    files = "|".join(f"{file.path} {file.size}" for file in found.files) if found.is_here else "away"
    return f"rank|{stamp()}|{settings_here()}|{summary.url}|{summary.file.fingerprint}|{files}"


def _wanted(found: Found) -> Wanted:
    """A summary whose trace is not here may be of any size; that the trace has its name, says the place of the summary."""
    return Wanted.of(found.files if found.is_here else None, settings_here())
