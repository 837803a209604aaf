"""A bug in one view, rule, card or notice costs that part alone: everything else is there, and the part says so."""

from __future__ import annotations

import json
import logging
import pickle
import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tb_plugin import api, cli, registry
from tb_plugin.analysis.base import Params
from tb_plugin.analysis.failure_notices import FAILED
from tb_plugin.errors import BadRequest, PartFailed
from tb_plugin.lib.isolation import isolated
from tb_plugin.rules import _ordered_findings, regular_rules
from tb_plugin.service.answers.questions import SQL_VIEW
from tb_plugin.service.catalog import Place
from tb_plugin.service.workers.pool import InlineWorkers, Pool
from tb_plugin.service.workspace import Workspace, open_catalog
from tb_plugin.storage.cache import open_store
from tb_plugin.views.overview import data_quality
from tests.builders import kernel, trace
from tests.depth import sampled
from tests.service.fakes import Broken

ROOT = Path(__file__).parents[2]
VIEWS = [
    analysis for analysis in registry.analyses() if analysis.scope == "profile" and analysis.traits.place != "detail"
]


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two steps of which the GPU idles half: an operator launches one kernel in each."""
    made = trace().device(0)
    for step, at in ((1, 0), (2, 1000)):
        made.step(step, at=at, dur=1000).op("aten::mm", at=at, dur=300, shapes=[[8, 8], [8, 8]])
        made.launches(kernel("sgemm", dur=500), at=at + 10, dur=5)
        made.op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at=at + 600, dur=390)
    path = tmp_path / "run" / "worker0.1.pt.trace.json"
    path.parent.mkdir()
    path.write_bytes(made.bytes())
    return path


def boom(*arguments: Any, **named: Any) -> Any:
    raise KeyError("planted")


def plant(monkeypatch: pytest.MonkeyPatch, analysis: Any, method: str) -> None:
    """The method of a view fails."""
    monkeypatch.setattr(analysis if method == "missing" else analysis.view, method, boom)


def workspace_of(path: Path) -> tuple[Workspace, Place]:
    catalog = open_catalog([("", str(path))])
    catalog.scan()
    entry = catalog.entries()[0]
    return Workspace(catalog, InlineWorkers(), open_store()), Place(*entry.key)


def error_of(text: str) -> str:
    found = re.search(r"\(error ([0-9a-f]{6})\)", text)
    assert found, text
    return found.group(1)


def assert_logged(log: pytest.LogCaptureFixture, error_id: str) -> None:
    (record, *_) = [each for each in log.records if error_id in each.getMessage()]
    assert record.exc_info is not None and "planted" in str(record.exc_info[1])


def numbers(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert cli.main(["report", str(path), "--format", "json"]) == 0
    (profile,) = json.loads(capsys.readouterr().out)["profiles"]
    return profile


SOME_VIEWS = [view for view in VIEWS if view.id in ("overview", "findings", "operators", "kernels", "timeline", "idle")]


@pytest.mark.parametrize("view", sampled(VIEWS, SOME_VIEWS), ids=lambda view: view.id)
def test_a_view_that_fails_leaves_the_others(view, file, monkeypatch, capsys, caplog):
    workspace, place = workspace_of(file)
    there = [each.id for each in workspace.offered(place) if each.available]
    if view.id not in there:
        pytest.skip("the trace does not have it")
    good = numbers(file, capsys)
    own = workspace.numbers(place, [view.id])
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(file.parent.parent / "other"))
    plant(monkeypatch, view, "part")

    bad = numbers(file, capsys)

    if view.traits.place == "page":
        told = [each for each in bad["data_notices"] if each["rule"] == FAILED]
        assert [view.title in each["text"] for each in told] == [True]
        assert_logged(caplog, error_of(told[0]["text"]))
    others = {name for each in VIEWS if each is not view and each.id in there for name in each.traits.tables}
    assert {name: bad["tables"][name] for name in others} == {name: good["tables"][name] for name in others}
    assert bad["facts"].items() <= good["facts"].items()
    if view.traits.place == "page":
        assert good["facts"].keys() - bad["facts"].keys() <= own.facts.keys()
    if view.id not in ("findings", "overview"):
        assert bad["findings"] == good["findings"]

    workspace, place = workspace_of(file)
    assert [each.id for each in workspace.offered(place) if each.available] == there
    for each in VIEWS:
        if each.id == view.id:
            with pytest.raises(PartFailed, match=r"this part failed \(error"):
                workspace.view(place, each.id, Params())
        elif each.id in there and each.traits.place == "page":
            assert each.id == json.loads(workspace.view(place, each.id, Params()))["id"]
    capsys.readouterr()
    assert cli.main(["report", str(file)]) == 0
    text = capsys.readouterr().out
    assert ("failed (error" in text) == (view.traits.place == "page")
    assert cli.main(["doctor", str(file)]) == 1
    assert f"{view.title}: this part failed (error" in capsys.readouterr().out
    profile = api.open(file)
    assert profile.facts == bad["facts"]


OTHERS = (
    "synthetic_memory",
    "execution_trace_cpu",
    "memory_flow_cpu",
    "memory_timeline_cpu",
    "export_stacks_cpu",
    "flight_recorder_gloo",
)


@pytest.mark.parametrize("name", OTHERS)
def test_a_view_of_another_model_that_fails_leaves_the_others(name, monkeypatch):
    path = ROOT / "samples" / name
    workspace, place = workspace_of(path)
    there = [each.id for each in workspace.offered(place) if each.available]
    views = [view for view in VIEWS if view.id in there]
    good = {view.id: workspace.view(place, view.id, Params(limit=3)) for view in views}
    assert views or there
    for broken in views:
        with monkeypatch.context() as planted:
            plant(planted, broken, "part")
            workspace, place = workspace_of(path)
            for view in views:
                if view is broken and view.id != SQL_VIEW and not view.traits.cached:  # the service answers queries
                    with pytest.raises(PartFailed, match=re.escape(view.title)):
                        workspace.view(place, view.id, Params(limit=3))
                else:
                    assert workspace.view(place, view.id, Params(limit=3)) == good[view.id]


def test_a_view_whose_answer_fails_leaves_the_others(file, monkeypatch, capsys):
    (kernels,) = [view for view in VIEWS if view.id == "kernels"]
    plant(monkeypatch, kernels, "answer")
    assert cli.main(["report", str(file)]) == 0
    out = capsys.readouterr().out
    assert "Kernels: this part failed (error" in out and "Operators" in out
    assert cli.main(["doctor", str(file)]) == 1


def test_a_view_that_cannot_tell_whether_it_applies_is_offered(file, monkeypatch, capsys):
    (kernels,) = [view for view in VIEWS if view.id == "kernels"]
    plant(monkeypatch, kernels, "missing")
    assert cli.main(["report", str(file)]) == 0
    assert "sgemm" in capsys.readouterr().out


@pytest.mark.parametrize("rule", sampled(regular_rules(), regular_rules()[::8]), ids=lambda rule: rule.id)
def test_a_rule_that_fails_leaves_the_others(rule, file, monkeypatch, caplog):
    workspace, place = workspace_of(file)
    good = workspace.numbers(place)
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(file.parent.parent / "other"))
    rules = tuple(replaced(each) if each.id == rule.id else each for each in regular_rules())
    monkeypatch.setattr(_ordered_findings, "regular_rules", lambda: rules)

    workspace, place = workspace_of(file)
    bad = workspace.numbers(place)

    (notice,) = {n.rule: n for payload in bad.notices for n in payload.notices if n.rule == FAILED}.values()
    values = {figure.metric.key: figure.value for figure in notice.figures}
    assert values["failed_parts"] == rule.title
    assert_logged(caplog, values["error_id"])
    assert bad.tables.keys() == good.tables.keys()
    gone = good.facts.keys() - bad.facts.keys()
    assert gone <= {f"findings.{rule.id}.saving_low_ns", f"findings.{rule.id}.saving_high_ns"}
    rules = {n.rule for payload in good.notices for n in payload.notices if n.rule != rule.id}
    # A finding that the failed rule would have explained may be there in addition.
    assert {
        n.rule
        for p in bad.notices
        for n in p.notices
        if n.rule not in (FAILED, rule.id, "low_utilization", "idle_device")
    } == (rules - {"low_utilization", "idle_device"})
    view = json.loads(workspace.view(place, "findings", Params()))
    assert view["payloads"]["failed"]["notices"][0]["figures"][0]["value"] == rule.title


def replaced(rule: Any) -> Any:
    return replace(rule, look=boom)


CARDS = {
    "_headline": "headline",
    "cost_notices": "largest_costs",
    "_steps_series": "steps",
    "_average": "average_step",
    "findings_of": "findings",
    "device_cards._partition": "device_time_0",
    "device_cards._idle": "device_idle_0",
    "device_cards._classes": "device_classes_0",
    "device_cards._card": "device_0",
    "trace_health": "trace_health",
    "configuration": "configuration",
    "_facts": "",
    "idle_facts": "",
    "steps_of_devices": "",
    "outside_steps": "outside_steps",
    "device_cards.cores_breakdown": "",
    "unknown_notices": "",
}


@pytest.mark.parametrize("function", sampled([*CARDS], [*CARDS][::3]))
def test_a_card_that_fails_leaves_the_others(function, file, monkeypatch):
    workspace, place = workspace_of(file)
    good = json.loads(workspace.view(place, "overview", Params()))["payloads"]
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(file.parent.parent / "other"))
    module, _, name = f"view.{function}".rpartition(".")
    monkeypatch.setattr(f"tb_plugin.views.overview.{module.removeprefix('view.')}.{name}", boom)
    workspace, place = workspace_of(file)
    bad = json.loads(workspace.view(place, "overview", Params()))["payloads"]
    failed = bad.pop("failed")
    assert len(failed["notices"]) == 1
    good.pop(CARDS[function], None)
    if function == "findings_of":
        # The first sentence stays; figures that findings know are gone from it.
        assert bad.pop("largest_costs")["notices"] and good.pop("largest_costs")
    assert bad == good


@pytest.mark.parametrize("title", sampled([*data_quality.CHECKS], [*data_quality.CHECKS][::4]))
def test_a_notice_that_fails_leaves_the_others(title, file, monkeypatch):
    monkeypatch.setitem(data_quality.CHECKS, title, boom)
    workspace, place = workspace_of(file)
    payloads = json.loads(workspace.view(place, "overview", Params()))["payloads"]
    assert payloads["failed"]["notices"][0]["figures"][0]["value"] == f"Notices about {title}"
    assert {"headline", "findings", "data_quality"} <= payloads.keys()


def test_savings_that_fail_leave_the_findings(file, monkeypatch):
    workspace, place = workspace_of(file)
    good = json.loads(workspace.view(place, "findings", Params()))["payloads"]["findings"]["notices"]
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(file.parent.parent / "other"))
    monkeypatch.setattr(_ordered_findings, "time_saved", boom)
    workspace, place = workspace_of(file)
    bad = json.loads(workspace.view(place, "findings", Params()))["payloads"]["findings"]["notices"]
    assert "data_loading" in {notice["rule"] for notice in good} <= {notice["rule"] for notice in bad}
    assert {notice["saving"] for notice in bad} == {None}


def test_what_is_made_ahead_may_fail(file, monkeypatch, capsys):
    monkeypatch.setattr("tb_plugin.model_kinds.trace.TraceModel.open_companion", boom, raising=True)
    assert cli.main(["report", str(file), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["profiles"][0]["facts"]["overview.steps"] == 2


def test_numbers_with_a_failed_part_are_not_cached(file, monkeypatch):
    with monkeypatch.context() as planted:
        planted.setattr("tb_plugin.views.overview.view._average", boom)
        workspace, place = workspace_of(file)
        assert "failed" in json.loads(workspace.view(place, "overview", Params()))["payloads"]
        entry = workspace.load(place)
        assert entry.summary.data_notice_count >= 1
    workspace, place = workspace_of(file)
    assert "failed" not in json.loads(workspace.view(place, "overview", Params()))["payloads"]


@pytest.mark.parametrize("method", ["part", "answer", "join"])
def test_a_view_about_all_workers_that_fails_leaves_the_profiles(method, monkeypatch, capsys):
    from tb_plugin.cli import session

    monkeypatch.setattr(session, "workers_for", lambda profiles: InlineWorkers())
    (view,) = [each for each in registry.analyses() if each.id == "distributed"]
    plant(monkeypatch, view, method)
    folder = ROOT / "samples" / "ddp_gloo"
    assert cli.main(["report", str(folder), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["profiles"]) == 2
    assert all(profile["facts"]["overview.steps"] for profile in document["profiles"])
    assert any("Ranks: this part failed (error" in each["reason"] for each in document["failed"])
    assert cli.main(["doctor", str(folder)]) == 1
    assert "Ranks: this part failed (error" in capsys.readouterr().out


def test_errors_on_purpose_and_lack_of_memory_pass_through():
    for error in (BadRequest("no"), MemoryError(), BrokenPipeError(), KeyboardInterrupt()):

        def fail(error: BaseException = error) -> None:
            raise error

        with pytest.raises(type(error)):
            isolated("Part", fail, lambda failure: None)


def test_a_part_of_a_part_keeps_its_name_and_error(caplog):
    with pytest.raises(PartFailed, match="Inner") as inner:
        isolated("Inner", boom)
    with pytest.raises(PartFailed, match="Inner") as outer:
        isolated("Outer", lambda: isolated("Inner", boom))
    assert inner.value.error_id == outer.value.error_id
    assert len(caplog.records) == 2
    again = pickle.loads(pickle.dumps(outer.value))
    assert (again.part, again.error_id, str(again)) == ("Inner", outer.value.error_id, str(outer.value))


def test_what_a_worker_process_logs_reaches_our_log(caplog):
    caplog.set_level(logging.WARNING)
    pool = Pool(size=1)
    try:
        pool.submit(Broken()).future.result(60)
    finally:
        pool.close()
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "Part failed (error" in caplog.text and "ZeroDivisionError" in caplog.text


def exported(workspace: Workspace, place: Place, what: str) -> Any:
    if what == "stacks":
        return workspace.stacks(place, Params(), "folded")
    return workspace.window(place)


@pytest.mark.parametrize(("what", "function"), [("stacks", "write_stacks"), ("events", "write_window")])
def test_an_export_that_fails_leaves_the_views(what, function, file, monkeypatch, caplog):
    module = {"stacks": "stack_export", "events": "chrome_export"}[what]
    monkeypatch.setattr(f"tb_plugin.service.answers.{module}.{function}", boom)
    workspace, place = workspace_of(file)
    with pytest.raises(PartFailed, match=f"Export of {what}: this part failed") as failed:
        exported(workspace, place, what)
    assert_logged(caplog, failed.value.error_id)
    assert json.loads(workspace.view(place, "kernels", Params()))["id"] == "kernels"
    monkeypatch.undo()
    assert exported(workspace, place, what)


BUILDING = {
    "Reading the file": "tb_plugin.formats.kineto.reader.KinetoReader.read",
    "Building the profile": "tb_plugin.model_kinds.trace.TraceModel.assemble",
    "Writing the columns": "tb_plugin.model_kinds.trace.TraceModel.write",
    "Summary of the profile": "tb_plugin.model_kinds.trace.TraceModel.outline",
}


@pytest.mark.parametrize("part", BUILDING)
def test_a_profile_that_cannot_be_built_leaves_the_others(part, file, monkeypatch, capsys, caplog):
    from tb_plugin.cli import session

    monkeypatch.setattr(session, "workers_for", lambda profiles: InlineWorkers())
    (file.parent / "worker1.1.pt.trace.json").write_bytes(file.read_bytes())
    owner, _, method = BUILDING[part].rpartition(".")
    kind = pkgutil.resolve_name(owner.rpartition(".")[0] + ":" + owner.rpartition(".")[2])
    right, calls = getattr(kind, method), []

    def planted(self: Any, *arguments: Any) -> Any:
        calls.append(self)
        return boom() if len(calls) == 1 else right(self, *arguments)

    monkeypatch.setattr(kind, method, planted)
    assert cli.main(["report", str(file.parent), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (profile,) = document["profiles"]
    assert profile["facts"]["overview.steps"] == 2
    (failure,) = [each for each in document["failed"] if part in each["reason"]]
    assert_logged(caplog, error_of(failure["reason"]))
    calls.clear()
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(file.parent.parent / "other"))
    assert cli.main(["doctor", str(file.parent)]) == 1
    assert f"{part}: this part failed (error" in capsys.readouterr().out


def test_views_that_cannot_tell_whether_they_lend_their_numbers_lend_them(tmp_path, monkeypatch, capsys):
    from tb_plugin.cli import session

    monkeypatch.setattr(session, "workers_for", lambda profiles: InlineWorkers())
    folder = str(ROOT / "samples" / "ddp_gloo")
    assert cli.main(["report", folder, "--format", "json"]) == 0
    good = json.loads(capsys.readouterr().out)
    lenders = {view_id for analysis in registry.analyses() for view_id in analysis.borrows}
    for analysis in registry.analyses():
        if analysis.id in lenders:
            plant(monkeypatch, analysis, "missing")
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(tmp_path / "other"))
    assert lenders and cli.main(["report", folder, "--format", "json"]) == 0
    bad = json.loads(capsys.readouterr().out)
    assert bad["groups"] and (bad["groups"], bad["failed"]) == (good["groups"], good["failed"])
