"""Scheduler that computes and caches one result per profile.

A process never holds the columns of more than one profile. A profile with a cached result is not loaded again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from tb_plugin.analysis.base import Analysis, Params
from tb_plugin.errors import CacheFileLost, CacheRefused, NotFoundError, TorchTraceError, UserError
from tb_plugin.payloads import Profile
from tb_plugin.registry import analysis_by_id, formats_of, model_of
from tb_plugin.service.answers.summary_sources import RankSummary, Summaries
from tb_plugin.service.graph_captures import Captures
from tb_plugin.service.loader import Loader
from tb_plugin.service.states import Entry
from tb_plugin.service.summaries import VIEW
from tb_plugin.service.workers.pool import Workers
from tb_plugin.service.workers.request import Job
from tb_plugin.service.workers.timeouts import ABANDONED_READ_SECONDS
from tb_plugin.storage.cache import FileStore

if TYPE_CHECKING:
    from tb_plugin.service.answers.background_parts import ClusterParts
    from tb_plugin.service.answers.multi_questions import Source

_SUFFIX = ".part"


class State(msgspec.Struct):
    """Progress of a group of profiles.

    ``ready`` contains (worker, source) pairs.
    """

    ready: list[tuple[str, Source]] = msgspec.field(default_factory=list)
    failed: list[tuple[str, UserError]] = msgspec.field(default_factory=list)
    waiting: list[Entry] = msgspec.field(default_factory=list)
    refused: list[tuple[str, str]] = msgspec.field(default_factory=list)
    """(worker, reason) pairs of results that are computed locally, because the summary was refused or the cluster
    failed.
    """
    fraction: float = 0.0


class _PartRequest(msgspec.Struct, frozen=True):
    """A request for the result of one profile. ``capture`` selects the captures of its CUDA graphs."""

    entry: Entry
    analysis: Analysis[Any]
    params: Params
    capture: str


class PartScheduler:
    """Collects the results of several profiles.

    Loading stops if the request is not repeated.
    """

    def __init__(
        self,
        loader: Loader,
        captures: Captures,
        workers: Workers,
        store: FileStore,
        cluster: ClusterParts | None = None,
    ) -> None:
        self._loader = loader
        self._captures = captures
        self._workers = workers
        self._store = store
        self.summaries = Summaries(store)
        self._cluster = cluster
        self._jobs: dict[str, Job[str]] = {}
        self._asked: dict[str, float] = {}
        """For each pending result, the time of the last request in monotonic seconds."""
        self._lock = threading.Lock()

    def gather(
        self,
        entries: Sequence[Entry],
        analysis: Analysis[Any],
        params: Params,
        wait: bool = False,
        capture: Callable[[Entry], str] = lambda entry: "",
    ) -> State:
        """Starts or continues computing the results, and returns their state.

        ``wait`` blocks until every profile is done or has failed. The returned state contains the errors of failed
        profiles. ``params.steps`` selects the steps of each profile. ``capture`` returns the capture text of a
        profile.
        """
        params = replace(params, table=None)
        formats = formats_of(analysis)
        while True:
            state = State()
            summaries = self.summaries.of(entries) if analysis.id == VIEW else {}
            for entry in entries:
                asked = _PartRequest(entry, analysis, params, capture(entry))
                if entry.files.reader.id not in formats:
                    try:
                        analysis_by_id(analysis.id, model_of(entry.files.reader))
                    except NotFoundError as error:
                        state.failed.append((entry.files.worker, error))
                    continue
                if entry in summaries and not asked.capture:
                    self._take(asked, summaries[entry], state, wait, len(entries) > 1)
                else:
                    self._advance(asked, state, wait, len(entries) > 1)
            if not state.waiting or not wait:
                return state
            for entry in state.waiting:
                try:
                    self._captures.waited(self._loader.wait(entry, lambda fraction: None), capture(entry))
                except TorchTraceError:
                    continue  # the next round reports the error

    def end_leases(self) -> None:
        """Cancels work that nobody requested for ABANDONED_READ_SECONDS."""
        self.summaries.end_leases()
        oldest = time.monotonic() - ABANDONED_READ_SECONDS
        with self._lock:
            late = [key for key, asked in self._asked.items() if asked < oldest]
            jobs = [self._jobs.pop(key) for key in late if self._asked.pop(key) and key in self._jobs]
        for job in jobs:
            self._workers.leave(job)

    def _take(self, asked: _PartRequest, summary: RankSummary | str, state: State, wait: bool, several: bool) -> None:
        entry = asked.entry
        if not isinstance(summary, str):
            state.ready.append((entry.files.worker, summary))
            state.fraction += 1.0
        elif entry.files.is_present:
            state.refused.append((entry.files.worker, f"its summary {summary}"))
            self._advance(asked, state, wait, several)
        else:
            from tb_plugin.service.profiles_without_trace import missing_trace_error

            state.failed.append((entry.files.worker, missing_trace_error(entry.files, summary)))

    def _advance(self, asked: _PartRequest, state: State, wait: bool, several: bool) -> None:
        entry = asked.entry
        try:
            if not entry.files.is_present:
                from tb_plugin.service.profiles_without_trace import missing_trace_error

                raise missing_trace_error(entry.files)
            path = self._computed(asked, state, wait, several)
        except UserError as error:
            state.failed.append((entry.files.worker, error))
            return
        if path is None:
            state.waiting.append(entry)
            state.fraction += entry.fraction
        else:
            state.ready.append((entry.files.worker, str(path)))
            state.fraction += 1.0

    def _computed(self, asked: _PartRequest, state: State, wait: bool, several: bool) -> Path | None:
        """Returns the result file, or None until it is ready.

        The cluster computes the result if there is a cluster. Raises UserError.
        """
        key = self._key(asked)
        path = self._store.get(key, _SUFFIX)
        is_whole = asked.analysis.id == VIEW and not (asked.entry.window or asked.capture or asked.entry.files.rank)
        if self._cluster is None or not is_whole or not several or wait:
            return path or self._compute(asked, wait)
        target = str(self._store.path(key, _SUFFIX))
        if path is None and asked.entry.state == "found":
            answer = self._cluster.ask(asked.entry.files, target)
            if not answer:
                return self._store.get(key, _SUFFIX)
            refused = answer
        else:
            refused = self._cluster.refused(target)
        if refused:
            state.refused.append((asked.entry.files.worker, refused))
        return path or self._compute(asked, wait)

    def _key(self, asked: _PartRequest) -> str:
        capture = self._captures.key(asked.entry, asked.capture)
        told = f"|told by {capture}" if capture else ""
        return (
            f"part|{self._loader.key(asked.entry)}{told}|{asked.analysis.id}|{asked.analysis.part_key(asked.params)!r}"
        )

    def _compute(self, asked: _PartRequest, wait: bool) -> Path | None:
        """Computes the result file locally. Returns None until the file is ready. Raises UserError."""
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
                from tb_plugin.service.answers.multi_questions import WritePart

                question = WritePart(opened.file, asked.analysis.id, asked.params, target)
                job = self._workers.submit(question, key=entry.path, about=entry.files.url)
                self._jobs[key] = job
            self._asked[key] = float("inf") if wait else time.monotonic()
        if not wait and not job.future.done():
            return None
        try:
            path = Path(job.future.result())
        except CacheFileLost as error:
            self._loader.lose(opened.lost(error))
            return None
        except CacheRefused as error:
            if not self._store.leave(error):
                raise
            return None
        finally:
            with self._lock:
                self._jobs.pop(key, None)
                self._asked.pop(key, None)
        self._store.count(path)
        return path


def progress(entry: Entry, count: int, fraction: float) -> Profile:
    """Returns the combined loading state of ``count`` profiles.

    ``fraction`` is the sum of the loaded fractions of these profiles.
    """
    return Profile(entry.files.run, "", entry.files.span, "loading", fraction / count, 0)
