"""Parts that a cluster computes in the background: which jobs it has, which are taken back, and when it is asked again."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from tb_plugin.service import cluster as clusters
from tb_plugin.service import cluster_parts
from tb_plugin.service.cluster import Cluster, Scheduler
from tb_plugin.service.cluster_parts import LEASE_SECONDS, ClusterParts
from tb_plugin.service.pool import InlineWorkers
from tb_plugin.service.summarizing import Outcome, RankJob
from tb_plugin.storage.cache import FileStore
from tb_plugin.storage.listing import StoredFile
from tests.service.fakes import until

SCHEDULER = Scheduler("tcp://127.0.0.1:1")


def job_of(size, *args):
    """A version of one trace: they differ in size alone."""
    return RankJob("run/rank0/1", "/logs", "kineto", (StoredFile("rank0.json", size, str(size)),))


class FakeCluster:
    """Notes what it is asked; its jobs are done when a test says so."""

    def __init__(self):
        self.jobs, self.taken_back, self.ended = {}, [], []

    def __call__(self, scheduler):
        return self

    def submit(self, jobs):
        self.jobs |= jobs

    def cancel(self, keys):
        self.taken_back += [(key, self.jobs.pop(key)) for key in keys]

    def done(self, seconds):
        ended, self.ended = self.ended, []
        return [(key, outcome) for key, outcome in ended if self.jobs.pop(key, None)]

    def close(self):
        pass


@pytest.fixture
def clock(monkeypatch):
    """Seconds that a test turns forward."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(cluster_parts, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(cluster_parts, "_TICK_SECONDS", 0.01)
    return clock


@pytest.fixture
def cluster():
    return FakeCluster()


@pytest.fixture
def parts(clock, cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_parts, "job_of", job_of)
    parts = ClusterParts(SCHEDULER, InlineWorkers(), FileStore(tmp_path / "cache"), cluster)
    yield parts
    parts.close()


def test_of_a_trace_that_is_written_again_the_old_job_alone_is_taken_back(parts, cluster, clock):
    parts.ask(1, "old")
    assert until(lambda: "old" in cluster.jobs)
    clock.now += 0.6 * LEASE_SECONDS  # the scan finds the new one
    parts.ask(2, "new")
    assert until(lambda: "new" in cluster.jobs)
    clock.now += 0.6 * LEASE_SECONDS
    parts.ask(2, "new")
    assert until(lambda: cluster.taken_back)
    assert cluster.taken_back == [("old", job_of(1))] and cluster.jobs == {"new": job_of(2)}


def test_what_became_of_the_old_job_says_nothing_of_the_new_one(parts, cluster):
    parts.ask(1, "old")
    parts.ask(2, "new")
    assert until(lambda: len(cluster.jobs) == 2)
    cluster.ended.append(("old", Outcome("run/rank0/1", "failed", reason="It fell over.")))
    assert until(lambda: parts.refused("old") == "the cluster: It fell over.")
    assert parts.ask(2, "new") is None and "new" in cluster.jobs


def test_jobs_of_one_name_are_told_apart(monkeypatch):
    class OfDask(Future):
        def release(self):
            pass

    class Client:
        status = "running"
        sent, taken_back = [], []

        def run(self, function, *args, **more):
            return {"worker": "1"}

        def map(self, function, jobs, **more):
            self.sent += [OfDask() for _ in jobs]
            return self.sent[-len(jobs) :]

        def cancel(self, futures, force):
            self.taken_back += futures

        def close(self, timeout):
            pass

    client = Client()
    monkeypatch.setattr(clusters, "_connected", lambda scheduler: client)
    cluster = Cluster(SCHEDULER)
    cluster.submit({"old": job_of(1)})
    cluster.submit({"new": job_of(2)})
    old, new = client.sent
    cluster.cancel(["old"])
    assert client.taken_back == [old] and cluster.running == 1
    for future in (old, new):
        future.set_result(Outcome("run/rank0/1", "written"))
    assert cluster.done(1.0) == [("new", Outcome("run/rank0/1", "written"))]
    cluster.close()
