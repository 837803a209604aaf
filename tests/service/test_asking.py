"""Questions end: shared while they are equal, dropped when nobody waits, limited in time, and short ones get through."""

from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from werkzeug.serving import make_server

from tb_plugin.analysis.base import Params
from tb_plugin.errors import Cancelled, TookTooLong
from tb_plugin.service.answers.questions import AskView
from tb_plugin.service.catalog import Place
from tb_plugin.service.workers import desk as desks
from tb_plugin.service.workers import pool as limits
from tb_plugin.service.workers.desk import Desk, waiting_for
from tb_plugin.service.workers.pool import Pool
from tb_plugin.service.workers.question import Job
from tb_plugin.service.workspace import Workspace
from tb_plugin.storage.cache import FileStore
from tb_plugin.web.routes import BASE, Routes, _has_gone
from tests.service.fakes import Echo, Pid, Slow, catalog_of, until, workspace_of, write_trace


class Held:
    """Workers that answer when they are told to."""

    budget = 10**9

    def __init__(self):
        self.jobs, self.left = [], []

    def submit(self, question, **more):
        self.jobs.append(Job(question, **more))
        return self.jobs[-1]

    def leave(self, job):
        self.left.append(job)
        job.stopped = Cancelled("left")
        job.future.set_exception(job.stopped)

    def wanted(self, job):
        return job.stopped is None


def job(queued_at=0.0, running_since=None, **more):
    made = Job(Echo(1), label="/logs/x.json", **more)
    made.queued_at, made.running_since = queued_at, running_since
    return made


def test_equal_questions_are_asked_once():
    workers = Held()
    desk = Desk(workers)
    with ThreadPoolExecutor(4) as threads:
        answers = [threads.submit(desk.ask, Echo(value), key="k", label="x") for value in (1, 1, 1, 2)]
        assert until(lambda: sum(flight.waiting for flight in desk._flights.values()) == 4)
        for each in workers.jobs:
            each.future.set_result(each.question.value * 10)
        assert [answer.result(5) for answer in answers] == [10, 10, 10, 20]
    assert len(workers.jobs) == 2 and desk._flights == {}


def test_the_last_who_leaves_lets_go_and_whoever_comes_then_asks_anew(monkeypatch):
    monkeypatch.setattr(desks, "LOOK_SECONDS", 0.01)
    workers, here = Held(), threading.Event()
    desk = Desk(workers)

    def asked(gone):
        with waiting_for(gone):
            return desk.ask(Echo(1), key="k", label="x")

    with ThreadPoolExecutor(3) as threads:
        patient = threads.submit(asked, here.is_set)
        gone = threads.submit(asked, lambda: True)
        with pytest.raises(Cancelled):
            gone.result(5)
        assert (len(workers.jobs), workers.left) == (1, []), "somebody waits still"
        here.set()
        with pytest.raises(Cancelled):
            patient.result(5)
        assert workers.left == workers.jobs
        third = threads.submit(asked, lambda: False)
        assert until(lambda: len(workers.jobs) == 2)
        workers.jobs[1].future.set_result(7)
        assert third.result(5) == 7


def test_an_answer_has_a_limit_and_a_read_has_none():
    assert limits.timeout_error(job(0, running_since=100), 219, 120) is None
    late = limits.timeout_error(job(0, running_since=100), 221, 120)
    assert isinstance(late, TookTooLong)
    assert (late.what, late.where) == ("The computation took longer than 120 s and was stopped.", "/logs/x.json")
    assert "TORCH_TRACE_ANSWER_SECONDS" in late.do
    waited = limits.timeout_error(job(0), 121, 120)
    assert waited is not None and waited.what == "All workers were busy for 120 s."
    assert limits.timeout_error(job(0), 119, 120) is None
    assert limits.timeout_error(job(0, running_since=100, heavy=True), 10**6, 120) is None
    assert limits.timeout_error(job(0, running_since=100), 10**6, None) is None


def test_who_gives_way():
    first, second, read = job(0, running_since=1), job(0, running_since=2), job(0, running_since=0, heavy=True)
    new, old = job(9.0), job(6.0)
    assert limits.giving_way([old], [second, first, read], 10) is first
    assert limits.giving_way([new], [first, second], 10) is None, "it has not waited"
    assert limits.giving_way([], [first, second], 10) is None
    assert limits.giving_way([old], [job(0, running_since=9)], 10) is None, "it may be done at any moment"
    first.long = True
    assert limits.giving_way([old], [first, second], 10) is second
    assert limits.giving_way([first], [second], 10) is None, "what gave way once waits for its turn"


