"""Parts of ranks that a cluster computes in the background while somebody has the page open.

One thread of its own speaks to the scheduler: the threads that answer requests neither import Dask nor wait for it. What
the cluster hands back is taken apart like any rank summary, by a worker process; nothing is written but the cache.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from tb_plugin.errors import TorchTraceError, UserError
from tb_plugin.service.cluster import Cluster, Scheduler
from tb_plugin.service.found import Found
from tb_plugin.service.pool import Workers
from tb_plugin.service.rank_summary import Wanted
from tb_plugin.service.summaries import RankSummary
from tb_plugin.service.summarizing import Outcome, RankJob, job_of
from tb_plugin.service.together import TakePart
from tb_plugin.storage.cache import FileStore
from tb_plugin.storage.opening import Located

log = logging.getLogger("torch_trace")

LEASE_SECONDS = 15.0
"""A part that nobody asked about for so long is taken back from the cluster."""
_AWAY_SECONDS = 60.0
"""So long after it could not be reached, the cluster is not asked again."""
_IDLE_SECONDS = 30.0
_TICK_SECONDS = 0.3
_COPY = ".ttsummary"


@dataclass
class _Part:
    """One part that was asked for."""

    job: RankJob
    target: str
    asked: float
    sent: bool = False
    refused: str | None = None
    """Why the cluster does not compute it; empty once it is there; None meanwhile."""


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
        """By target."""
        self._thread: threading.Thread | None = None
        self._away: tuple[float, str] | None = None
        """Since when the cluster cannot be used, and why."""
        self._closed = threading.Event()

    def ask(self, found: Found, target: str) -> str | None:
        """Returns why the cluster does not compute a part, empty once it is written to ``target``, None until then."""
        now = time.monotonic()
        with self._lock:
            part = self._parts.get(target)
            if part is None or part.refused == "":
                part = self._parts[target] = _Part(job_of(found, None, None), target, now)
                if self._away is not None and now - self._away[0] < _AWAY_SECONDS:
                    part.refused = self._away[1]
            part.asked = now
            if part.refused is None and (self._thread is None or not self._thread.is_alive()):
                self._thread = threading.Thread(target=self._work, name="torch-trace-scheduler", daemon=True)
                self._thread.start()
            return part.refused

    def refused(self, target: str) -> str:
        """Returns why the cluster did not compute a part that was asked for; empty where it did, or was not asked."""
        with self._lock:
            part = self._parts.get(target)
            return (part.refused or "") if part is not None else ""

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
            if not isinstance(error, UserError):
                log.exception("The cluster at %s failed.", self._scheduler.address)
            self._give_up(f"{error.what}" if isinstance(error, UserError) else "The cluster failed; the log says how.")
        finally:
            if cluster is not None:
                cluster.close()

    def _round(self, cluster: Cluster) -> bool:
        """Sends what is new, takes back what nobody waits for, and takes in what is done. False when there is no work."""
        late = time.monotonic() - LEASE_SECONDS
        with self._lock:
            waiting = [part for part in self._parts.values() if part.refused is None]
            left = [part for part in waiting if part.asked < late]
            for part in left:
                self._parts.pop(part.target, None)
            new = [part for part in waiting if not part.sent and part.asked >= late]
            for part in new:
                part.sent = True
            by_target = {part.target: part for part in waiting}
        if left:
            cluster.cancel({part.target for part in left if part.sent})
        if new:
            cluster.submit({part.target: part.job for part in new})
        if not waiting:
            self._closed.wait(_TICK_SECONDS)
            return False
        for target, outcome in cluster.done(_TICK_SECONDS):
            if (done := by_target.get(target)) is not None:
                done.refused = self._taken(done, outcome)
        return True

    def _taken(self, part: _Part, outcome: Outcome) -> str:
        """Has a worker take the part out of what the cluster handed back; returns why that failed."""
        if outcome.kind == "failed":
            return f"the cluster: {outcome.reason}"
        copy = self._store.put(f"cluster|{part.target}", _COPY, lambda path: path.write_bytes(outcome.body))
        try:
            summary = RankSummary(Located(str(copy)), Wanted.of(part.job.files, part.job.settings))
            asked = TakePart(summary, part.target)
            refused = self._workers.submit(asked, key=part.target, about=outcome.name).future.result()
        except TorchTraceError as error:
            return f"the cluster: {error}"
        finally:
            self._store.remove(copy)
        return f"what the cluster computed {refused}" if refused else ""

    def _give_up(self, why: str) -> None:
        log.warning("%s: %s Parts of ranks are computed here.", self._scheduler.address, why)
        with self._lock:
            self._away = (time.monotonic(), why)
            for part in self._parts.values():
                if part.refused is None:
                    part.refused = why
