"""Memory: what a file will need, what there is, and that the workers keep to it."""

from __future__ import annotations

import gzip
import time
from types import SimpleNamespace

import pytest

from tb_plugin.formats._chrome.memory_estimate import PER_TEXT_BYTE
from tb_plugin.formats.base import FileSize
from tb_plugin.service.catalog import Place
from tb_plugin.service.summaries.compute import RankJob
from tb_plugin.service.summaries.dask_cluster import _on_worker
from tb_plugin.service.workers import memory_budget
from tb_plugin.service.workers.memory_budget import PROCESS_BYTES, budget_bytes
from tb_plugin.service.workers.pool import Pool, default_size
from tb_plugin.storage.listing import StoredFile
from tests.depth import deep
from tests.service.fakes import Echo, Pid, Slow, need_of, until, workspace_of, write_trace


@pytest.fixture
def machine(monkeypatch):
    monkeypatch.setattr(memory_budget, "_machine_bytes", lambda: 8 * 1024**3)
    monkeypatch.delenv("TORCH_TRACE_MEMORY_MB", raising=False)
    monkeypatch.delenv("TORCH_TRACE_WORKERS", raising=False)
    return monkeypatch


@pytest.mark.parametrize("text, expected", [
    (None, 4 * 1024**3), ("", 4 * 1024**3), ("3000", 3_000_000_000), ("0.5", 500_000), ("-1", 1), ("much", 4 * 1024**3),
    ("nan", 4 * 1024**3), ("inf", 4 * 1024**3),
])  # fmt: skip
def test_the_budget(machine, text, expected):
    if text is not None:
        machine.setenv("TORCH_TRACE_MEMORY_MB", text)
    assert budget_bytes() == expected


def test_a_process_with_a_limit_may_take_a_share_of_it(machine):
    assert budget_bytes(1_000_000_000) == 900_000_000
    assert budget_bytes(0) == budget_bytes(None) == 4 * 1024**3
    machine.setenv("TORCH_TRACE_MEMORY_MB", "3000")
    assert budget_bytes(1_000_000_000) == 3_000_000_000


def test_a_worker_of_dask_keeps_to_its_own_limit(machine, tmp_path):
    """The machine has room for forty of them."""
    distributed = pytest.importorskip("distributed")
    path = write_trace(tmp_path / "rank0.1.pt.trace.json")
    job = RankJob("run/rank0/1", str(tmp_path), "kineto", (StoredFile(path.name, path.stat().st_size, ""),))
    outcomes = []
    for limit in (200_000_000, 100_000_000, None):
        worker = SimpleNamespace(memory_manager=SimpleNamespace(memory_limit=limit))
        machine.setattr(distributed, "get_worker", lambda worker=worker: worker)
        outcomes.append(_on_worker(job))
    assert [outcome.kind for outcome in outcomes] == ["written", "failed", "written"]
    assert "; 90 MB are allowed. " in outcomes[1].reason


def test_a_small_budget_means_few_workers(machine):
    machine.setattr("os.sched_getaffinity", lambda pid: set(range(64)), raising=False)
    assert default_size() == 4
    machine.setenv("TORCH_TRACE_MEMORY_MB", "2500")
    assert default_size() == 2
    machine.setenv("TORCH_TRACE_MEMORY_MB", "100")
    assert default_size() == 1


def test_the_need_follows_the_text(tmp_path):
    plain, packed = tmp_path / "a.json", tmp_path / "b.json.gz"
    text = b"".join(b'{"ts": %d}' % (i * i) for i in range(100_000))
    plain.write_bytes(text)
    packed.write_bytes(gzip.compress(text))
    expected = PROCESS_BYTES + int(PER_TEXT_BYTE * len(text))
    assert need_of(plain) == need_of(packed) == expected
    assert need_of(plain, packed) == PROCESS_BYTES + int(PER_TEXT_BYTE * 2 * len(text))


def test_a_trailer_that_cannot_be_right_is_not_believed(tmp_path):
    """Several members, more than 4 GiB of text, or a file that was cut."""
    path = tmp_path / "a.json.gz"
    whole = gzip.compress(bytes(range(256)) * 1000)
    for said in (b"\0\0\0\0", b"\xff\xff\xff\xff"):
        path.write_bytes(whole[:-4] + said)
        assert need_of(path) == PROCESS_BYTES + int(PER_TEXT_BYTE * 15 * len(whole))
    path.write_bytes(b"\x1f\x8b")
    assert need_of(path) == PROCESS_BYTES + int(PER_TEXT_BYTE * 2)
    assert need_of(tmp_path / "none") == PROCESS_BYTES


@pytest.mark.parametrize(
    ("stated", "believed"), [(201, True), (200, False), (19_999, True), (20_000, False), (None, False)]
)
def test_a_trailer_is_believed_within_ten_times_of_what_is_likely(stated, believed):
    """100 bytes that pack 20 times are likely 2,000: from 200 to 20,000 the archive may say what it holds."""
    assert FileSize(100, is_packed=True, declared_bytes=stated).text_bytes(20) == (stated if believed else 2000)


@pytest.fixture
def pool():
    pool = Pool(4, heavy=3, budget=1000)
    yield pool
    pool.close()


def test_parses_that_do_not_fit_together_wait(pool):
    large, other, small = (pool.submit(Slow(0.6), heavy=True, peak_memory_bytes=need) for need in (700, 400, 100))
    assert until(lambda: large.fraction > 0)
    time.sleep(0.2)
    assert (other.process, small.process) == (None, None), "nor does a small one overtake: the next would, too"
    assert pool.submit(Echo(1)).future.result(20) == 1, "answers do not wait"
    large.future.result(20)
    assert until(lambda: other.process is not None and small.process is not None)
    other.future.result(20), small.future.result(20)


@deep
def test_one_that_needs_more_than_everything_runs_alone(pool):
    running = pool.submit(Slow(0.3), heavy=True, peak_memory_bytes=1)
    huge, after = (pool.submit(Slow(0.3), heavy=True, peak_memory_bytes=need) for need in (5000, 1))
    assert until(lambda: huge.process is not None)
    assert running.future.done() and after.process is None
    huge.future.result(20)
    after.future.result(20)


@deep
def test_cancelling_what_others_wait_behind(pool):
    running = pool.submit(Slow(60.0), heavy=True, peak_memory_bytes=600)
    assert until(lambda: running.fraction > 0)
    huge, small = (pool.submit(Slow(0.1), heavy=True, peak_memory_bytes=need) for need in (5000, 100))
    time.sleep(0.1)
    assert small.process is None
    pool.cancel(huge)
    small.future.result(20)
    assert not running.future.done()


def test_a_worker_that_keeps_too_much_is_replaced():
    for budget_of_pool, same in ((10**12, True), (1_000_000, False)):
        pool = Pool(1, budget=budget_of_pool)
        try:
            pids = [pool.submit(Pid(), key="k").future.result(20) for _ in range(2)]
        finally:
            pool.close()
        assert (pids[0] == pids[1]) is same


def test_the_loader_says_what_a_parse_needs(tmp_path):
    path = write_trace(tmp_path / "logs" / "slow.1.pt.trace.json")
    pool = Pool(1)
    with workspace_of(tmp_path / "logs", tmp_path / "cache", pool) as workspace:
        workspace.catalog.scan()
        workspace.profile(Place())
        assert workspace.catalog.find(Place()).job.peak_memory_bytes == need_of(path) > PROCESS_BYTES
