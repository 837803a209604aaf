"""A model that is no trace goes from the scanner to the page and touches no file of the project."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from werkzeug.test import Client

import tb_plugin
from tb_plugin import registry
from tb_plugin.analysis.base import Params
from tb_plugin.cli import main
from tb_plugin.errors import NotFoundError, UserError
from tb_plugin.extensions import EXTENSIONS_VARIABLE
from tb_plugin.service.catalog import Place
from tb_plugin.service.workers.pool import InlineWorkers, Pool
from tb_plugin.service.workspace import Workspace, open_catalog
from tb_plugin.storage.cache import FileStore
from tb_plugin.web.routes import BASE, Routes
from tests.service.fakes import write_trace
from tests.toy.reader import ToyReader

SAMPLES = Path(__file__).parent / "samples"
ROWS = [
    {"toy_name": "apples", "toy_value": 3},
    {"toy_name": "figs", "toy_value": 2},
    {"toy_name": "pears", "toy_value": 5},
]


@pytest.fixture(autouse=True)
def _registered(monkeypatch, tmp_path):
    monkeypatch.setenv(EXTENSIONS_VARIABLE, "tests.toy")
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def logs(tmp_path):
    """One run of the toy's and one of torch.profiler's."""
    shutil.copytree(SAMPLES, tmp_path / "logs")
    write_trace(tmp_path / "logs" / "training" / "w0.1.pt.trace.json")
    return tmp_path / "logs"


@pytest.fixture
def opened(logs, tmp_path):
    spaces = []

    def make(workers):
        space = Workspace(open_catalog([("", str(logs))]), workers, FileStore(tmp_path / "cache"))
        spaces.append(space)
        space.catalog.scan()
        return space

    yield make
    for space in spaces:
        space.close()


def test_http_with_a_real_worker(opened):
    workspace = opened(Pool(1))
    client = Client(Routes(lambda: workspace))

    def get(route, status=200):
        while (answer := client.get(BASE + route)).status_code == 202:
            pass
        assert answer.status_code == status, answer.get_data()
        return answer

    runs = get("runs").get_json()["runs"]
    assert [(run["name"], [worker["name"] for worker in run["workers"]]) for run in runs] == [
        ("market", ["monday"]),
        ("training", ["w0"]),
    ]
    view = get("view/listed?run=market").get_json()
    assert [figure["value"] for figure in view["payloads"]["total"]["figures"]] == [10]
    assert view["payloads"]["numbers"]["rows"] == ROWS
    profile = get("profile?run=market").get_json()
    assert (profile["model"], profile["default_view"], profile["features"]) == ("numbers", "listed", [])
    assert [(view["id"], view["available"], view["page"]) for view in profile["views"]] == [
        ("listed", True, "Numbers"),
        ("shares", True, "Numbers"),
    ]
    assert profile["steps"] == [] and profile["read"]["records"] == ""
    table = get("table/listed/numbers?run=market&sort=toy_value").get_json()
    assert [row["toy_value"] for row in table["rows"]] == [5, 3, 2]
    csv = get("table/shares/shares?run=market&format=csv").get_data(as_text=True)
    assert csv.splitlines()[1] == "apples,0.3"
    assert json.loads(get("download/original?run=market").get_data())["numbers"]["figs"] == 2


def against(run, worker, span):
    return Params(extra=(("base_run", run), ("base_worker", worker), ("base_span", span)))


def test_views_of_another_model_are_not_there(opened):
    workspace = opened(InlineWorkers())
    for run in ("market", "training"):
        workspace.load(Place(run))
    with pytest.raises(NotFoundError) as caught:
        workspace.view(Place("market"), "overview", Params())
    assert caught.value.what == "The view Overview needs a trace, but this profile is a list of numbers."
    assert caught.value.do == "Available views: listed, shares, negative."
    with pytest.raises(NotFoundError, match="needs a list of numbers, but this profile is a trace"):
        workspace.view(Place("training"), "listed", Params())
    for view in ("distributed", "diff"):
        with pytest.raises(NotFoundError, match="this profile is a list of numbers"):
            workspace.view(
                Place("market"),
                view,
                Params(extra=(("base_run", "training"), ("base_worker", "w0"), ("base_span", "1"))),
            )
    with pytest.raises(NotFoundError, match="this profile is a list of numbers"):
        workspace.view(
            Place("training"),
            "diff",
            Params(extra=(("base_run", "market"), ("base_worker", "monday"), ("base_span", "default"))),
        )
    for ask in (
        lambda: workspace.tiles(Place("market"), 0, []),
        lambda: workspace.window(Place("market")),
        lambda: workspace.stacks(Place("market"), Params(), "folded"),
    ):
        with pytest.raises(NotFoundError, match="This profile is a list of numbers"):
            ask()
    assert "overview" in [view.id for view in workspace.profile(Place("training")).views]
    assert "listed" not in [view.id for view in workspace.profile(Place("training")).views]


def test_a_second_start_reads_nothing(opened, monkeypatch):
    opened(InlineWorkers()).load(Place("market"))
    monkeypatch.setattr(ToyReader, "read", lambda *args: pytest.fail("it was kept"))
    again = opened(InlineWorkers())
    again.load(Place("market"))
    monkeypatch.setattr("tests.toy.model.NumbersModel.read", lambda *args: pytest.fail("its default view is kept"))
    assert json.loads(again.view(Place("market"), "listed", Params()))["payloads"]["numbers"]["rows"] == ROWS


def test_what_misses_data_is_greyed_or_hidden_as_the_view_says(logs, opened):
    (logs / "market" / "monday.toy.json").write_text('{"numbers": {"debt": -3, "cash": 3}}')
    workspace = opened(InlineWorkers())
    workspace.load(Place("market"))
    views = {view.id: view for view in workspace.profile(Place("market")).views}
    assert (views["shares"].available, views["shares"].why) == (False, "All numbers are 0.")
    assert views["negative"].available


def test_command_line(logs, capsys):
    assert main(["report", str(logs), "--run", "market", "--format", "json"]) == 0
    (profile,) = json.loads(capsys.readouterr().out)["profiles"]
    assert profile["facts"] == {"toy.total": 10}
    assert profile["tables"]["numbers"] == ROWS and set(profile["tables"]) == {"numbers", "shares"}
    assert main(["report", str(logs), "--run", "market"]) == 0
    text = capsys.readouterr().out
    assert "market / monday" in text and "pears" in text
    assert main(["report", str(logs), "--run", "market", "--view", "shares"]) == 0
    assert "30" in capsys.readouterr().out
    assert main(["doctor", str(logs / "market")]) == 0
    assert "toy" in capsys.readouterr().out


def test_python(logs):
    profile = tb_plugin.open(str(logs / "market"))
    assert profile.facts == {"toy.total": 10}
    assert profile.table("listed", "numbers").to_dict("records") == ROWS
    assert profile.read.format == "toy"
    with pytest.raises(NotFoundError, match="Only a trace has events"):
        profile.events()


def test_an_extension_that_cannot_be_used_says_why(monkeypatch):
    monkeypatch.setenv(EXTENSIONS_VARIABLE, "nowhere.at_all")
    with pytest.raises(UserError, match=r"nowhere\.at_all cannot be imported") as caught:
        registry.readers()
    assert caught.value.where == "TORCH_TRACE_EXTENSIONS"
    monkeypatch.setenv(EXTENSIONS_VARIABLE, "tests.toy, tb_plugin.formats")
    with pytest.raises(UserError, match="twice"):
        registry.readers()


def test_without_registration_nobody_knows_it(monkeypatch, opened):
    monkeypatch.delenv(EXTENSIONS_VARIABLE)
    catalog = opened(InlineWorkers()).catalog
    assert [entry.files.run for entry in catalog.entries()] == ["training"]
