"""Rank summaries as a source of results, with or without the trace.

The parent process does not decode summaries. A worker process validates them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple
from weakref import WeakKeyDictionary

import msgspec
from msgspec.structs import replace

from tb_plugin import registry
from tb_plugin.analysis.base import Part
from tb_plugin.errors import NotFoundError, UnreadableTrace, UserError
from tb_plugin.payloads import ViewInfo
from tb_plugin.service.profile_files import ProfileFiles, SummaryFile
from tb_plugin.service.states import Entry
from tb_plugin.service.summaries import VIEW
from tb_plugin.service.summaries.compute import current_settings
from tb_plugin.service.summaries.format import (
    Settings,
    SummaryRefused,
    Wanted,
    check_header,
    check_stamp,
    check_values,
    content_of,
    decode_unchecked,
    read_header,
)
from tb_plugin.service.workers.model_cache import OpenModels
from tb_plugin.service.workers.parse import Summary, expected_view
from tb_plugin.service.workers.question import Report
from tb_plugin.storage.cache import FileStore, put_atomically
from tb_plugin.storage.checksum import Seal
from tb_plugin.storage.files import Folder, open_local
from tb_plugin.storage.listing import StoredFile
from tb_plugin.storage.safe_open import Located

WHY = "The trace is missing. For this rank, the log directory has only a summary, which only the page Ranks uses."
_DO = "Open the log directory that contains the trace."
_ANEW = "Compute the summary again with torch-trace summarize."
_COPY = ".ttsummary"
# Maximum number of concurrent downloads.
_MAX_COPIES = 16
# Seconds before reading an unreadable summary again.
RETRY_SECONDS = 60.0


class RankSummary(msgspec.Struct, frozen=True):
    """A rank summary in a local file or copy. ``wanted`` has the files and settings that it must match."""

    file: Located
    wanted: Wanted
    size_bytes: int
    remote: tuple[str, StoredFile] | None = None
    """``Folder.address`` and the file, if the worker process must copy the file first."""

    def __repr__(self) -> str:
        return f"RankSummary({self.file.path!r})"  # the address may contain credentials

    @property
    def key(self) -> str:
        settings = self.wanted.settings
        return f"{self.file.path} {self.file.fingerprint} {self.wanted.files} {settings.steps} {settings.classes}"

    def fetch(self) -> UserError | None:
        """Copies a remote file that has no local copy. Returns the error after a failure."""
        try:
            if self.remote is not None and not Path(self.file.path).exists():
                address, file = self.remote
                put_atomically(self.file.path, partial(Folder(address).copy, file))
        except UserError as error:
            return error
        return None


def any_summary(file: Located) -> RankSummary:
    """Returns a summary that need not match anything."""
    return RankSummary(file, Wanted(None, Settings()), 0)


class Refusal(NamedTuple):
    """The reason why a summary cannot be used. ``why`` completes the sentence "its summary ..."."""

    why: str
    for_now: bool = False
    """True if the file could not be read. A later attempt may succeed."""


def parts_of(summaries: Sequence[RankSummary], room_bytes: int) -> tuple[list[Part], dict[int, Refusal]]:
    """Returns results, or refused summaries by index. Together, they may use ``room_bytes`` of memory."""
    room = room_bytes
    made: list[Part] = []
    refused: dict[int, Refusal] = {}
    places: list[int] = []
    for place, (summary, failed) in enumerate(zip(summaries, _fetched(summaries), strict=True)):
        try:
            if failed is not None:
                raise failed
            with open_local(summary.file) as stream:
                content = content_of(stream, room)
            part, size = decode_unchecked(content, summary.wanted, room)
            room -= size
            made.append(part)
            places.append(place)
        except SummaryRefused as error:
            refused[place] = Refusal(str(error))
        except UserError as error:
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


def _fetched(summaries: Sequence[RankSummary]) -> list[UserError | None]:
    if not any(summary.remote for summary in summaries):
        return [None] * len(summaries)
    threads = ThreadPoolExecutor(_MAX_COPIES, "torch-trace-summaries")
    try:
        return list(threads.map(RankSummary.fetch, summaries))
    finally:
        threads.shutdown(cancel_futures=True)


class Summaries:
    def __init__(self, store: FileStore) -> None:
        self._store = store
        self._known: WeakKeyDictionary[ProfileFiles, tuple[Settings, tuple[RankSummary, ...]]] = WeakKeyDictionary()
        """Summaries of profiles, valid for these settings."""
        self._refused: dict[RankSummary, tuple[Refusal, float]] = {}
        """Refusals and their times, in monotonic seconds."""

    def of(self, entry: Entry) -> RankSummary | str:
        """Returns the first usable summary, else why the first is refused, or "" without summaries."""
        refused = ""
        for summary in self.all_of(entry):
            why = self.refusal(summary)
            if not why:
                return summary
            refused = refused or why
        return refused

    def all_of(self, entry: Entry) -> tuple[RankSummary, ...]:
        found = entry.files
        if not found.summaries or entry.window:
            return ()
        settings = current_settings()
        known = self._known.get(found)
        if known is None or known[0] != settings:
            # Without the trace, its file sizes are unknown. The path of the summary already matches its name.
            wanted = Wanted.of(found.files if found.is_present else None, settings)
            known = settings, tuple(self._rank_summary(file, wanted) for file in found.summaries)
            self._known[found] = known
        return known[1]

    def refuse(self, summary: RankSummary, refusal: Refusal) -> None:
        self._refused[summary] = refusal, time.monotonic()

    def refusal(self, summary: RankSummary) -> str:
        """Returns the reason why a summary cannot be used at present, or "" if it can be used."""
        refusal, since = self._refused.get(summary, (Refusal(""), 0.0))
        return "" if refusal.for_now and time.monotonic() - since > RETRY_SECONDS else refusal.why

    def _rank_summary(self, summary: SummaryFile, wanted: Wanted) -> RankSummary:
        folder, file = summary.folder, summary.file
        if folder.is_local:
            return RankSummary(folder.located(file), wanted, file.size)
        copy = self._store.path(f"summary|{summary.url}|{file.fingerprint}", _COPY)
        return RankSummary(Located(str(copy)), wanted, file.size, (folder.address, file))


class OpenSummary(msgspec.Struct, frozen=True):
    """Reads the profile in a rank summary. ``model`` is that of the trace, ``where`` its path for users."""

    summary: RankSummary
    model: str
    where: str
    is_checked: bool = True
    """False if the files and settings of the summary do not matter."""

    def answer(self, models: OpenModels, report: Report) -> Summary:
        """Returns the summary of the profile. Raises UnreadableTrace, StorageError."""
        if failed := self.summary.fetch():
            raise failed
        try:
            with open_local(self.summary.file) as stream:
                about = read_header(content_of(stream))
            if self.is_checked:
                check_header(about, self.summary.wanted)
            else:
                check_stamp(about)
        except SummaryRefused as error:
            raise UnreadableTrace(f"The trace is missing, and its summary {error}.", self.where, _ANEW) from error
        shown = registry.views_of(registry.model_by_id(self.model))
        views = [expected_view(view) for view in shown if view.traits.place != "detail" and not view.traits.hidden]
        return Summary(about.steps, list(map(_only_distributed, views)), about.read, 0, Seal(0, 0))


def _only_distributed(view: ViewInfo) -> ViewInfo:
    return view if view.id == VIEW else replace(view, available=False, why=WHY)


def missing_trace_error(found: ProfileFiles, refused: str = "") -> NotFoundError:
    """Returns the error for a missing trace. ``refused``: why its rank summary cannot be used either."""
    if refused:
        return NotFoundError(f"The trace is missing, and its summary {refused}.", found.url, _ANEW)
    return NotFoundError(WHY, found.url, _DO)