@pytest.mark.parametrize(("text", "seconds"), [("", 120), ("7.5", 7.5), ("0", None), ("soon", 120), ("-1", 120)])
def test_the_limit_comes_from_the_environment(monkeypatch, text, seconds):
    monkeypatch.setenv(limits.ANSWER_VARIABLE, text)
    assert limits.answer_seconds() == seconds


@pytest.fixture
def pools(monkeypatch):
    monkeypatch.setattr(limits, "TICK_SECONDS", 0.02)
    made = []

    def make(*args, **more):
        made.append(Pool(*args, **more))
        return made[-1]

    yield make
    for pool in made:
        pool.close()


def test_a_question_beyond_its_limit_ends_and_the_pool_lives_on(pools):
    pool = pools(1)
    pool.submit(Pid()).future.result(30)  # what it imports is not timed here
    pool._limit_seconds = 0.2
    with pytest.raises(TookTooLong):
        pool.submit(Slow(60.0), label="x").future.result(10)
    pool._limit_seconds = 60.0
    assert pool.submit(Echo(1)).future.result(30) == 1


def test_short_questions_get_through_and_slow_ones_are_answered_in_the_end(pools, monkeypatch):
    monkeypatch.setattr(limits, "GIVE_WAY_SECONDS", 0.2)
    pool = pools(2)
    slow = [pool.submit(Slow(seconds), key="hostile") for seconds in (1.5, 1.6, 1.7)]
    assert until(lambda: sum(each.fraction > 0 for each in slow) == 2)
    assert pool.submit(Echo(1), key="other").future.result(20) == 1
    assert not all(each.future.done() for each in slow)
    assert [isinstance(each.future.result(30), int) for each in slow] == [True, True, True]


def test_what_nobody_waits_for_is_not_begun_or_ended(pools, monkeypatch):
    monkeypatch.setattr(limits, "ABANDONED_ANSWER_SECONDS", 0.05)
    pool = pools(1)
    running, waiting = pool.submit(Slow(60.0)), pool.submit(Echo(1))
    assert until(lambda: running.fraction > 0)
    pool.leave(waiting)
    assert isinstance(waiting.future.exception(1), Cancelled)
    pool.leave(running)
    assert pool.wanted(running), "somebody came back at once"
    time.sleep(0.1)
    assert not running.future.done()
    pool.leave(running)
    assert isinstance(running.future.exception(10), Cancelled)
    assert not pool.wanted(running)


def test_a_socket_tells_when_the_client_has_gone():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert not _has_gone(ours)
        theirs.send(b"GET")
        assert not _has_gone(ours), "another request is no good-bye"
        assert ours.recv(3) == b"GET"
        theirs.close()
        assert _has_gone(ours)
    assert not _has_gone(None)


class SlowViews(Pool):
    """A pool in which every view takes a minute."""

    def submit(self, question, **more):
        return super().submit(Slow(60.0) if isinstance(question, AskView) else question, **more)


def test_a_browser_that_closes_its_connection_frees_the_worker(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "TICK_SECONDS", 0.02)
    monkeypatch.setattr(limits, "ABANDONED_ANSWER_SECONDS", 0.05)
    monkeypatch.setattr(desks, "LOOK_SECONDS", 0.02)
    write_trace(tmp_path / "logs" / "w.1.pt.trace.json")
    pool = SlowViews(1)
    workspace = Workspace(catalog_of(tmp_path / "logs"), pool, FileStore(tmp_path / "cache"))
    workspace.catalog.scan()
    workspace.load(Place())
    server = make_server("127.0.0.1", 0, Routes(lambda: workspace), threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with socket.create_connection(("127.0.0.1", server.server_port)) as client:
            client.sendall(f"GET {BASE}view/overview HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert until(lambda: any(seat.job is not None and seat.job.fraction > 0 for seat in pool._seats))
        assert until(lambda: all(seat.job is None for seat in pool._seats))
    finally:
        server.shutdown()
        server.server_close()
        workspace.close()


def test_several_profiles_give_up_parts_that_nobody_asks_about(tmp_path, monkeypatch):
    monkeypatch.setattr("tb_plugin.service.answers.part_scheduler.ABANDONED_READ_SECONDS", -1.0)
    write_trace(tmp_path / "logs" / "w.1.pt.trace.json")
    with workspace_of(tmp_path / "logs", tmp_path / "cache", Pool(1)) as workspace:
        workspace.catalog.scan()
        workspace.load(Place())
        held = Held()
        workspace._scheduler._workers = held
        workspace.view(Place(), "distributed", Params())
        assert len(held.jobs) == 1
        workspace.catalog.ticked()
        assert held.left == held.jobs and workspace._scheduler._jobs == {}
