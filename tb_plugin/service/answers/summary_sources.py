"""Listed rank summaries as sources of parts.

Nothing of a summary is decoded here: the worker process that merges the ranks of a run validates them
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
from tb_plugin.service.loader import LEASE_SECONDS
from tb_plugin.service.profile_files import ProfileFiles, SummaryFile
from tb_plugin.service.states import Entry
from tb_plugin.storage.cache import FileStore
from tb_plugin.storage.files import open_local
from tb_plugin.storage.safe_open import Located

if TYPE_CHECKING:
    from tb_plugin.service.summaries.format import Settings, Wanted

_COPY = ".ttsummary"
# Remote summaries copied at a time.
_MAX_COPIES = 16
# Seconds before an unreadable summary is tried again.
RETRY_SECONDS = 60.0


class RankSummary(msgspec.Struct, frozen=True):
    """A local rank summary or the path of its copy, and the content it must have."""

    file: Located
    wanted: Wanted
    is_copy: bool = False
    """Whether it is a copy in the cache, which can be copied again."""

    @property
    def key(self) -> str:
        """Returns a text that identifies this version."""
        settings = self.wanted.settings
        return f"{self.file.path} {self.file.fingerprint} {self.wanted.files} {settings.steps} {settings.classes}"


class Refusal(NamedTuple):
    """Why a summary cannot be used, as the end of a sentence that starts with "its summary"."""

    why: str
    for_now: bool = False
    """Whether it could not be read, so that its content is unknown."""


def parts_of(summaries: Sequence[RankSummary], room_bytes: int) -> tuple[list[Part], dict[int, Refusal]]:
    """Returns the parts in summaries and, by position, why some are refused; with refusals no part is valid.

    Values are checked together, and one by one only after a failure. They may take at most ``room_bytes`` together.
    Raises CacheFileLost for a missing copy.
    """
    room = room_bytes
    made: list[Part] = []
    refused: dict[int, Refusal] = {}
    places: list[int] = []
    from tb_plugin.service.summaries.format import SummaryRefused, content_of, unchecked

    for place, summary in enumerate(summaries):
        try:
            with open_local(summary.file) as stream:
                content = content_of(stream, room)
            part, size = unchecked(content, summary.wanted, room)
            room -= size
            made.append(part)
            places.append(place)
        except SummaryRefused as error:
            refused[place] = Refusal(str(error))
        except UserError as error:
            if summary.is_copy:
                raise CacheFileLost(
                    "The copy of a rank summary is missing.", summary.file.path, "It will be copied again."
                ) from error
            refused[place] = Refusal(f"cannot be read ({error.what})", for_now=True)
    from tb_plugin.service.summaries.format import check_values

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
    """The summaries of a profile, and its names."""

    settings: Settings
    folder: Path
    summaries: tuple[RankSummary, ...]


class _Lease(msgspec.Struct):
    """Protects a copy in the cache while it is requested."""

    held: ExitStack
    asked: float


class Summaries:
    """Summaries of profiles. Remote ones are copied in advance, refused ones remembered.

    Requested copies are protected: if the summaries of a run exceed the cache, each would evict another.
    """

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known: WeakKeyDictionary[ProfileFiles, _ProfileSummaries] = WeakKeyDictionary()
        self._remote: dict[RankSummary, SummaryFile] = {}
        """The remote file of each copy."""
        self._copies: dict[RankSummary, Future[None]] = {}
        """Copies in progress."""
        self._waiting: deque[RankSummary] = deque()
        self._copying = 0
        """Copying threads."""
        self._leases: dict[RankSummary, _Lease] = {}
        self._refused: dict[RankSummary, tuple[Refusal, float]] = {}
        """Reason and monotonic seconds."""

    def of(self, entries: Iterable[Entry]) -> dict[Entry, RankSummary | str]:
        """Returns, for each profile with summaries, the first usable one, or why the first is refused."""
        found: dict[Entry, RankSummary | str] = {}
        for entry in entries:
            if every := self.all_of(entry):
                refused = [self.refusal(each) for each in every]
                usable = (each for each, why in zip(every, refused, strict=True) if not why)
                found[entry] = next(usable, refused[0])
        return found

    def all_of(self, entry: Entry) -> tuple[RankSummary, ...]:
        """Returns the summaries of a profile, preferred one first."""
        found = entry.files
        if not found.summaries or entry.window:
            return ()
        from tb_plugin.service.summaries.compute import current_settings

        settings = current_settings()
        known = self._known.get(found)
        if known is None or (known.settings, known.folder) != (settings, self._store.folder):
            # A summary whose trace is not here may be of any size; that the trace has its name, says its place.
            from tb_plugin.service.summaries.format import Wanted

            wanted = Wanted.of(found.files if found.is_present else None, settings)
            named = tuple(self._rank_summary(file, wanted) for file in found.summaries)
            known = self._known[found] = _ProfileSummaries(settings, self._store.folder, named)
        return known.summaries

    def coming(self, summaries: Iterable[RankSummary], wait_for_them: bool = False) -> int:
        """Returns how many are not copied yet, and starts copying. A failed copy is refused for a while."""
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
        """Ends the protection of copies: they may be evicted."""
        with self._lock:
            ended = [lease for summary in summaries if (lease := self._leases.pop(summary, None))]
        for lease in ended:
            lease.held.close()

    def end_leases(self) -> None:
        """Ends the protection of copies that were not requested for LEASE_SECONDS."""
        oldest = time.monotonic() - LEASE_SECONDS
        with self._lock:
            late = [summary for summary, lease in self._leases.items() if lease.asked < oldest]
        self.let_go(late)
        if late:
            self._store.evict()

    def refuse(self, summary: RankSummary, refusal: Refusal) -> None:
        """Records that a summary cannot be used."""
        with self._lock:
            self._refused[summary] = refusal, time.monotonic()

    def refusal(self, summary: RankSummary) -> str:
        """Returns why a summary cannot be used now, "" if it can."""
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
        """The copy under way, None when it is here or refused; whoever asks holds the lock.

        Threads make it. They are daemons and end when nothing is left: those of a ThreadPoolExecutor finish all copies
        before Python ends.
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
            except Exception as error:  # the edge of a thread: whoever asks for the summary is told
                why = error.what if isinstance(error, UserError) else error
                self.refuse(summary, Refusal(f"cannot be read ({why})", for_now=True))
            with self._lock:
                self._copies.pop(summary).set_result(None)


def _copy_key(summary: SummaryFile) -> str:
    return f"summary|{summary.url}|{summary.file.fingerprint}"
