"""Answers about a baseline and an experiment: which profiles are meant, progress, steps, failures, kept parts."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from werkzeug.test import Client

from tb_plugin.analysis.base import Params
from tb_plugin.errors import BadRequest, NotFoundError, UnreadableTrace
from tb_plugin.service.catalog import Place
from tb_plugin.web.routes import BASE, Routes
from tests.service.fakes import until, workspace_of, write_trace

A, B = Place("a", "w", "1"), Place("b", "w", "1")


@pytest.fixture
def logs(tmp_path):
    logs = tmp_path / "logs"
    write_trace(logs / "a" / "w.1.pt.trace.json", "aten::mm", "aten::add")
    write_trace(logs / "b" / "w.1.pt.trace.json", "aten::mm", "aten::relu")
    write_trace(logs / "b" / "w.2.pt.trace.json", "aten::mm")
    return logs


@pytest.fixture
def workspace(logs, tmp_path):
    with workspace_of(logs, tmp_path / "cache") as workspace:
        workspace.catalog.scan()
        yield workspace


def against(base="", steps="", base_steps="", table=None, **more):
    run, _, span = base.partition("/")
    extra = {"base_run": run, "base_span": span, "base_steps": base_steps, **more}
    return Params(table=table, limit=None, extra=tuple((key, value) for key, value in extra.items() if value))


def presence(answer):
    return {row["name"]: row["presence"] for row in json.loads(answer)["rows"]}


def test_the_baseline_is_what_is_named_and_else_the_experiment(workspace):
    def ask(place, base):
        return presence(workspace.view(place, "diff", against(base, table="operators")))

    assert ask(B, "a") == {"aten::mm": "both", "aten::relu": "new", "aten::add": "gone"}
    assert ask(A, "b/1") == {"aten::mm": "both", "aten::add": "new", "aten::relu": "gone"}
    assert ask(B, "/2") == {"aten::mm": "both", "aten::relu": "new"}
    assert ask(B, "") == {"aten::mm": "both", "aten::relu": "both"}


def test_a_baseline_that_is_not_there(workspace):
    for base in ("none", "a/2"):
        with pytest.raises(NotFoundError):
            workspace.view(B, "diff", against(base))
    with pytest.raises(NotFoundError):
        workspace.view(Place("none"), "diff", against("a"))


def test_each_side_has_its_own_steps(workspace):
    def calls(steps, base_steps, per="step"):
        params = against("a", base_steps=base_steps, table="operators", per=per)
        rows = json.loads(workspace.view(A, "diff", params, steps))["rows"]
        return {row["name"]: (row["base_calls"], row["exp_calls"]) for row in rows}

    # aten::mm runs in step 5 and aten::add in step 6.
    assert calls("", "") == {"aten::mm": (0.5, 0.5), "aten::add": (0.5, 0.5)}
    assert calls("", "", "total") == {"aten::mm": (1, 1), "aten::add": (1, 1)}
    assert calls("5", "6") == {"aten::mm": (0, 1), "aten::add": (1, 0)}
    assert calls("5", "") == {"aten::mm": (0.5, 1), "aten::add": (0.5, 0)}
    for steps, base_steps in (("7", ""), ("", "7")):
        with pytest.raises(BadRequest):
            calls(steps, base_steps)


def test_a_side_that_cannot_be_read_is_the_error(logs, workspace):
    (logs / "a" / "w.1.pt.trace.json").write_text("no trace")
    workspace.catalog.scan()
    with pytest.raises(UnreadableTrace):
        workspace.view(B, "diff", against("a"))
    with pytest.raises(UnreadableTrace):
        workspace.group(A, "diff", against("b/1"))


def test_waiting_over_http_then_the_page_a_table_and_csv(logs, tmp_path, workers):
    with workspace_of(logs, tmp_path / "cache", workers) as workspace:
        client = Client(Routes(lambda: workspace))
        query = "run=b&worker=w&span=1&base_run=a"
        first = client.get(f"{BASE}view/diff?{query}")
        assert first.status_code == 202
        body = first.get_json()
        assert (body["kind"], body["state"], body["run"]) == ("profile", "loading", "b")
        assert 0 <= body["fraction"] < 1
        assert until(lambda: client.get(f"{BASE}view/diff?{query}").status_code == 200, 60)
        view = client.get(f"{BASE}view/diff?{query}").get_json()
        assert list(view["payloads"])[:5] == ["headline", "step_times", "waterfall", "compared", "findings"]
        table = client.get(f"{BASE}table/diff/operators?{query}&search=relu").get_json()
        assert [row["presence"] for row in table["rows"]] == ["new"]
        csv = client.get(f"{BASE}table/diff/operators?{query}&format=csv").data.decode()
        assert csv.startswith("Name,In,Baseline calls,Experiment calls,") and csv.count("\r\n") == 4


def test_arrow(workspace):
    data = workspace.arrow(B, "diff", against("a", table="operators", measure="all"))
    columns = pa.ipc.open_stream(data).read_all().column_names
    assert {"base_host_self_ns", "exp_device_total_ns", "delta_calls"} <= set(columns)


def test_parts_are_kept_by_steps(logs, workspace, tmp_path):
    workspace.view(B, "diff", against("a"))
    kept = set((tmp_path / "cache").rglob("*.part"))
    assert len(kept) == 2
    workspace.view(A, "diff", against("b/1"))
    assert set((tmp_path / "cache").rglob("*.part")) == kept
    workspace.view(A, "diff", against("b/1"), "5")
    assert len(set((tmp_path / "cache").rglob("*.part"))) == 3


def test_the_report_leaves_it_out(workspace):
    assert set(workspace.numbers(A).tables) >= {"operators", "steps"}
    with pytest.raises(NotFoundError):
        workspace.group(A, "overview", Params())
