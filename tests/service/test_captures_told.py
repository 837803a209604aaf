"""What a trace is told by captures beside it, against the truth of invented replays; a wrong one says how much matches."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from dataclasses import dataclass

import msgspec
import pytest
from msgspec.structs import replace

from tb_plugin.analysis.graphs.origins import Way, origins_of
from tb_plugin.findings import data_notices
from tb_plugin.model.trace.extra_columns import NODE_ID
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.service.catalog import Place
from tb_plugin.service.workers.model_cache import ModelFile, OpenModels
from tb_plugin.service.workers.pool import InlineWorkers
from tb_plugin.service.workers.question import Report
from tb_plugin.service.workspace import Workspace
from tb_plugin.storage.cache import FileStore
from tests import synthetic_graphs as graphs
from tests.builders import trace
from tests.service.fakes import catalog_of
from tests.synthetic_graphs import Plan

HIP = Plan(capture="beside", arch="rocm", warm_up=False, replays=2)
"""Its calls state which kernels they launch, so that captures can be told apart."""


@dataclass(frozen=True)
class Origins:
    """Asks for the device time of replays by operator, how it is known, and the captures that do not match."""

    file: ModelFile

    def answer(self, models: OpenModels, report: Report) -> tuple[dict[str, int], set[str], list[tuple[str, str]]]:
        trace = models.model(self.file)
        found = origins_of(trace)
        operator = found.scopes.nearest(EventKind.OPERATOR)[found.scope]
        names = [trace.strings[int(found.scopes.name[i])] if i >= 0 else "" for i in operator]
        times: Counter[str] = Counter()
        for name, row in zip(names, found.work.tolist(), strict=True):
            times[name] += int(trace.dur_ns[row])
        return (
            dict(times),
            {Way(way).name for way in found.way},
            [(each.source, str(each)) for each in found.agreements.values()],
        )


def write(plan, folder):
    files, truth = graphs.generate(plan)
    for file in files:
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text())
    return truth


def opened(folder):
    workspace = Workspace(catalog_of(folder / "logs"), InlineWorkers(), FileStore(folder / "cache"))
    workspace.catalog.scan()
    return workspace


def place_in(folder, capture=""):
    """What is not the capture."""
    (found,) = [one.files for one in opened(folder).catalog.entries() if "capture" not in one.files.run]
    return Place(found.run, found.worker, found.span, capture=capture)


def told(folder, capture=""):
    workspace, place = opened(folder), place_in(folder, capture)
    found = workspace.captures.waited(workspace.load(place), capture)
    return workspace._desk.ask(Origins(found.file)), workspace.profile(place).capture


@pytest.fixture(scope="module")
def beside(tmp_path_factory):
    folder = tmp_path_factory.mktemp("beside")
    return folder, write(dataclasses.replace(HIP, batches=(8, 32)), folder / "logs")


def test_captures_of_two_graphs_in_a_file_each_tell_of_both(beside):
    folder, truth = beside
    (times, ways, unlike), info = told(folder)
    assert len(info.names) == 2 and info.how == "beside" and unlike == []
    assert ways == {"CAPTURE_TRACE"} and times == truth["replayed"]["operators_self_ns"]


def test_one_of_them_tells_of_one(beside):
    folder, truth = beside
    name = next(name for name in told(folder, "none")[1].beside if "bs_8" in name)
    (times, ways, unlike), _ = told(folder, name)
    assert ways == {"CAPTURE_TRACE", "GRAPH"} and times[""] > 0
    assert sum(times.values()) == sum(truth["replayed"]["operators_self_ns"].values())
    assert [source for source, _ in unlike] == [name]


def test_without_them_nothing_is_known(beside):
    (times, ways, unlike), info = told(beside[0], "none")
    assert ways == {"GRAPH"} and set(times) == {""} and unlike == [] and len(info.beside) == 2


def test_a_wrong_capture_says_how_much_of_it_matches(tmp_path):
    truth = write(dataclasses.replace(HIP, wrong="kernel"), tmp_path / "logs")
    (times, ways, unlike), info = told(tmp_path)
    ((source, text),) = unlike
    assert ways == {"GRAPH"} and set(times) == {""} and [source] == info.names
    assert text.startswith(f"{truth['refused'][0]['node']} of ")
    numbers = opened(tmp_path).numbers(place_in(tmp_path), ["kernels"])
    (notice,) = [n for n in data_notices(numbers.notices) if n.rule == "capture_refused"]
    assert notice.text.startswith(f"{source} does not match 1 of the replayed graphs: at most {text} match.")
    without = opened(tmp_path).numbers(replace(place_in(tmp_path), capture="none"), ["kernels"])
    assert numbers.facts == without.facts and "capture_refused" not in {n.rule for n in data_notices(without.notices)}


def test_of_several_wrong_captures_each_graph_says_the_share(tmp_path):
    write(dataclasses.replace(HIP, batches=(8, 32), wrong="kernel"), tmp_path / "logs")
    (_, ways, unlike), info = told(tmp_path)
    assert ways == {"GRAPH"} and len(info.names) == 2
    assert len(unlike) == 2 and {source for source, _ in unlike} == {"capture_traces (2 recordings)"}
    numbers = opened(tmp_path).numbers(place_in(tmp_path), ["kernels"])
    (notice,) = [n for n in data_notices(numbers.notices) if n.rule == "capture_refused"]
    assert "(2 recordings) does not match 2 of the replayed graphs" in notice.text


def test_views_that_a_capture_makes_possible_are_offered(tmp_path):
    """No module is called in a trace that only replays: the summary of the trace alone knows of none."""
    write(Plan(capture="beside", warm_up=False, replays=2), tmp_path / "logs")
    workspace, place = opened(tmp_path), place_in(tmp_path)
    without = replace(place, capture="none")

    def modules(views):
        return next((view.available, view.why) for view in views if view.id == "modules")

    first = workspace.profile(place)
    assert modules(workspace.offered(place)) == (True, "")
    assert first.state in ("loading", "ready") and modules(workspace.profile(place).views) == (True, "")
    assert modules(workspace.offered(without)) == (False, "The trace contains no calls of nn.Module.")
    assert modules(workspace.profile(without).views) == modules(workspace.offered(without))
    told, alone = (workspace.numbers(where, ["modules"]) for where in (place, without))
    assert len(msgspec.json.decode(told.tables["modules"])) == told.facts["modules.names"] > 0
    assert "modules" not in alone.tables and not alone.facts


def test_a_profile_loads_until_its_capture_is(tmp_path, monkeypatch):
    write(Plan(capture="beside", warm_up=False, replays=2), tmp_path / "logs")
    workspace, place = opened(tmp_path), place_in(tmp_path)
    workspace.load(place)
    monkeypatch.setattr(workspace.captures, "ready", lambda entry, text: None)
    waiting = workspace.profile(place)
    assert waiting.state == "loading" and waiting.fraction == 0.5
    assert workspace.profile(place, start=False).state == "ready"


def test_stacks_by_node_lie_beside_as_well(tmp_path):
    """What ``dump_kernel_py_stacks`` of PyTorch 2.15 writes."""
    plan = Plan(capture="none", py_stacks=True, warm_up=False, replays=2)
    write(plan, tmp_path / "logs")
    workspace, place = opened(tmp_path), Place(None, "worker0", "1")
    entry = workspace.load(place)
    found = workspace.captures.waited(entry, "")
    assert [capture.files.names for capture in found.captures] == [("worker0.kernel_py_stacks.json",)]
    trace = OpenModels().model(found.file)
    origins = origins_of(trace)
    (path,) = (tmp_path / "logs").glob("*.kernel_py_stacks.json")
    stacks = json.loads(path.read_text())
    nodes, _ = next(column for column in trace.others if column.key == NODE_ID).at(origins.work)
    assert len(nodes) == 2 * len(stacks)
    for node, scope in zip(nodes.tolist(), origins.scope.tolist(), strict=True):
        frames, at = [], scope
        while at != -1:
            name = trace.strings[int(origins.scopes.name[at])]
            frames.append(":".join(re.fullmatch(r"(.*)\((\d+)\): (.*)", name).groups()))
            at = int(origins.scopes.parent[at])
        assert "\n".join(frames) == stacks[str(node)]


def test_one_without_any_work_says_so(tmp_path):
    write(HIP, tmp_path / "logs")
    for path in (tmp_path / "logs" / "capture_traces").iterdir():
        path.write_text(trace().op("aten::mm", 1, 2).text())
    (_, ways, unlike), _ = told(tmp_path)
    assert ways == {"GRAPH"} and unlike == []
    notices = data_notices(opened(tmp_path).numbers(place_in(tmp_path), []).notices)
    assert "capture_empty" in {notice.rule for notice in notices}


def test_facts_and_answers_kept_before_are_those_of_the_capture(beside):
    """Asked in turn of one workspace: nothing is shown that was worked out with another capture."""
    workspace, place = opened(beside[0]), place_in(beside[0])
    workspace.load(place)
    name = next(name for name in workspace.profile(place).capture.beside if "bs_8" in name)
    asked = ("", "none", name, "none", "")
    found = [workspace.numbers(replace(place, capture=text), ["graphs"]).facts for text in asked]
    tied = [facts["graphs.by_capture_trace_ns"] for facts in found]
    assert tied[0] == tied[4] == found[0]["graphs.device_ns"] and tied[1] == tied[3] == 0 and 0 < tied[2] < tied[0]
