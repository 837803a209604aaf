"""Parts that a cluster computes in the background: which jobs it has, which are taken back, and when it is asked again."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import pytest

from tb_plugin.errors import NotFoundError, StorageError
from tb_plugin.service.answers import background_parts
from tb_plugin.service.answers.background_parts import ABANDONED_READ_SECONDS, ClusterParts
from tb_plugin.service.summaries import dask_cluster as clusters
from tb_plugin.service.summaries.compute import Outcome, RankJob
from tb_plugin.service.summaries.dask_cluster import Cluster, Scheduler
from tb_plugin.service.workers.request import Job
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
        self.jobs, self.taken_back, self.ended, self.room, self.away = {}, [], [], 10, None

    def __call__(self, scheduler):
        if self.away:
            raise self.away
        return self

    def submit(self, jobs):
        self.jobs |= jobs
        self.room -= len(jobs)

    def cancel(self, keys):
        self.taken_back += [(key, self.jobs.pop(key)) for key in keys]

    def done(self, seconds, most):
        ended, self.ended = self.ended[:most], self.ended[most:]
        return [(key, outcome) for key, outcome in ended if self.jobs.pop(key, None)]

    def close(self):
        pass


@pytest.fixture
def clock(monkeypatch):
    """Seconds that a test turns forward."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(background_parts, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(background_parts, "_TICK_SECONDS", 0.01)
    return clock


@pytest.fixture
def cluster():
    return FakeCluster()


class SlowWorkers:
    """Holds what it is asked; a test answers."""

    def __init__(self):
        self.asked = []

    def submit(self, question, **more):
        self.asked.append(Job(question))
        return self.asked[-1]


@pytest.fixture
def workers():
    return SlowWorkers()


@pytest.fixture
def parts(clock, cluster, workers, tmp_path, monkeypatch):
    monkeypatch.setattr(background_parts, "job_of", job_of)
    parts = ClusterParts(SCHEDULER, workers, FileStore(tmp_path / "cache"), cluster)
    yield parts
    parts.close()


def test_of_a_trace_that_is_written_again_the_old_job_alone_is_taken_back(parts, cluster, clock):
    parts.ask(1, "old")
    assert until(lambda: "old" in cluster.jobs)
    clock.now += 0.6 * ABANDONED_READ_SECONDS  # the scan finds the new one
    parts.ask(2, "new")
    assert until(lambda: "new" in cluster.jobs)
    clock.now += 0.6 * ABANDONED_READ_SECONDS
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


def test_several_parts_are_taken_at_a_time_and_forgotten_when_they_are_there(parts, cluster, workers, tmp_path):
    targets = [str(tmp_path / name) for name in "abcdef"]
    for target in targets:
        parts.ask(1, target)
    assert until(lambda: len(cluster.jobs) == 6)
    cluster.ended += [(target, Outcome("run/rank0/1", "written", body=b"a summary")) for target in targets]
    assert until(lambda: len(workers.asked) == 4)
    assert len(cluster.jobs) == 2, "the bodies of the others stay on the cluster"
    copies = [Path(job.question.summary.file.path) for job in workers.asked]
    assert all(copy.read_bytes() == b"a summary" for copy in copies)
    (tmp_path / "b").write_bytes(b"a part")
    workers.asked[1].future.set_result("")
    workers.asked[2].future.set_result("is damaged")
    workers.asked[3].future.set_exception(StorageError("The storage is away."))
    assert until(lambda: len(workers.asked) == 6)
    assert [copy.exists() for copy in copies] == [True, False, False, False]
    assert parts.ask(1, targets[0]) is None
    assert parts.ask(1, targets[1]) == "" == parts.refused(targets[1])
    assert parts.ask(1, targets[2]) == "the cluster's result is damaged"
    assert parts.ask(1, targets[3]) == "the cluster: The storage is away."
    (tmp_path / "b").unlink()  # the cache let go of it
    assert parts.ask(1, targets[1]) is None and until(lambda: targets[1] in cluster.jobs)


def test_the_cluster_gets_as_many_jobs_as_it_has_room_for(parts, cluster):
    cluster.room = 2
    for target in "abc":
        parts.ask(1, target)
    assert until(lambda: len(cluster.jobs) == 2) and cluster.room == 0
    cluster.room = 1
    assert until(lambda: len(cluster.jobs) == 3)


def test_a_cluster_that_was_away_is_asked_again_after_a_while(parts, cluster, clock):
    cluster.away = NotFoundError("Nobody is there.", "tcp://127.0.0.1:1")
    parts.ask(1, "a")
    assert until(lambda: parts.refused("a") == "Nobody is there.")
    cluster.away = None
    assert parts.ask(1, "a") == parts.ask(1, "b") == "Nobody is there."
    clock.now += 61
    assert parts.refused("a") == "Nobody is there.", "it was computed here for that"
    assert parts.ask(1, "a") is None and parts.refused("a") == ""
    assert until(lambda: "a" in cluster.jobs)


def test_refusals_that_are_remembered_are_bounded(parts, cluster, monkeypatch):
    monkeypatch.setattr(background_parts, "_REFUSALS", 2)
    for target in "abc":
        parts.ask(1, target)
        assert until(lambda target=target: target in cluster.jobs)
        cluster.ended.append((target, Outcome("run/rank0/1", "failed", reason="It fell over.")))
        assert until(lambda target=target: parts.refused(target))
    assert [bool(parts.refused(target)) for target in "abc"] == [False, True, True]


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
    assert client.taken_back == [old] and (cluster.running, cluster.room) == (1, 1023)
    for future in (old, new):
        future.set_result(Outcome("run/rank0/1", "written"))
    assert cluster.done(1.0) == [("new", Outcome("run/rank0/1", "written"))]
    cluster.close()
