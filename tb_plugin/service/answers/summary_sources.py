"""Rank summaries as a source of results.

This module does not decode summaries. The worker process that merges the ranks of a run validates them
(``multi_questions.WriteMergedPart``).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from tb_plugin.analysis.base import Part
from tb_plugin.errors import CacheFileLost, UserError
from tb_plugin.service.profile_files import ProfileFiles, SummaryFile
from tb_plugin.service.states import Entry
from tb_plugin.service.summaries.format import (
    Settings,
    SummaryRefused,
    Wanted,
    check_values,
    content_of,
    decode_unchecked,
)
from tb_plugin.service.workers.timeouts import ABANDONED_READ_SECONDS
from tb_plugin.storage.cache import FileStore
from tb_plugin.storage.files import open_local
from tb_plugin.storage.safe_open import Located

if TYPE_CHECKING:
    from tb_plugin.service.summaries.format import Settings, Wanted

_COPY = ".ttsummary"
# Maximum number of concurrent downloads.
_MAX_COPIES = 16
# Seconds before reading an unreadable summary again.
RETRY_SECONDS = 60.0


class RankSummary(msgspec.Struct, frozen=True):
    """A local rank summary, or the local copy of a remote summary.

    ``wanted`` specifies the files and settings that the summary must match.
    """

    file: Located
    wanted: Wanted
    is_copy: bool = False
    """True for a cached copy, which can be downloaded again."""

    @property
    def key(self) -> str:
        """Returns a cache key that changes with the file and with ``wanted``."""
        settings = self.wanted.settings
        return f"{self.file.path} {self.file.fingerprint} {self.wanted.files} {settings.steps} {settings.classes}"


class Refusal(NamedTuple):
    """The reason why a summary cannot be used. ``why`` completes the sentence "its summary ..."."""

    why: str
    for_now: bool = False
    """True if the file could not be read. A later attempt may succeed."""


def parts_of(summaries: Sequence[RankSummary], room_bytes: int) -> tuple[list[Part], dict[int, Refusal]]:
    """Returns the results in rank summaries, and the reason for each refused summary by index.

    If any summary is refused, the results must not be used. Together, the results may use at most ``room_bytes`` of
    memory. Raises CacheFileLost if a cached copy is missing.
    """
    room = room_bytes
    made: list[Part] = []
    refused: dict[int, Refusal] = {}
    places: list[int] = []

    for place, summary in enumerate(summaries):
        try:
            with open_local(summary.file) as stream:
                content = content_of(stream, room)
            part, size = decode_unchecked(content, summary.wanted, room)
            room -= size
            made.append(part)
            places.append(place)
        except SummaryRefused as error:
            refused[place] = Refusal(str(error))
        except UserError as error:
            if summary.is_copy:
                raise CacheFileLost(
                    "The copy of a rank summary is missing.", summary.file.path, "The summary will be copied again."
                ) from error
            refused[place] = Refusal(f"cannot be read ({error.what})", for_now=True)

    try:
        check_values(made)
    except SummaryRefused:
        for place, part in zip(places, made, strict=True):
            try:
                check_values([part])
            except SummaryRefused as error:
                refused[place] = Refusal(str(error))
    return made, refused


class _ProfileSummaries(NamedTuple):
    """Cached summaries of a profile. They are valid for these settings and this cache folder only."""

    settings: Settings
    folder: Path
    summaries: tuple[RankSummary, ...]


class _Lease(msgspec.Struct):
    """Protects a cached copy from eviction while it is in use."""

    held: ExitStack
    asked: float


class Summaries:
    """Rank summaries of profiles. Remote summaries are copied into the cache first.

    Copies in use are protected from eviction. Otherwise the summaries of a large run would evict each other.
    """

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known: WeakKeyDictionary[ProfileFiles, _ProfileSummaries] = WeakKeyDictionary()
        self._remote: dict[RankSummary, SummaryFile] = {}
        """Remote file for each cached copy."""
        self._copies: dict[RankSummary, Future[None]] = {}
        """Downloads in progress."""
        self._waiting: deque[RankSummary] = deque()
        self._copying = 0
        """Number of running download threads."""
        self._leases: dict[RankSummary, _Lease] = {}
        self._refused: dict[RankSummary, tuple[Refusal, float]] = {}
        """Refusals and their times, in monotonic seconds."""

    def of(self, entries: Iterable[Entry]) -> dict[Entry, RankSummary | str]:
        """Returns the first usable summary of each profile.

        If no summary of a profile is usable, its value is the reason why its first summary is refused. Profiles
        that have no summary are omitted.
        """
        found: dict[Entry, RankSummary | str] = {}
        for entry in entries:
            if every := self.all_of(entry):
                refused = [self.refusal(each) for each in every]
                usable = (each for each, why in zip(every, refused, strict=True) if not why)
                found[entry] = next(usable, refused[0])
        return found

    def all_of(self, entry: Entry) -> tuple[RankSummary, ...]:
        """Returns the summaries of a profile, in order of preference."""
        found = entry.files
        if not found.summaries or entry.window:
            return ()
        from tb_plugin.service.summaries.compute import current_settings

        settings = current_settings()
        known = self._known.get(found)
        if known is None or (known.settings, known.folder) != (settings, self._store.folder):
            # Without the trace, its file sizes are unknown. The path of the summary already matches its name.
            from tb_plugin.service.summaries.format import Wanted

            wanted = Wanted.of(found.files if found.is_present else None, settings)
            named = tuple(self._rank_summary(file, wanted) for file in found.summaries)
            known = self._known[found] = _ProfileSummaries(settings, self._store.folder, named)
        return known.summaries

    def coming(self, summaries: Iterable[RankSummary], wait_for_them: bool = False) -> int:
        """Starts copying remote summaries. Returns the number of summaries whose copy is not finished.

        If copying fails, the summary is refused for RETRY_SECONDS.
        """
        now = time.monotonic()
        copies = []
        with self._lock:
            for summary in summaries:
                if summary.is_copy:
                    self._lease(summary, now)
                    if copy := self._copy_of(summary):
                        copies.append(copy)
        if wait_for_them:
            wait(copies)
        return sum(not copy.done() for copy in copies)

    def let_go(self, summaries: Iterable[RankSummary]) -> None:
        """Allows the cache to evict copies again."""
        with self._lock:
            ended = [lease for summary in summaries if (lease := self._leases.pop(summary, None))]
        for lease in ended:
            lease.held.close()

    def end_leases(self) -> None:
        """Allows the cache to evict copies that nobody requested for ABANDONED_READ_SECONDS."""
        oldest = time.monotonic() - ABANDONED_READ_SECONDS
        with self._lock:
            late = [summary for summary, lease in self._leases.items() if lease.asked < oldest]
        self.let_go(late)
        if late:
            self._store.evict()

    def refuse(self, summary: RankSummary, refusal: Refusal) -> None:
        """Marks a summary as unusable."""
        with self._lock:
            self._refused[summary] = refusal, time.monotonic()

    def refusal(self, summary: RankSummary) -> str:
        """Returns the reason why a summary cannot be used at present, or "" if it can be used."""
        refusal, since = self._refused.get(summary, (Refusal(""), 0.0))
        return "" if refusal.for_now and time.monotonic() - since > RETRY_SECONDS else refusal.why

    def _rank_summary(self, file: SummaryFile, wanted: Wanted) -> RankSummary:
        if file.folder.is_local:
            return RankSummary(file.folder.located(file.file), wanted)
        summary = RankSummary(Located(str(self._store.path(_copy_key(file), _COPY))), wanted, is_copy=True)
        self._remote[summary] = file
        return summary

    def _lease(self, summary: RankSummary, now: float) -> None:
        lease = self._leases.get(summary)
        if lease is None:
            lease = self._leases[summary] = _Lease(ExitStack(), now)
            lease.held.enter_context(self._store.pinned(Path(summary.file.path)))
        lease.asked = now

    def _copy_of(self, summary: RankSummary) -> Future[None] | None:
        """Returns the download in progress, or None if the copy is finished or refused. The caller must have
        acquired the lock.

        Downloads use daemon threads. With a ThreadPoolExecutor, Python would finish all downloads before it exits.
        """
        if (copy := self._copies.get(summary)) is not None:
            return copy
        if self._store.get(_copy_key(self._remote[summary]), _COPY) or self.refusal(summary):
            return None
        copy = self._copies[summary] = Future()
        self._waiting.append(summary)
        if self._copying < _MAX_COPIES:
            self._copying += 1
            threading.Thread(target=self._copy, name="torch-trace-summaries", daemon=True).start()
        return copy

    def _copy(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._copying -= 1
                    return
                summary = self._waiting.popleft()
                file = self._remote[summary]
            try:
                self._store.put(_copy_key(file), _COPY, partial(file.folder.copy, file.file))
            except Exception as error:  # top level of a thread: callers see the refusal
                why = error.what if isinstance(error, UserError) else error
                self.refuse(summary, Refusal(f"cannot be read ({why})", for_now=True))
            with self._lock:
                self._copies.pop(summary).set_result(None)


def _copy_key(summary: SummaryFile) -> str:
    return f"summary|{summary.url}|{summary.file.fingerprint}"
