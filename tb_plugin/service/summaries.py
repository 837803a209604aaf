"""Rank summaries that are listed, as sources of parts: what each has to be of, where it lies, and which were refused.

Nothing of a summary is decoded here: the worker process that joins the ranks of a run takes them apart and looks at
everything (``together.WriteJoined``).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from weakref import WeakKeyDictionary

from tb_plugin.analyses.base import Part
from tb_plugin.errors import UserError
from tb_plugin.service.budget import budget_bytes
from tb_plugin.service.found import Found, SummaryFile
from tb_plugin.service.rank_summary import MOST_BYTES, Settings, SummaryRefused, Wanted, check_values, unchecked
from tb_plugin.service.states import Entry
from tb_plugin.service.summarizing import settings_here
from tb_plugin.storage.cache import FileStore
from tb_plugin.storage.files import open_local
from tb_plugin.storage.opening import Located

_COPY = ".ttsummary"
_COPIES = 16
"""Remote summaries that are copied at a time."""
RETRY_SECONDS = 60.0
"""So long after a copy failed it is tried again: a storage may have been away for a moment."""


@dataclass(frozen=True)
class RankSummary:
    """A rank summary on this machine, and what it has to be of."""

    file: Located
    wanted: Wanted

    @property
    def key(self) -> str:
        """Returns what names this version of it."""
        settings = self.wanted.settings
        return f"{self.file.path} {self.file.fingerprint} {self.wanted.files} {settings.steps} {settings.classes}"


def parts_of(summaries: Sequence[RankSummary]) -> tuple[list[Part], dict[int, str]]:
    """Returns the parts in summaries; by place why some are refused, as the end of a sentence: then no part counts.

    Their values are looked at all together, and one by one only where something is wrong with them. Together they take at
    most what all workers may.
    """
    room = budget_bytes()
    made: list[Part] = []
    refused: dict[int, str] = {}
    places: list[int] = []
    for place, summary in enumerate(summaries):
        try:
            with open_local(summary.file) as stream:
                content = stream.read(MOST_BYTES + 1)
            part, size = unchecked(content, summary.wanted, room)
            room -= size
            made.append(part)
            places.append(place)
        except SummaryRefused as error:
            refused[place] = str(error)
        except UserError as error:
            refused[place] = f"cannot be read ({error.what})"
    try:
        check_values(made)
    except SummaryRefused:
        for place, part in zip(places, made, strict=True):
            try:
                check_values([part])
            except SummaryRefused as error:
                refused[place] = str(error)
    return made, refused


class Summaries:
    """The summaries of profiles: those of remote folders are copied ahead of the question, refused ones remembered."""

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._here: WeakKeyDictionary[Found, RankSummary] = WeakKeyDictionary()
        self._copies: dict[str, Future[Path]] = {}
        self._failed: dict[str, float] = {}
        """Since when a copy is known to have failed, monotonic seconds."""
        self._waiting: deque[tuple[Future[Path], str, SummaryFile]] = deque()
        self._copying = 0
        """Threads that copy."""
        self._refused: dict[RankSummary, str] = {}

    def begin(self, entries: Sequence[Entry]) -> dict[Entry, RankSummary | str | None]:
        """Returns what there is of each profile that has a summary: it, None while it is copied, or why it is refused."""
        settings = settings_here()
        found = {}
        for entry in entries:
            if entry.found.summary is not None and not entry.window:
                found[entry] = self._of(entry.found, entry.found.summary, settings)
        return found

    def wait(self) -> None:
        """Waits until no copy is under way."""
        with self._lock:
            copies = list(self._copies.values())
        wait(copies)

    def refuse(self, summary: RankSummary, why: str) -> None:
        """Remembers why a summary cannot be used; ``why`` is the end of a sentence that begins with "its summary"."""
        with self._lock:
            self._refused[summary] = why

    def _of(self, found: Found, file: SummaryFile, settings: Settings) -> RankSummary | str | None:
        summary = self._here.get(found)
        if summary is None or summary.wanted.settings != settings or not self._is_there(file, summary):
            place = file.folder.located(file.file) if file.folder.is_local else self._copied(file)
            if place is None or not isinstance(place, Located):
                return place
            # A summary whose trace is not here may be of any size; that the trace has its name, says its place.
            summary = self._here[found] = RankSummary(
                place, Wanted.of(found.files if found.is_here else None, settings)
            )
        return self._refused.get(summary, summary)

    def _is_there(self, file: SummaryFile, summary: RankSummary) -> bool:
        return file.folder.is_local or self._store.get(_copy_key(file), _COPY) is not None

    def _copied(self, file: SummaryFile) -> Located | str | None:
        """The local copy of a remote summary, None while it comes, or why there is none."""
        key = _copy_key(file)
        if path := self._store.get(key, _COPY):
            return Located(str(path))
        with self._lock:
            copy = self._copies.get(key)
            # The cache let go of what was copied; what failed a while ago may be there now.
            if copy is None or (copy.done() and (copy.exception() is None or self._is_long_ago(key))):
                self._failed.pop(key, None)
                copy = self._copies[key] = self._begun(key, file)
        if not copy.done():
            return None
        error = copy.exception()
        if error is None:
            return Located(str(copy.result()))
        with self._lock:
            self._failed.setdefault(key, time.monotonic())
        return f"cannot be read ({error.what if isinstance(error, UserError) else error})"

    def _begun(self, key: str, file: SummaryFile) -> Future[Path]:
        """A copy that threads make; whoever asks holds the lock.

        They are daemons and end when nothing is left: those of a ThreadPoolExecutor finish all copies before Python ends.
        """
        copy: Future[Path] = Future()
        self._waiting.append((copy, key, file))
        if self._copying < _COPIES:
            self._copying += 1
            threading.Thread(target=self._copy, name="torch-trace-summaries", daemon=True).start()
        return copy

    def _copy(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._copying -= 1
                    return
                copy, key, file = self._waiting.popleft()
            try:
                copy.set_result(self._store.put(key, _COPY, partial(file.folder.copy, file.file)))
            except Exception as error:  # the edge of a thread: whoever asks for the copy is told
                copy.set_exception(error)

    def _is_long_ago(self, key: str) -> bool:
        return time.monotonic() - self._failed.get(key, time.monotonic()) > RETRY_SECONDS


def _copy_key(summary: SummaryFile) -> str:
    return f"summary|{summary.url}|{summary.file.fingerprint}"
