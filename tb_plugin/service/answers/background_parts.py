"""Results of single ranks, computed by a Dask cluster in the background.

Only a background thread talks to the Dask scheduler. Request threads neither import Dask nor wait for the
scheduler. Results from the cluster are validated in a local worker process, in the same way as rank summaries.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, wait
from math import inf
from pathlib import Path
from typing import NamedTuple

import msgspec

from tb_plugin.errors import TorchTraceError, UserError
from tb_plugin.service.answers.multi_questions import TakePart
from tb_plugin.service.answers.summary_sources import RankSummary
from tb_plugin.service.profile_files import ProfileFiles
from tb_plugin.service.summaries.compute import Outcome, RankJob, job_of
from tb_plugin.service.summaries.dask_cluster import Cluster, Scheduler
from tb_plugin.service.summaries.format import Wanted
from tb_plugin.service.workers.pool import Workers
from tb_plugin.service.workers.request import Job
from tb_plugin.service.workers.timeouts import ABANDONED_READ_SECONDS
from tb_plugin.storage.cache import FileStore
from tb_plugin.storage.safe_open import Located

log = logging.getLogger("torch_trace")

# Seconds to wait after the cluster was unreachable.
_AWAY_SECONDS = 60.0
_IDLE_SECONDS = 30.0
_TICK_SECONDS = 0.3
# Results validated at a time: more would fill memory and delay the page.
_MAX_EXTRACTIONS = 4
# Maximum number of remembered refusals.
_REFUSALS = 10_000
_COPY = ".ttsummary"


class _Part(msgspec.Struct):
    """A result that was requested and is not computed yet."""

    job: RankJob
    target: str
    asked: float
    sent: bool = False


class _Refusal(NamedTuple):
    """The reason why the cluster cannot compute a result, and the time of the next attempt in monotonic seconds."""

    why: str
    until: float = inf


class _Taking(NamedTuple):
    """A cluster result that a local worker process is validating."""

    part: _Part
    copy: Path
    job: Job[str]


class ClusterParts:
    """Computes the results of single ranks on a cluster.

    A job is cancelled if nobody requests its result for ABANDONED_READ_SECONDS.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        workers: Workers,
        store: FileStore,
        connect: Callable[[Scheduler], Cluster] = Cluster,
    ) -> None:
        self._scheduler = scheduler
        self._workers = workers
        self._store = store
        self._connect = connect
        self._lock = threading.Lock()
        self._parts: dict[str, _Part] = {}
        """Pending requests by target path."""
        self._refused: dict[str, _Refusal] = {}
        """Refusals by target path, oldest first."""
        self._taking: list[_Taking] = []
        self._thread: threading.Thread | None = None
        self._away = _Refusal("", -inf)
        """The reason why the cluster cannot be used at present, and the time of the next attempt."""
        self._closed = threading.Event()

    def ask(self, found: ProfileFiles, target: str) -> str | None:
        """Requests the result of one profile from the cluster.

        Returns None while the cluster computes the result, and "" when the file ``target`` is written. If the
        cluster cannot compute the result, returns the reason.
        """
        now = time.monotonic()
        with self._lock:
            refused = self._refused.get(target)
            if refused is not None and now < refused.until:
                return refused.why
            part = self._parts.get(target)
            if part is None:
                if Path(target).exists():  # written since the caller checked
                    return ""
                if now < self._away.until:
                    self._refuse(target, self._away)
                    return self._away.why
                self._refused.pop(target, None)
                part = self._parts[target] = _Part(job_of(found, None, None), target, now)
            part.asked = now
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, name="torch-trace-scheduler", daemon=True)
                self._thread.start()
            return None

    def refused(self, target: str) -> str:
        """Returns the reason why the cluster could not compute the result, or "" if there is none."""
        with self._lock:
            refused = self._refused.get(target)
            return refused.why if refused is not None else ""

    def close(self) -> None:
        self._closed.set()

    def _work(self) -> None:
        cluster: Cluster | None = None
        try:
            cluster = self._connect(self._scheduler)
            idle_since = time.monotonic()
            while not self._closed.is_set() and time.monotonic() - idle_since < _IDLE_SECONDS:
                if self._round(cluster):
                    idle_since = time.monotonic()
        except Exception as error:  # top level of a thread: without the cluster, results are computed locally
            if self._closed.is_set():  # the local workers are closing as well
                return
            if not isinstance(error, UserError):
                log.exception("The cluster at %s failed.", self._scheduler.address)
            self._give_up(
                f"{error.what}" if isinstance(error, UserError) else "The cluster failed; see the log for details."
            )
        finally:
            while self._taking:
                self._store.remove(self._taking.pop().copy)
            if cluster is not None:
                cluster.close()

    def _round(self, cluster: Cluster) -> bool:
        """Submits new jobs, cancels abandoned jobs and stores finished results.

        Returns False if there was nothing to do.
        """
        late = time.monotonic() - ABANDONED_READ_SECONDS
        with self._lock:
            left = [part for part in self._parts.values() if part.asked < late]
            for part in left:
                del self._parts[part.target]
            new = [part for part in self._parts.values() if not part.sent][: cluster.room]
            for part in new:
                part.sent = True
            is_idle = not self._parts and not self._taking
        if left:
            cluster.cancel({part.target for part in left})
        if new:
            cluster.submit({part.target: part.job for part in new})
        if is_idle:
            self._closed.wait(_TICK_SECONDS)
            return False
        if room := _MAX_EXTRACTIONS - len(self._taking):
            for target, outcome in cluster.done(0.0 if self._taking else _TICK_SECONDS, room):
                self._take(self._parts[target], outcome)
        self._take_in()
        return True

    def _take(self, part: _Part, outcome: Outcome) -> None:
        if outcome.kind == "failed":
            self._end(part, f"the cluster: {outcome.reason}")
            return
        copy = self._store.put(f"cluster|{part.target}", _COPY, lambda path: path.write_bytes(outcome.body))
        summary = RankSummary(Located(str(copy)), Wanted.of(part.job.files, part.job.settings))
        job = self._workers.submit(TakePart(summary, part.target), key=part.target, about=outcome.name)
        self._taking.append(_Taking(part, copy, job))

    def _take_in(self) -> None:
        done, _ = wait([taking.job.future for taking in self._taking], _TICK_SECONDS, FIRST_COMPLETED)
        for taking in [each for each in self._taking if each.job.future in done]:
            self._taking.remove(taking)
            self._store.remove(taking.copy)
            try:
                refused = taking.job.future.result()
            except TorchTraceError as error:
                self._end(taking.part, f"the cluster: {error}")
            else:
                self._end(taking.part, f"the cluster's result {refused}" if refused else "")

    def _end(self, part: _Part, refused: str) -> None:
        with self._lock:
            if self._parts.get(part.target) is part:
                del self._parts[part.target]
                if refused:
                    self._refuse(part.target, _Refusal(refused))

    def _give_up(self, why: str) -> None:
        log.warning("%s: %s The ranks are computed on this machine instead.", self._scheduler.address, why)
        with self._lock:
            self._away = _Refusal(why, time.monotonic() + _AWAY_SECONDS)
            for target in self._parts:
                self._refuse(target, self._away)
            self._parts.clear()

    def _refuse(self, target: str, refused: _Refusal) -> None:
        self._refused.pop(target, None)
        self._refused[target] = refused
        if len(self._refused) > _REFUSALS:
            del self._refused[next(iter(self._refused))]
