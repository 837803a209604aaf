"""The Python API on samples, and its doctests."""

from __future__ import annotations

import doctest
import shutil
import subprocess
import sys

import pytest

import tb_plugin
from tb_plugin import api
from tb_plugin.errors import BadRequest, NotFoundError
from tests.samples import SAMPLES
from tests.service.fakes import write_trace


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(tmp_path / "cache"))


def test_doctests():
    result = doctest.testmod(api, optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    assert result.attempted > 5 and result.failed == 0


def test_tables(tmp_path):
    write_trace(tmp_path / "w.1.pt.trace.json", "aten::mm", "aten::add")
    profile = tb_plugin.open(tmp_path)
    operators = profile.operators()
    assert set(operators["name"]) == {"aten::mm", "aten::add"}
    assert operators["host_self_ns"].tolist() == [10_000, 10_000]
    assert len(profile.operators(by_shape=True)) == 2
    assert profile.kernels().empty
    assert profile.table("overview", "steps")["total_ns"].tolist() == [100_000, 100_000]
    assert profile.facts["trace.cpu_ops"] == 2
    assert profile.phases()["phase"].tolist() == ["ProfilerStep#*"]
    assert profile.phases(pattern=r"[^\s\S]")["phase"].tolist() == ["ProfilerStep#5", "ProfilerStep#6"]
    assert set(profile.table("operators", "operators", phase="ProfilerStep#6", pattern="x")["name"]) < {
        "aten::mm",
        "aten::add",
    }
    assert profile.read.complete
    with pytest.raises(NotFoundError):
        profile.table("operators", "nonsense")


def test_events(tmp_path):
    write_trace(tmp_path / "w.1.pt.trace.json", "aten::mm", "aten::add")
    events = tb_plugin.open(tmp_path / "w.1.pt.trace.json").events()
    ops = events[events.kind == "operator"]
    assert ops.name.tolist() == ["aten::mm", "aten::add"]
    assert ops.start_ns.tolist() == [10_000, 110_000] and ops.dur_ns.tolist() == [10_000, 10_000]


def test_what_cannot_be_opened(tmp_path):
    with pytest.raises(NotFoundError):
        tb_plugin.open(tmp_path / "none")
    for name in ("a", "b"):
        write_trace(tmp_path / f"{name}.1.pt.trace.json")
    assert tb_plugin.open(tmp_path, worker="b").worker == "b"
    write_trace(tmp_path / "b.2.pt.trace.json")
    with pytest.raises(BadRequest):
        tb_plugin.open(tmp_path)


def test_several_workers_are_a_job(tmp_path):
    for name in ("a", "b"):
        write_trace(tmp_path / f"{name}.1.pt.trace.json", "aten::mm")
    job = tb_plugin.open(tmp_path)
    assert (job.workers, job.span, len(job.ranks)) == (["a", "b"], "1", 2)
    assert job.worker("b").kernels().empty and job.worker("b").worker == "b"
    assert [each.rule for each in job.findings] == ["no_communication"] and repr(job).endswith("2 workers>")
    assert job.ranks.calls.tolist() == [0, 0]
    with pytest.raises(NotFoundError):
        job.worker("c")
    with pytest.raises(NotFoundError):
        job.table("nothing")


def test_dumps_of_flight_recorders_beside_the_traces_leave_them_a_job(tmp_path):
    for name in ("a", "b"):
        write_trace(tmp_path / f"{name}.1.pt.trace.json", "aten::mm")
    for dump in (SAMPLES / "flight_recorder_gloo").glob("trace_rank_*"):
        shutil.copy(dump, tmp_path)
    assert tb_plugin.open(tmp_path).workers == ["a", "b"]


def test_facts_come_without_pandas_and_a_table_says_what_it_needs(tmp_path):
    path = write_trace(tmp_path / "w.1.pt.trace.json", "aten::mm")
    script = (
        "from tb_plugin.service.workers.block_pandas import leave_out_pandas\n"
        "leave_out_pandas()  # as if it was not installed\n"
        "import tb_plugin\n"
        f"profile = tb_plugin.open({str(path)!r})\n"
        "assert profile.facts['trace.cpu_ops'] == 1 and profile.read.complete\n"
        "for ask in (profile.operators, profile.kernels, profile.modules, profile.events):\n"
        "    try:\n"
        "        ask()\n"
        "    except tb_plugin.errors.MissingPackage as error:\n"
        "        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["A DataFrame needs pandas. pip install 'torch-trace-tb[pandas]'"] * 4


def test_unknown_attribute():
    with pytest.raises(AttributeError):
        _ = tb_plugin.nonsense
    assert "tb_plugin.api" in sys.modules
