"""A merged file is a run with a worker for each of its ranks."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tb_plugin import api, cli
from tb_plugin.analysis.base import Params
from tb_plugin.errors import BadRequest, NotFoundError, UserError
from tb_plugin.payloads import Catalog, View
from tb_plugin.service.catalog import Place
from tb_plugin.service.summaries.compute import in_this_process, job_of
from tb_plugin.service.workers.pool import InlineWorkers
from tb_plugin.service.workspace import Workspace
from tb_plugin.storage.cache import FileStore
from tests.model.test_merged import rank
from tests.model.test_merged_ranks import text_pids
from tests.service.fakes import catalog_of, write_trace

DDP = Path(__file__).parents[2] / "samples/synthetic_ddp"


def merged(path: Path, *, first: int = 0) -> Path:
    """Two ranks of 6 kernels; those of the first take 50 us, those of the second 80 us."""
    events = [*rank(f"[TP0{first}] 5", f"[TP0{first}] 0", "aten::A")]
    events += rank(f"[TP0{first + 1}] 6", f"[TP0{first + 1}] 0", "aten::B", dur=80)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


@contextmanager
def workspace_of(path: Path, cache: Path) -> Iterator[Workspace]:
    catalog = catalog_of(path)
    workspace = Workspace(catalog, InlineWorkers(), FileStore(cache))
    catalog.scan()
    yield workspace
    workspace.close()


def named(catalog: Catalog) -> list[tuple[str, str, str]]:
    return [(run.name, worker.name, span.id) for run in catalog.runs for worker in run.workers for span in worker.spans]


def busy(workspace: Workspace, place: Place) -> dict[str, Any]:
    facts = workspace.numbers(place, ["overview"]).facts
    return {name: value for name, value in facts.items() if name.endswith("busy_ns")}


def test_a_merged_file_becomes_a_run_with_its_ranks(tmp_path: Path) -> None:
    merged(tmp_path / "log/run/m.json")
    with workspace_of(tmp_path / "log", tmp_path / "cache") as workspace:
        assert named(workspace.runs()) == [("run", "m", "default")]
        workspace.load(Place("run", "m", "default"))
        assert named(workspace.runs()) == [("run", "rank0", "default"), ("run", "rank1", "default")]
        assert "2 ranks" in workspace.runs().runs[0].grouped_by
        assert busy(workspace, Place("run", "rank0")) == {"device.0.busy_ns": 300_000}
        assert busy(workspace, Place("run", "rank1")) == {"device.0.busy_ns": 480_000}
        # A link to the file still opens something: its first rank.
        profile = workspace.profile(Place("run", "m", "default"))
        assert (profile.worker, profile.state) == ("rank0", "ready")
        assert [entry.files.worker for entry in workspace.catalog.workers(Place("run", "m"))] == ["rank0", "rank1"]
        with pytest.raises(BadRequest, match="2 workers"):
            workspace.catalog.find(Place("run"))


def test_known_ranks_are_offered_before_anything_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = merged(tmp_path / "log/run/m.json")
    with workspace_of(tmp_path / "log", tmp_path / "cache") as workspace:
        workspace.load(Place())
    with monkeypatch.context() as patched:
        patched.setattr("tb_plugin.service.workers.parse.Parse.answer", None)  # all is in the cache
        with workspace_of(tmp_path / "log", tmp_path / "cache") as workspace:
            assert [worker for _, worker, _ in named(workspace.runs())] == ["rank0", "rank1"]
            assert busy(workspace, Place("run", "rank1")) == {"device.0.busy_ns": 480_000}
    # Another file in its place has other ranks.
    merged(path, first=4)
    with workspace_of(tmp_path / "log", tmp_path / "cache") as workspace:
        assert [worker for _, worker, _ in named(workspace.runs())] == ["m"]
        workspace.load(Place())
        assert [worker for _, worker, _ in named(workspace.runs())] == ["rank4", "rank5"]
        with pytest.raises(NotFoundError):
            workspace.catalog.find(Place("run", "rank0"))


def test_a_lost_column_file_is_made_again(tmp_path: Path) -> None:
    merged(tmp_path / "log/run/m.json")
    with workspace_of(tmp_path / "log", tmp_path / "cache") as workspace:
        workspace.load(Place())
        second = workspace.load(Place("run", "rank1"))
        for path in (tmp_path / "cache").glob("*"):
            path.unlink()
        assert busy(workspace, Place("run", "rank1")) == {"device.0.busy_ns": 480_000}
        assert Path(second.path).exists()


def test_a_changed_file_is_split_anew(tmp_path: Path) -> None:
    path = merged(tmp_path / "log/run/m.json")
    with workspace_of(tmp_path / "log", tmp_path / "cache") as workspace:
        workspace.load(Place())
        write_trace(path)
        workspace.catalog.scan()
        assert named(workspace.runs()) == [("run", "m", "default")]
        assert workspace.load(Place()).files.rank == ""


def test_ranks_of_one_file_stand_apart_from_the_files_beside_it(tmp_path: Path) -> None:
    """SGLang leaves the traces that it merged beside the merged one: a run with both would have each rank twice."""
    merged(tmp_path / "log/run/m.json")
    for worker in ("TP-0", "TP-1"):
        write_trace(tmp_path / f"log/run/{worker}.pt.trace.json")
    with workspace_of(tmp_path / "log", tmp_path / "cache") as workspace:
        workspace.load(Place("run", "m"))
        assert named(workspace.runs()) == [
            ("run", "TP-0", "default"),
            ("run", "TP-1", "default"),
            ("run/m", "rank0", "default"),
            ("run/m", "rank1", "default"),
        ]
        assert workspace.profile(Place("run", "m", "default")).run == "run/m"


def test_another_recording_of_the_worker_stays_it(tmp_path: Path) -> None:
    """A merged file and one of a single rank have the name of one worker, beside another one."""
    merged(tmp_path / "log/run/m.1700000000000.pt.trace.json")
    write_trace(tmp_path / "log/run/m.1700000100000.pt.trace.json")
    write_trace(tmp_path / "log/run/n.1700000100000.pt.trace.json")
    with workspace_of(tmp_path / "log", tmp_path / "cache") as workspace:
        first = workspace.load(Place("run", "m", "1"))
        assert first.key == ("run/m", "rank0", "1")
        assert workspace.load(Place("run", "m", "2")).key == ("run", "m", "2")
        assert workspace.load(Place("run", "m")).key == ("run", "m", "2")
        assert [entry.key for entry in workspace.catalog.workers(Place("run", "m", "1"))] == [
            ("run/m", "rank0", "1"),
            ("run/m", "rank1", "1"),
        ]


def test_spans_stay_spans(tmp_path: Path) -> None:
    for number in (1_700_000_000_000, 1_700_000_100_000):
        merged(tmp_path / f"log/run/m.{number}.pt.trace.json")
    with workspace_of(tmp_path / "log", tmp_path / "cache") as workspace:
        for span in ("1", "2"):
            workspace.load(Place("run", "m", span))
        assert named(workspace.runs()) == [("run", f"rank{n}", span) for n in (0, 1) for span in ("1", "2")]


def test_a_window_of_a_merged_file_is_one_worker(tmp_path: Path) -> None:
    """One step for each call of the two ranks."""
    path = merged(tmp_path / "log/run/m.json")
    file = json.loads(path.read_text())
    for pid in ("[TP00] 5", "[TP01] 6"):
        file["traceEvents"] += [
            {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{i}", "pid": pid, "tid": 9, "ts": 1000 * i,
             "dur": 900, "args": {}} for i in range(6)
        ]  # fmt: skip
    path.write_text(json.dumps(file))
    with workspace_of(tmp_path / "log", tmp_path / "cache") as workspace:
        window = workspace.load(Place("run", "m", window="2-3"))
        assert window.files.rank == "" and window.summary is not None
        codes = {issue.code for issue in window.summary.read.issues}
        assert "merged_processes" in codes and named(workspace.runs()) == [("run", "m", "default")]
        workspace.load(Place())
        with pytest.raises(UserError, match="as a whole"):
            workspace.load(Place("run", "rank1", window="2-3"))


def test_distributed_of_a_merged_file_is_that_of_its_files(tmp_path: Path) -> None:
    files = [json.loads(gzip.decompress(path.read_bytes())) for path in sorted(DDP.glob("*.gz"))]
    (tmp_path / "log").mkdir()
    (tmp_path / "log/m.json").write_text(json.dumps(text_pids(files)))
    found, want = api.open(str(tmp_path / "log")), api.open(str(DDP))
    assert isinstance(found, api.Job) and isinstance(want, api.Job)
    assert found.workers == ["rank0", "rank1", "rank2", "rank3"]
    assert found.facts == want.facts
    assert [one.rule for one in found.findings] == [one.rule for one in want.findings]
    assert found.ranks.drop(columns="worker").equals(want.ranks.drop(columns="worker"))


def test_distributed_asked_before_the_file_is_read(tmp_path: Path) -> None:
    file = json.loads(merged(tmp_path / "log/run/m.json").read_text())
    for event in file["traceEvents"]:
        if event["cat"] == "kernel":
            event["name"] = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    (tmp_path / "log/run/m.json").write_text(json.dumps(file))
    with workspace_of(tmp_path / "log", tmp_path / "cache") as workspace:
        answer = workspace.group(Place("run"), "distributed", Params(limit=10))
        workers = msgspec.json.decode(answer, type=View).payloads["workers"]
        assert [row["worker"] for row in workers.rows] == ["rank0", "rank1"]  # type: ignore[union-attr]


def test_a_rank_summary_of_a_merged_file_is_refused(tmp_path: Path) -> None:
    merged(tmp_path / "log/run/m.json")
    with workspace_of(tmp_path / "log", tmp_path / "cache") as workspace:
        found = workspace.catalog.find(Place()).files
        (outcome,) = in_this_process([job_of(found, str(tmp_path / "out"), None)])
        assert "2 ranks" in outcome.reason


Json = Callable[..., dict[str, Any]]


@pytest.fixture
def run_json(capsys: pytest.CaptureFixture[str], commands_share_workers: None) -> Json:
    def run(*arguments: str) -> dict[str, Any]:
        assert cli.main([*arguments, "--format", "json"]) == 0
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        return document

    return run


@pytest.mark.parametrize("beside", [False, True])
def test_report_has_each_rank(tmp_path: Path, run_json: Json, beside: bool) -> None:
    path = merged(tmp_path / "log/m.json")
    if beside:
        write_trace(tmp_path / "log/other/a.pt.trace.json")
    target = str(tmp_path / "log") if beside else str(path)
    for _ in range(2):  # read, and from the cache
        profiles = run_json("report", target, "--view", "overview")["profiles"]
        busy_ns = {profile["worker"]: profile["facts"].get("device.0.busy_ns") for profile in profiles}
        assert busy_ns == {"rank0": 300_000, "rank1": 480_000} | ({"a": None} if beside else {})
    (profile,) = run_json("report", target, "--worker", "rank1", "--view", "overview")["profiles"]
    assert profile["facts"]["device.0.busy_ns"] == 480_000


def test_commands_ask_which_rank_is_meant(tmp_path: Path, run_json: Json, capsys: pytest.CaptureFixture[str]) -> None:
    base, exp = str(merged(tmp_path / "base/m.json")), str(merged(tmp_path / "exp/m.json"))
    assert cli.main(["diff", base, exp]) == 2
    assert "--base-worker: rank0, rank1" in capsys.readouterr().err
    found = run_json("diff", base, exp, "--base-worker", "rank0", "--worker", "rank1")
    assert found["facts"]["device.0.busy_ns"] == {"baseline": 300_000, "experiment": 480_000, "delta": 180_000}
    assert cli.main(["stacks", exp]) == 2
    assert cli.main(["doctor", exp]) == 0
    out = " ".join(capsys.readouterr().out.split())  # lines are wrapped
    assert "2 profiles found" in out and "the merged traces of 2 ranks" in out and "(rank0, rank1)" in out


def test_the_api_opens_a_rank(tmp_path: Path) -> None:
    path = str(merged(tmp_path / "m.json"))
    assert api.open(path, worker="rank1").facts["device.0.busy_ns"] == 480_000
    with pytest.raises(UserError):
        api.open(path, worker="rank2")
