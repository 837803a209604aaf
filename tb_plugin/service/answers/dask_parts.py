"""Parts of ranks that a cluster computes in the background while somebody has the page open.

One thread of its own speaks to the scheduler: the threads that answer requests neither import Dask nor wait for it. What
the cluster hands back is taken apart like any rank summary, by a worker process; nothing is written but the cache.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import NamedTuple

from tb_plugin.errors import TorchTraceError, UserError
from tb_plugin.service.answers.multi_questions import TakePart
from tb_plugin.service.answers.summary_sources import RankSummary
from tb_plugin.service.profile_files import ProfileFiles
from tb_plugin.service.summaries.compute import Outcome, RankJob, job_of
from tb_plugin.service.summaries.dask_cluster import Cluster, Scheduler
from tb_plugin.service.summaries.format import Wanted
from tb_plugin.service.workers.pool import Workers
from tb_plugin.service.workers.request import Job
from tb_plugin.storage.cache import FileStore
from tb_plugin.storage.safe_open import Located

log = logging.getLogger("torch_trace")

LEASE_SECONDS = 15.0
"""A part that nobody asked about for so long is taken back from the cluster."""
_AWAY_SECONDS = 60.0
"""So long after it could not be reached, the cluster is not asked again."""
_IDLE_SECONDS = 30.0
_TICK_SECONDS = 0.3
_TAKEN_AT_A_TIME = 4
"""Parts that are taken out of what the cluster handed back: more would fill memory, and keep the page's questions waiting."""
_REFUSALS = 10_000
"""Refusals that are remembered, the last ones."""
_COPY = ".ttsummary"


@dataclass
class _Part:
    """One part that was asked for and is not there yet."""

    job: RankJob
    target: str
    asked: float
    sent: bool = False


class _Refusal(NamedTuple):
    """Why the cluster does not compute a part, and until when it is not asked again."""

    why: str
    until: float = inf


class _Taking(NamedTuple):
    """A part on its way out of what the cluster handed back."""

    part: _Part
    copy: Path
    job: Job[str]


class ClusterParts:
    """Has a cluster compute parts. Asking again renews the lease of one."""

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
        """Those under way, by target."""
        self._refused: dict[str, _Refusal] = {}
        """By target, the last in the end."""
        self._taking: list[_Taking] = []
        """The thread's own."""
        self._thread: threading.Thread | None = None
        self._away = _Refusal("", -inf)
        """Why the cluster cannot be used."""
        self._closed = threading.Event()

    def ask(self, found: ProfileFiles, target: str) -> str | None:
        """Returns why the cluster does not compute a part, empty once it is written to ``target``, None until then."""
        now = time.monotonic()
        with self._lock:
            refused = self._refused.get(target)
            if refused is not None and now < refused.until:
                return refused.why
            part = self._parts.get(target)
            if part is None:
                if Path(target).exists():  # since whoever asks looked for it
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
        """Returns why the cluster did not compute a part that was asked for; empty where it did, or was not asked."""
        with self._lock:
            refused = self._refused.get(target)
            return refused.why if refused is not None else ""

    def close(self) -> None:
        """Takes back what is under way."""
        self._closed.set()

    def _work(self) -> None:
        cluster: Cluster | None = None
        try:
            cluster = self._connect(self._scheduler)
            idle_since = time.monotonic()
            while not self._closed.is_set() and time.monotonic() - idle_since < _IDLE_SECONDS:
                if self._round(cluster):
                    idle_since = time.monotonic()
        except Exception as error:  # the edge of a thread: without the cluster everything is computed here
            if self._closed.is_set():  # the workers end, too
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
        """Sends what is new, takes back what nobody waits for, and takes in what is done. False when there is no work."""
        late = time.monotonic() - LEASE_SECONDS
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
        if room := _TAKEN_AT_A_TIME - len(self._taking):
            for target, outcome in cluster.done(0.0 if self._taking else _TICK_SECONDS, room):
                self._take(self._parts[target], outcome)
        self._take_in()
        return True

    def _take(self, part: _Part, outcome: Outcome) -> None:
        """Has a worker take the part out of what the cluster handed back."""
        if outcome.kind == "failed":
            self._end(part, f"the cluster: {outcome.reason}")
            return
        copy = self._store.put(f"cluster|{part.target}", _COPY, lambda path: path.write_bytes(outcome.body))
        summary = RankSummary(Located(str(copy)), Wanted.of(part.job.files, part.job.settings))
        job = self._workers.submit(TakePart(summary, part.target), key=part.target, about=outcome.name)
        self._taking.append(_Taking(part, copy, job))

    def _take_in(self) -> None:
        """Waits a moment for the first part to be taken, and ends all that are."""
        done, _ = wait([taking.job.future for taking in self._taking], _TICK_SECONDS, FIRST_COMPLETED)
        for taking in [each for each in self._taking if each.job.future in done]:
            self._taking.remove(taking)
            self._store.remove(taking.copy)
            try:
                refused = taking.job.future.result()
            except TorchTraceError as error:
                self._end(taking.part, f"the cluster: {error}")
            else:
                self._end(taking.part, f"the result of the cluster {refused}" if refused else "")

    def _end(self, part: _Part, refused: str) -> None:
        """Forgets a part that is there, or ``refused``, unless its lease ended before."""
        with self._lock:
            if self._parts.get(part.target) is part:
                del self._parts[part.target]
                if refused:
                    self._refuse(part.target, _Refusal(refused))

    def _give_up(self, why: str) -> None:
        log.warning("%s: %s Parts of ranks are computed here.", self._scheduler.address, why)
        with self._lock:
            self._away = _Refusal(why, time.monotonic() + _AWAY_SECONDS)
            for target in self._parts:
                self._refuse(target, self._away)
            self._parts.clear()

    def _refuse(self, target: str, refused: _Refusal) -> None:
        """Remembers a refusal; whoever refuses holds the lock."""
        self._refused.pop(target, None)
        self._refused[target] = refused
        if len(self._refused) > _REFUSALS:
            del self._refused[next(iter(self._refused))]
