"""Scheduler that computes and caches one result per profile.

A process computes the result of one profile at a time, and maps at most four models. A profile with a cached result is
not loaded again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from tb_plugin.analysis.base import Analysis, Params
from tb_plugin.errors import CacheFileLost, NotFoundError, TorchTraceError, UserError
from tb_plugin.registry import analysis_by_id, formats_of, model_of
from tb_plugin.service.answers.questions import Source, WritePart
from tb_plugin.service.graph_captures import Captures
from tb_plugin.service.loader import Loader
from tb_plugin.service.states import Entry
from tb_plugin.service.summaries import VIEW
from tb_plugin.service.summaries.sources import RankSummary, Summaries, missing_trace_error
from tb_plugin.service.workers.pool import Workers
from tb_plugin.service.workers.question import ABANDONED_READ_SECONDS, Job
from tb_plugin.storage.cache import FileStore

_SUFFIX = ".part"
# Whether missing results are computed: start computing them, also wait for them, or use only cached results.
Mode = Literal["start", "wait", "cached"]


class State(msgspec.Struct):
    ready: list[tuple[str, Source]] = msgspec.field(default_factory=list)
    """(worker, source) pairs."""
    failed: list[tuple[str, UserError]] = msgspec.field(default_factory=list)
    waiting: list[Entry] = msgspec.field(default_factory=list)
    refused: list[tuple[str, str]] = msgspec.field(default_factory=list)
    """(worker, reason) pairs of results that are computed from the trace, because the summary was refused."""
    fraction: float = 0.0


class _PartRequest(msgspec.Struct, frozen=True):
    entry: Entry
    analysis: Analysis[Any]
    params: Params
    capture: str


class PartScheduler:
    """Collects the results of several profiles. Loading stops if the request is not repeated."""

    def __init__(self, loader: Loader, captures: Captures, workers: Workers, store: FileStore) -> None:
        self._loader = loader
        self._captures = captures
        self._workers = workers
        self._store = store
        self.summaries = Summaries(store)
        self._jobs: dict[str, Job[str]] = {}
        self._asked: dict[str, float] = {}
        """For each pending result, the time of the last request in monotonic seconds."""
        self._lock = threading.Lock()

    def gather(
        self,
        entries: Sequence[Entry],
        analysis: Analysis[Any],
        params: Params,
        mode: Mode = "start",
        capture: Callable[[Entry], str] = lambda entry: "",
    ) -> State:
        """Starts or continues computing the results, and returns their state.

        The mode ``wait`` blocks until every profile is done or has failed. The mode ``cached`` stops at the first
        result that is not cached. ``capture`` returns the capture text of a profile.
        """
        formats = formats_of(analysis)
        asked = [_PartRequest(entry, analysis, replace(params, table=None), capture(entry)) for entry in entries]
        while True:
            state = State()
            for each in asked:
                self._advance(each, formats, state, mode)
                if state.waiting and mode == "cached":
                    return state
            if not state.waiting or mode == "start":
                return state
            for entry in state.waiting:
                try:
                    self._captures.waited(self._loader.wait(entry, lambda fraction: None), capture(entry))
                except TorchTraceError:
                    continue  # the next round reports the error

    def end_leases(self) -> None:
        oldest = time.monotonic() - ABANDONED_READ_SECONDS
        with self._lock:
            late = [key for key, asked in self._asked.items() if asked < oldest]
            jobs = [self._jobs.pop(key) for key in late if self._asked.pop(key) and key in self._jobs]
        for job in jobs:
            self._workers.leave(job)

    def _advance(self, asked: _PartRequest, formats: frozenset[str], state: State, mode: Mode) -> None:
        entry = asked.entry
        try:
            if entry.files.reader.id not in formats:
                analysis_by_id(asked.analysis.id, model_of(entry.files.reader))
                return
            source = self._source(asked, state, mode)
        except UserError as error:
            state.failed.append((entry.files.worker, error))
            return
        if source is None:
            state.waiting.append(entry)
            state.fraction += entry.fraction
        else:
            state.ready.append((entry.files.worker, source))
            state.fraction += 1.0

    def _source(self, asked: _PartRequest, state: State, mode: Mode) -> Source | None:
        """Returns the result, or None until it is ready. Raises UserError."""
        entry = asked.entry
        is_summarized = asked.analysis.id == VIEW and not asked.capture and not asked.analysis.part_key(asked.params)
        summary = self.summaries.of(entry) if is_summarized else ""
        if isinstance(summary, RankSummary):
            return summary
        if not entry.files.is_present:
            raise missing_trace_error(entry.files, summary)
        if summary:
            state.refused.append((entry.files.worker, f"its summary {summary}"))
        path = self._store.get(self._key(asked), _SUFFIX)
        if path is None and mode != "cached":
            path = self._compute(asked, mode == "wait")
        return None if path is None else str(path)

    def _key(self, asked: _PartRequest) -> str:
        capture = self._captures.key(asked.entry, asked.capture)
        told = f"|told by {capture}" if capture else ""
        return (
            f"part|{self._loader.key(asked.entry)}{told}|{asked.analysis.id}|{asked.analysis.part_key(asked.params)!r}"
        )

    def _compute(self, asked: _PartRequest, wait: bool) -> Path | None:
        """Computes the result file. Returns None until the file is ready. Raises UserError."""
        entry = asked.entry
        if entry.gone:
            raise NotFoundError("The file changed while it was read.", entry.files.url, "Repeat the request.")
        if self._loader.ready(entry).summary is None:
            return None
        opened = self._captures.ready(entry, asked.capture)
        if opened is None:
            return None
        key = self._key(asked)  # the key no longer includes a capture that turned out to be unusable
        if path := self._store.get(key, _SUFFIX):
            return path
        with self._lock:
            job = self._jobs.get(key)
            if job is None:
                target = str(self._store.path(key, _SUFFIX))
                question = WritePart(opened.file, asked.analysis.id, asked.params, target)
                job = self._workers.submit(question, key=entry.path, label=entry.files.url)
                self._jobs[key] = job
            self._asked[key] = float("inf") if wait else time.monotonic()
        if not wait and not job.future.done():
            return None
        try:
            path = Path(job.future.result())
        except CacheFileLost as error:
            self._loader.lose(opened.lost(error))
            return None
        finally:
            with self._lock:
                self._jobs.pop(key, None)
                self._asked.pop(key, None)
        self._store.count(path)
        return path
