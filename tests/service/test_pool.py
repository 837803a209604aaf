"""Worker processes: results, errors, deaths, cancelling, fairness."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tb_plugin.errors import Cancelled, UnreadableTrace, WorkerDied
from tb_plugin.service.workers.pool import InlineWorkers, Pool, WorkerBug, default_size
from tb_plugin.service.workers.question import Job, Ready
from tests.depth import deep
from tests.service.fakes import Arrays, Chatty, DieTimes, Echo, LastingPool, Noisy, Pid, Refuse, Slow, Stumble, until


@pytest.fixture(scope="module")
def lasting():
    pool = LastingPool(2)
    yield pool
    pool.end()


@pytest.fixture
def pool(lasting):
    """A pool that may be left with anything under way."""
    yield lasting
    lasting.close()


def test_result_comes_back(pool):
    assert pool.submit(Echo({"a": [1, 2]})).future.result(20) == {"a": [1, 2]}


def test_a_long_queue_is_not_looked_through_for_each_question(monkeypatch):
    looks, real = [], Pool._lacks_a_seat
    monkeypatch.setattr(Pool, "_work", lambda pool, seat: None)
    monkeypatch.setattr(Pool, "_lacks_a_seat", lambda pool: looks.append(len(pool._pending)) or real(pool))
    queued = Pool(2)
    for number in range(1_000):
        queued.submit(Echo(number))
    queued.close()
    assert looks == [1, 2]


def test_a_worker_makes_arrays_without_pandas(pool):
    assert pool.submit(Arrays()).future.result(60) == ([0, 1, 2], False)


def test_large_result_comes_back(pool):
    data = os.urandom(3_000_000)
    assert pool.submit(Echo(data)).future.result(20) == data


def test_what_a_task_prints_does_not_disturb_the_answer(pool):
    assert pool.submit(Noisy()).future.result(20) == "quiet"


def test_user_error_keeps_its_class_and_words(pool):
    with pytest.raises(UnreadableTrace) as caught:
        pool.submit(Refuse()).future.result(20)
    assert (caught.value.what, caught.value.where, caught.value.do) == (
        "The file is not a trace.",
        "x.json",
        "Record another.",
    )


def test_bug_is_logged_with_its_traceback(pool, caplog):
    with pytest.raises(WorkerBug, match="a bug"):
        pool.submit(Stumble()).future.result(20)
    assert "Traceback" in caplog.text and "Stumble" in caplog.text
    assert pool.submit(Echo(1)).future.result(20) == 1


def test_one_death_is_retried_and_reported(pool, tmp_path, caplog):
    assert pool.submit(DieTimes(str(tmp_path), 1), key="k").future.result(20) == "after 1"
    assert "SIGKILL" in caplog.text


@deep
def test_two_deaths_are_an_error_and_the_pool_lives_on(pool, tmp_path):
    with pytest.raises(WorkerDied, match=r"SIGKILL"):
        pool.submit(DieTimes(str(tmp_path), 9)).future.result(20)
    assert len(list(tmp_path.iterdir())) == 2
    assert pool.submit(Echo(1)).future.result(20) == 1


@deep
def test_killing_a_worker_from_outside_retries(pool):
    job = pool.submit(Slow(1.0))
    assert until(lambda: job.fraction > 0)
    first = job.process.pid
    os.kill(first, 9)
    assert job.future.result(20) != first


def test_progress_flows_back(pool):
    job = pool.submit(Slow(0.6))
    seen = set()
    while not job.future.done():
        seen.add(job.fraction)
        time.sleep(0.02)
    assert len(seen) > 2 and max(seen) <= 1


def test_reports_within_a_stage_are_few_and_no_stage_is_lost(pool, monkeypatch):
    seen, real = [], Job.report
    monkeypatch.setattr(Job, "report", lambda job, progress: (seen.append(progress), real(job, progress)))
    begun = time.monotonic()
    job = pool.submit(Chatty(100_000))
    before = job.progress
    job.future.result(20)
    took = time.monotonic() - begun
    assert (before.stage, before.fraction) == ("waiting", 0)
    first = [progress for progress in seen if progress.stage == "first"]
    assert 1 <= len(first) <= took / 0.1 + 1
    assert job.progress[:3] == ("second", 1.0, 100_000) and job.progress.since > before.since


def test_a_stage_keeps_the_time_when_it_began(pool):
    job = pool.submit(Slow(0.6))
    begun = set()
    while not job.future.done():
        if job.progress.stage == "sleeping":
            begun.add(job.progress.since)
        time.sleep(0.02)
    assert len(begun) == 1


@deep
def test_a_death_takes_the_progress_along(pool):
    job = pool.submit(Slow(1.0))
    assert until(lambda: job.fraction > 0.3)
    os.kill(job.process.pid, 9)
    assert until(lambda: job.fraction < 0.3)
    job.future.result(20)


def test_cancel_stops_a_running_task(pool):
    job = pool.submit(Slow(60.0))
    assert until(lambda: job.fraction > 0)
    pool.cancel(job)
    with pytest.raises(Cancelled):
        job.future.result(5)
    assert pool.submit(Echo(1)).future.result(20) == 1


def test_cancel_takes_a_waiting_task_off_the_queue():
    pool = Pool(1)
    try:
        running, waiting = pool.submit(Slow(60.0)), pool.submit(Echo(1))
        pool.cancel(waiting)
        with pytest.raises(Cancelled):
            waiting.future.result(1)
        assert not running.future.done()
    finally:
        pool.close()


def test_a_parse_leaves_a_worker_for_answers(pool):
    parses = [pool.submit(Slow(30.0), heavy=True) for _ in range(2)]
    assert pool.submit(Echo(1)).future.result(20) == 1
    assert not any(job.future.done() for job in parses)


class LooksLast(Pool):
    """A pool in which a worker that has a key at hand looks at the queue after the others."""

    def _next(self, seat):
        end = time.monotonic() + 0.2
        while any(seat.warm) and (left := end - time.monotonic()) > 0:
            self._changed.wait(left)
        return super()._next(seat)


@deep
def test_what_was_left_to_a_worker_that_then_takes_a_parse_goes_to_another():
    pool = LooksLast(2)
    try:
        for job in [pool.submit(Slow(0.1)) for _ in range(2)]:  # both run now, none with a key at hand
            job.future.result(20)
        pool.submit(Echo(1), key="mine").future.result(20)
        parse, answer = pool.submit(Slow(30.0), key="mine", heavy=True), pool.submit(Echo(2), key="mine")
        assert answer.future.result(10) == 2
        assert not parse.future.done()
    finally:
        pool.close()


def test_a_key_goes_back_to_its_worker(pool):
    slow = pool.submit(Slow(0.5), key="other")
    first = pool.submit(Pid(), key="mine").future.result(20)
    slow.future.result(20)
    assert {pool.submit(Pid(), key="mine").future.result(20) for _ in range(5)} == {first}


def test_a_worker_that_gets_ready_takes_the_first_question():
    pool = Pool(size=3)
    try:
        pool.submit(Ready())
        pool.submit(Ready()).future.result(60)
        assert len(pool._seats) == 1, "a second process would not be ready any sooner"
    finally:
        pool.close()


def test_close_ends_processes_and_jobs():
    pool = Pool(1)
    running, waiting = pool.submit(Slow(60.0)), pool.submit(Echo(1))
    assert until(lambda: running.fraction > 0)
    process = running.process
    pool.close()
    for job in (running, waiting):
        with pytest.raises(Cancelled):
            job.future.result(5)
    assert process.poll() is not None
    with pytest.raises(Cancelled):
        pool.submit(Echo(1))


def test_many_threads_use_one_pool(pool):
    results = []
    threads = [
        threading.Thread(target=lambda n=n: results.append(pool.submit(Echo(n)).future.result(20))) for n in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(results) == list(range(20))


@deep
def test_script_without_main_guard_and_busy_worker_at_exit(tmp_path):
    """The worker must neither run the script again nor outlive it."""
    script = tmp_path / "script.py"
    script.write_text(
        "print('once', flush=True)\n"
        "from tb_plugin.service.workers.pool import Pool\n"
        "from tests.service.fakes import Echo, Slow\n"
        "import time\n"
        "pool = Pool(2)\n"
        "print(pool.submit(Echo('done')).future.result(20))\n"
        "job = pool.submit(Slow(60.0))\n"
        "while not job.fraction: time.sleep(0.01)\n"
        "print(job.process.pid)\n"
    )
    env = os.environ | {"PYTHONPATH": str(Path.cwd())}
    output = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True, timeout=60).stdout
    once, done, pid = output.split()
    assert (once, done) == ("once", "done")
    assert until(lambda: not _alive(int(pid)), 5)


def _alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_inline_workers_run_at_once():
    workers = InlineWorkers()
    assert workers.submit(Echo(3)).future.result(0) == 3
    with pytest.raises(UnreadableTrace):
        workers.submit(Refuse()).future.result(0)


def test_size_from_the_environment(monkeypatch):
    monkeypatch.setenv("TORCH_TRACE_WORKERS", "7")
    assert default_size() == 7
    monkeypatch.setenv("TORCH_TRACE_WORKERS", "nonsense")
    assert 1 <= default_size() <= 4
