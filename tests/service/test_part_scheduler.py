"""Answers about all workers of a run: progress, cached results, failures and HTTP."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from werkzeug.test import Client

from tb_plugin import cli
from tb_plugin.analysis.base import Params
from tb_plugin.errors import BadRequest, NotFoundError, UnreadableTrace
from tb_plugin.registry import analysis_by_id
from tb_plugin.service import part_codec
from tb_plugin.service.catalog import Place
from tb_plugin.service.workers.pool import InlineWorkers
from tb_plugin.service.workspace import Workspace
from tb_plugin.storage.cache import FileStore
from tb_plugin.views.distributed import view as distributed
from tb_plugin.views.distributed.merge import join
from tb_plugin.views.distributed.view import Distributed
from tb_plugin.web.routes import BASE, Routes
from tests.conftest import SAMPLE_FILES, SAMPLES, sample
from tests.service.fakes import catalog_of, until, workspace_of, write_trace


@pytest.fixture
def logs(tmp_path):
    logs = tmp_path / "logs"
    shutil.copytree(SAMPLES / "synthetic_ddp", logs / "ddp")
    return logs


@pytest.fixture
def client(logs, tmp_path, workers):
    with workspace_of(logs, tmp_path / "cache", workers) as workspace:
        yield Client(Routes(lambda: workspace))


def workers(view):
    return [row["worker"] for row in view["payloads"]["workers"]["rows"]]


def findings(view):
    return {notice["rule"]: notice["text"] for notice in view["payloads"]["findings"]["notices"]}


def test_202_with_progress_then_the_view_whichever_worker_is_named(client):
    route = BASE + "view/distributed?run=ddp&span=1"
    first = client.get(route)
    assert first.status_code == 202
    body = first.get_json()
    assert (body["kind"], body["run"], body["state"]) == ("profile", "ddp", "loading")
    assert 0 <= body["fraction"] < 1
    assert until(lambda: client.get(route).status_code == 200, 60)
    view = client.get(route).get_json()
    assert workers(view) == ["rank0", "rank1", "rank2", "rank3"]
    assert client.get(route + "&worker=rank3").get_json() == view
    step = client.get(route + "&steps=1").get_json()
    assert step["coverage"]["steps"] == ["1"]
    assert client.get(route + "&steps=9").status_code == 400
    assert client.get(BASE + "view/distributed?run=ddp&span=7").status_code == 404
    table = client.get(BASE + "table/distributed/collectives?run=ddp&where=worker:rank1&sort=wait_ns").get_json()
    assert (table["matched_rows"], table["total_rows"]) == (12, 48)
    csv = client.get(BASE + "table/distributed/collectives?run=ddp&format=csv").data.decode()
    assert csv.startswith("Worker,Step,Collective,") and csv.count("\r\n") == 49
    assert client.get(BASE + "table/distributed/none?run=ddp").status_code == 404


def inline(logs, cache):
    workspace = Workspace(catalog_of(logs), InlineWorkers(), FileStore(cache))
    workspace.catalog.scan()
    return workspace


def test_a_worker_that_fails_is_named_and_left_out(logs, tmp_path):
    broken = next((logs / "ddp").glob("rank1*"))
    broken.unlink()
    (logs / "ddp" / "rank1.1.pt.trace.json").write_text("no trace")
    workspace = inline(logs, tmp_path / "cache")
    view = json.loads(workspace.view(Place("ddp", None, "1"), "distributed", Params()))
    assert workers(view) == ["rank0", "rank2", "rank3"]
    assert findings(view)["worker_failed"].startswith("Skipped because unreadable: {worker} (")
    (failed,) = (each for each in view["payloads"]["findings"]["notices"] if each["rule"] == "worker_failed")
    assert [(figure["metric"]["key"], figure["value"]) for figure in failed["figures"]] == [("worker", "rank1")]
    assert "Open {worker} to see" in failed["todo"]
    assert set(findings(view)) == {"straggler", "worker_failed", "bounds"}
    # Its file is there, so it is not without a trace; no other rank is missing.
    assert findings(view)["bounds"].startswith("{workers} of {world_size} ranks are loaded; not loaded: rank 1. ")
    assert "without a trace" not in findings(view)["bounds"]
    # From the failed one as from any other.
    assert workers(json.loads(workspace.view(Place("ddp", "rank1", "1"), "distributed", Params()))) == workers(view)


def verdict(answer):
    return [
        (notice["rule"], {figure["metric"]["key"]: figure["value"] for figure in notice["figures"]})
        for notice in json.loads(answer)["payloads"]["verdict"]["notices"]
    ]


def test_what_the_job_says_of_one_rank_is_told_where_it_is_known_and_nothing_is_read_for_it(logs, tmp_path):
    workspace = inline(logs, tmp_path / "cache")
    ask = Params(extra=(("of", "rank2"),))
    place = Place("ddp", None, "1")
    workspace.load(Place("ddp", "rank2", "1"))
    unknown = workspace.view(place, "distributed", ask, known=True)
    assert unknown.state == "found"
    states = {entry.files.worker: entry.state for entry in workspace.catalog.entries()}
    assert states == {"rank0": "found", "rank1": "found", "rank2": "ready", "rank3": "found"}
    view = json.loads(workspace.view(place, "distributed", Params()))
    headline = {figure["metric"]["key"]: figure["value"] for figure in view["payloads"]["headline"]["figures"]}
    slow = headline["worker"]
    told = {
        worker: verdict(workspace.view(place, "distributed", Params(extra=(("of", worker),)), known=True))
        for worker in workers(view)
    }
    ((rule, figures),) = told[slow]
    assert (rule, figures["lost_ns"], figures["lost_share"]) == (
        "job_costs",
        headline["lost_ns"],
        headline["lost_share"],
    )
    for worker in set(told) - {slow}:
        ((rule, figures),) = told[worker]
        assert (rule, figures["worker"]) == ("job_waits", slow) and figures["wait_ns"] > 0
    assert verdict(workspace.view(place, "distributed", Params(extra=(("of", "nobody"),)), known=True)) == []
    # Another service over the same cache knows it, too.
    again = inline(logs, tmp_path / "cache")
    assert verdict(again.view(place, "distributed", ask, known=True)) == told["rank2"]
    assert {entry.state for entry in again.catalog.entries()} == {"found"}
    # A file that is another one now is not spoken of.
    trace = next((logs / "ddp").glob("rank0*"))
    trace.write_bytes(trace.read_bytes() + b" ")
    workspace.catalog.scan()
    assert workspace.view(place, "distributed", ask, known=True).state == "found"
    assert workspace.catalog.find(Place("ddp", "rank0", "1")).state == "found"


def test_http_takes_known_for_yes_or_no(client):
    route = BASE + "view/distributed?run=ddp&span=1&of=rank2&known=1"
    answer = client.get(route)
    assert (answer.status_code, answer.get_json()["state"]) == (202, "found")
    assert client.get(route.replace("known=1", "known=2")).status_code == 400


def offered(workspace, worker):
    profile = workspace.profile(Place("ddp", worker, "1"))
    info = {view.id: view for view in (*profile.views, *profile.absent)}["distributed"]
    return info.available, info.why


def test_the_view_is_offered_wherever_any_worker_of_the_run_has_communication(logs, tmp_path):
    write_trace(logs / "ddp" / "a.1.pt.trace.json")
    workspace = inline(logs, tmp_path / "cache")
    entries = {entry.files.worker: entry for entry in workspace.catalog.entries()}
    assert offered(workspace, "a") == (True, "")  # nobody knows what the others have
    assert {entry.state for worker, entry in entries.items() if worker != "a"} == {"found"}  # nor reads them for that
    for rank in range(4):
        workspace.load(Place("ddp", f"rank{rank}", "1"))
    assert offered(workspace, "a") == offered(workspace, "rank0") == (True, "")
    assert not {view.id: view for view in workspace.offered(Place("ddp", "a", "1"))}["distributed"].available
    view = json.loads(workspace.view(Place("ddp", "a", "1"), "distributed", Params()))
    assert workers(view) == ["rank0", "rank1", "rank2", "rank3"] and findings(view)["no_rank"].endswith(": a.")


def test_a_run_without_communication_says_so_once_all_of_it_is_read(logs, tmp_path):
    shutil.rmtree(logs / "ddp")
    for worker in ("a", "b"):
        write_trace(logs / "ddp" / f"{worker}.1.pt.trace.json")
    workspace = inline(logs, tmp_path / "cache")
    assert offered(workspace, "a") == (True, "")
    view = json.loads(workspace.view(Place("ddp", "a", "1"), "distributed", Params()))
    assert "No worker of this run recorded communication" in findings(view)["no_communication"]
    for worker in ("a", "b"):
        assert offered(workspace, worker) == (False, "The trace contains no communication between processes.")


def test_when_all_fail_the_first_error_is_the_answer(tmp_path):
    for rank in (0, 1):
        path = tmp_path / "logs" / "ddp" / f"rank{rank}.1.pt.trace.json"
        write_trace(path).write_text("no trace")
    with pytest.raises(UnreadableTrace):
        inline(tmp_path / "logs", tmp_path / "cache").view(Place(), "distributed", Params())


def test_parts_are_kept_and_the_columns_are_not_needed_again(logs, tmp_path):
    first = inline(logs, tmp_path / "cache").view(Place("ddp"), "distributed", Params())
    for columns in (tmp_path / "cache").rglob("*.arrow"):
        columns.unlink()
    assert len(list((tmp_path / "cache").rglob("*.part"))) == 4
    again = inline(logs, tmp_path / "cache")
    assert again.view(Place("ddp"), "distributed", Params()) == first
    assert list((tmp_path / "cache").rglob("*.arrow")) == []


def test_pages_of_tables_and_other_steps_combine_no_parts_again(logs, tmp_path, monkeypatch):
    joins = []
    monkeypatch.setattr(
        distributed, "join", lambda parts, beside: joins.append(len(parts := list(parts))) or join(parts)
    )
    for offset in (0, 10):
        workspace = inline(logs, tmp_path / "cache")  # another process, as far as memory goes
        for steps in ("", "1"):
            workspace.view(Place("ddp"), "distributed", Params(table="collectives", offset=offset, limit=10), steps)
    assert joins == [4]
    next((logs / "ddp").glob("rank3*")).unlink()
    inline(logs, tmp_path / "cache").view(Place("ddp"), "distributed", Params())
    assert joins == [4, 3]


def test_a_lost_joined_part_is_made_again(logs, tmp_path):
    first = inline(logs, tmp_path / "cache").view(Place("ddp"), "distributed", Params())
    (kept,) = (tmp_path / "cache").rglob("*.joined")
    kept.write_bytes(kept.read_bytes()[:-1])
    assert inline(logs, tmp_path / "cache").view(Place("ddp"), "distributed", Params()) == first


def test_runs_and_spans_must_leave_no_choice(logs, tmp_path):
    shutil.copytree(SAMPLES / "resnet_cpu", logs / "resnet")
    workspace = inline(logs, tmp_path / "cache")
    with pytest.raises(BadRequest):
        workspace.view(Place("resnet"), "distributed", Params())
    with pytest.raises(NotFoundError):
        workspace.view(Place("none"), "distributed", Params())
    with pytest.raises(NotFoundError):
        workspace.group(Place("ddp"), "overview", Params())


def test_arrow_of_a_group(logs, tmp_path):
    data = inline(logs, tmp_path / "cache").arrow(Place("ddp"), "distributed", Params(table="workers"))
    assert pa.ipc.open_stream(data).read_all()["worker"].to_pylist() == ["rank0", "rank1", "rank2", "rank3"]


@pytest.mark.parametrize("name", [name for name in SAMPLE_FILES if "ddp" in name or "resnet" in name])
def test_a_part_survives_the_way_to_disk(name):
    part = Distributed().part(sample(name), Params())
    again = part_codec.load(part_codec.dump(part))
    assert (again.facts, again.steps, again.coverage) == (part.facts, part.steps, part.coverage)
    assert all(frame.data.equals(again.frames[key].data) for key, frame in part.frames.items())
    assert Distributed().answer([again], Params()) == Distributed().answer([part], Params())


def test_a_table_on_disk_has_its_query():
    part = analysis_by_id("overview").part(
        sample(next(name for name in SAMPLE_FILES if name.startswith("resnet_cpu"))), Params()
    )
    assert part.frames["steps"].sql
    assert part_codec.load(part_codec.dump(part)).frames["steps"].sql == part.frames["steps"].sql


@pytest.mark.usefixtures("commands_share_workers")
def test_groups_of_the_report(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(tmp_path / "cache"))
    assert cli.main(["report", str(SAMPLES / "synthetic_ddp"), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (group,) = document["groups"]
    assert (
        set(group) == {"run", "span", "facts", "workers", "tables", "findings", "data_notices"} and group["span"] == "1"
    )
    truth = json.loads(Path(SAMPLES / "truth" / "synthetic_ddp.json").read_text())["workers"]
    for worker, row in group["workers"].items():
        keys = ("compute_ns", "overlap_ns", "exposed_communication_ns", "wait_ns", "transfer_ns", "other_ns")
        assert tuple(row) == keys
        assert row["wait_ns"] == sum(one["wait_ns"] for one in truth[worker]["collectives"])
        assert row["transfer_ns"] == sum(one["transfer_ns"] for one in truth[worker]["collectives"])
    assert len(group["tables"]["collectives"]) == 48
    assert all("collectives" not in profile["tables"] for profile in document["profiles"])
    assert cli.main(["report", str(SAMPLES / "resnet_cpu"), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["groups"] == []


@pytest.mark.usefixtures("commands_share_workers")
def test_the_text_report_ends_with_the_groups(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(tmp_path / "cache"))
    assert cli.main(["report", str(SAMPLES / "synthetic_ddp"), "--view", "distributed"]) == 0
    text = capsys.readouterr().out
    assert text.count("synthetic_ddp / all workers / span 1") == 1
    assert "Other ranks wait for rank2, which costs 6.95 ms per step" in " ".join(text.split())
