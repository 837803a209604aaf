"""Which recording tells of the graphs that a trace replays: what lies beside it, what is named, and what is wrong with it."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass

import numpy as np
import pytest
from msgspec.structs import replace
from werkzeug.test import Client

from tb_plugin.analysis.base import Params
from tb_plugin.errors import NotFoundError
from tb_plugin.model.trace.graph_capture import Captured, NodeStacks, Sequences, scopes_of_kind
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.payloads import Profile
from tb_plugin.service import graph_captures as of_captures
from tb_plugin.service.catalog import Place
from tb_plugin.service.workers.model_cache import ModelFile, OpenModels
from tb_plugin.service.workers.pool import InlineWorkers
from tb_plugin.service.workers.question import Report
from tb_plugin.service.workspace import Workspace, open_catalog
from tb_plugin.storage.cache import FileStore
from tb_plugin.web.routes import BASE, Routes
from tests.builders import kernel, trace
from tests.conftest import SAMPLES
from tests.service.fakes import catalog_of, write_trace

REPLAY = "cudaGraphLaunch"


def replaying(name="node"):
    """A step that launches a graph of two kernels."""
    built = trace().step(1, 0, 100).step(2, 100, 100).annotation("replay", 5, 20)
    return built.launches(kernel(name, 3, at=30), kernel(name, 4, at=40), name=REPLAY)


def eager(name="node", operator="aten::mm"):
    """The same kernels, each launched by an operator."""
    built = trace().step(1, 0, 100)
    for at in (10, 30):
        built.op(operator, at, 5).launches(kernel(name, 3, at=at + 40))
    return built


def put(path, built):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(built.bytes())
    return path


@dataclass(frozen=True)
class Told:
    """Asks what a trace is told of its graphs: from where, and the names of operators."""

    file: ModelFile

    def answer(self, models: OpenModels, report: Report) -> tuple[str, list[str]]:
        made = models.model(self.file)
        scopes = made.captured.scopes
        return made.captured.source, [made.strings[name] for name in scopes.name]


@pytest.fixture
def logs(tmp_path):
    put(tmp_path / "logs" / "run" / "w.1.pt.trace.json", replaying())
    put(tmp_path / "logs" / "run" / "capture_traces" / "w.1.pt.trace.json", eager())
    return tmp_path / "logs"


pytestmark = pytest.mark.usefixtures("operators")


def opened(logs, tmp_path):
    workspace = Workspace(catalog_of(logs), InlineWorkers(), FileStore(tmp_path / "cache"))
    workspace.catalog.scan()
    return workspace


def place(capture="", worker="w", run="run"):
    return Place(run, worker, "1", capture=capture)


def told(workspace, at):
    """What a worker is told, and what the profile says of it."""
    entry = workspace.load(at)
    file = workspace.captures.waited(entry, at.capture).file
    return workspace._desk.ask(Told(file), key=entry.path), workspace.profile(at).capture


@pytest.fixture
def operators(monkeypatch):
    """What a capture tells: its operators alone."""

    def captured_in(table):
        rows = np.flatnonzero(table.kind == EventKind.OPERATOR)
        none = np.full(len(rows), -1, np.int32)
        return Captured("", scopes_of_kind(EventKind.OPERATOR, table.name[rows], none), Sequences())

    monkeypatch.setattr("tb_plugin.service.workers.model_cache.captured_in", captured_in)


def test_what_lies_beside_is_taken_and_said_so(logs, tmp_path):
    workspace = opened(logs, tmp_path)
    name = "run/capture_traces/w/1"
    (source, names), info = told(workspace, place())
    assert (source, names) == (name, ["aten::mm", "aten::mm"])
    assert (info.names, info.how, info.beside, info.problem) == ([name], "beside", [name], None)
    (source, names), info = told(workspace, place("none"))
    assert (source, names) == ("", []) and (info.names, info.how, info.beside) == ([], "none", [name])
    # A recording of the capture has none of its own.
    put(logs / "run" / "capture_traces" / "w.1.pt.trace.json", replaying())
    workspace.catalog.scan()
    workspace.load(place(run="run/capture_traces"))
    assert workspace.profile(place(run="run/capture_traces")).capture.beside == []


def test_a_file_in_the_folder_whose_name_says_so(logs, tmp_path):
    (logs / "run" / "capture_traces" / "w.1.pt.trace.json").rename(logs / "run" / "graph_capture.1.pt.trace.json")
    workspace = opened(logs, tmp_path)
    assert told(workspace, place())[1].names == ["run/graph_capture/1"]
    (logs / "run" / "graph_capture.1.pt.trace.json").rename(logs / "run" / "recapturing.1.pt.trace.json")
    assert told(opened(logs, tmp_path), place())[1].beside == []


def test_of_several_none_is_taken_and_all_are_offered(logs, tmp_path):
    put(logs / "run" / "capture_traces" / "w.2.pt.trace.json", eager())
    workspace = opened(logs, tmp_path)
    (source, _), info = told(workspace, place())
    assert source == "" and (info.names, info.how) == ([], "none")
    assert info.beside == ["run/capture_traces/w/1", "run/capture_traces/w/2"]
    assert told(workspace, place(info.beside[1]))[0][0] == info.beside[1]


def test_ranks_have_their_own(tmp_path):
    for rank in range(3):
        put(tmp_path / "logs" / f"rank{rank}.1.pt.trace.json", replaying())
    for rank in range(2):
        put(tmp_path / "logs" / f"capture_rank{rank}.1.pt.trace.json", eager())
    workspace = opened(tmp_path / "logs", tmp_path)
    names = [told(workspace, place("", f"rank{rank}", "logs"))[1].names for rank in range(3)]
    assert names == [["logs/capture_rank0/1"], ["logs/capture_rank1/1"], []]


def test_captures_in_a_file_each_are_taken_together(tmp_path):
    """As servers write them: a file for each size of a batch and each rank."""
    logs = tmp_path / "logs"
    put(logs / "1760000000-TP-1.trace.json", replaying())
    for rank in range(2):
        for size, operator in ((1, "aten::mm"), (8, "aten::bmm")):
            put(logs / "capture_traces" / f"bs_{size}_rank{rank}.json", eager(operator=f"{operator}_{rank}"))
    workspace = opened(logs, tmp_path)
    at = Place("logs")
    (source, names), info = told(workspace, at)
    both = [f"capture_traces/bs_{size}_rank1/default" for size in (1, 8)]
    assert info.names == info.beside == both and info.how == "beside"
    assert source == "capture_traces (2 recordings)" and names == ["aten::mm_1"] * 2 + ["aten::bmm_1"] * 2
    assert told(workspace, Place("logs", capture="capture_traces"))[1].names == both
    assert told(workspace, Place("logs", capture="capture_traces/bs_8_rank0"))[0][1] == ["aten::bmm_0"] * 2


def test_what_is_named_need_not_lie_beside(logs, tmp_path):
    put(logs / "other" / "x.1.pt.trace.json", eager(operator="aten::relu"))
    workspace = opened(logs, tmp_path)
    (source, names), info = told(workspace, place("other/x/1"))
    assert source == "other/x/1" and names == ["aten::relu"] * 2 and info.how == "named" and info.problem is None


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("run/w/1", "The chosen profile contains no captures"),
        ("run/w/7", "There is no profile run/w/7."),
        ("damaged/w/1", "The file contains no event list."),
        ("memory", "The chosen profile contains no captures"),
        ("/etc/passwd", "There is no profile /etc/passwd."),
        ("../logs/run/capture_traces/w.1.pt.trace.json", "There is no profile"),
    ],
)
def test_one_that_tells_nothing_costs_the_trace_nothing(logs, tmp_path, name, what):
    (logs / "damaged").mkdir()
    (logs / "damaged" / "w.1.pt.trace.json").write_text('{"traceEvents": 5}' + " " * 2000)
    (logs / "memory").mkdir()
    shutil.copy(SAMPLES / "synthetic_memory" / "leaking.pickle.gz", logs / "memory")
    workspace = opened(logs, tmp_path)
    (source, names), info = told(workspace, place(name))
    assert (source, names) == ("", [])
    assert info.problem is not None and info.problem.what.startswith(what[:20])
    view = workspace.view(place(name), "kernels", Params())
    assert view == workspace.view(place("none"), "kernels", Params())


def test_a_window_of_a_capture_tells_nothing(logs, tmp_path, monkeypatch):
    monkeypatch.setattr(of_captures, "_refused", lambda entry: NotFoundError("too large") if entry.summary else None)
    workspace = opened(logs, tmp_path)
    (source, _), info = told(workspace, place())
    assert source == "" and info.problem.what == "too large" and info.names


def test_a_trace_without_replays_asks_for_none(logs, tmp_path):
    write_trace(logs / "run" / "w.1.pt.trace.json")
    workspace = opened(logs, tmp_path)
    workspace.load(place())
    workspace.view(place(), "overview", Params())
    assert workspace.profile(place()).capture is None
    assert workspace.catalog.find(place(run="run/capture_traces")).state == "found"


def test_another_capture_has_other_answers(logs, tmp_path):
    """Also what is kept for views of several profiles: its key has the capture, in the version that was read."""
    workspace = opened(logs, tmp_path)
    at = place()
    assert told(workspace, at)[0][1] == ["aten::mm"] * 2
    keys = [workspace.captures.key(workspace.catalog.find(at), text) for text in ("", "none")]
    path = put(logs / "run" / "capture_traces" / "w.1.pt.trace.json", eager(operator="aten::relu"))
    os.utime(path, ns=(1, 1))
    workspace.catalog.scan()
    assert told(workspace, at)[0][1] == ["aten::relu"] * 2
    keys.append(workspace.captures.key(workspace.catalog.find(at), ""))
    assert keys[1] == "" and len(set(keys)) == 3


def test_columns_that_are_lost_are_read_again(logs, tmp_path):
    workspace = opened(logs, tmp_path)
    told(workspace, place())
    capture = workspace.catalog.find(place(run="run/capture_traces"))
    os.truncate(capture.path, 10)
    workspace._workers.models._files.clear() if hasattr(workspace._workers, "models") else None
    assert told(workspace, place())[0][1] == ["aten::mm"] * 2


def test_names_of_the_other_trace_get_ids_of_this_one():
    table, other = replaying("shared").table(), eager("shared", "aten::new").table()
    rows = np.flatnonzero(other.kind == EventKind.OPERATOR)
    none = np.full(len(rows), -1, np.int32)
    scopes = replace(scopes_of_kind(EventKind.OPERATOR, other.name[rows], none), row=rows.astype(np.int32))
    kernels = np.flatnonzero(other.kind == EventKind.KERNEL)
    sequences = Sequences(np.array([0, len(kernels)]), name=other.name[kernels])
    stacks = NodeStacks(np.array([3, 9]), np.array([1, 0], np.int32), scopes)
    found = table.with_captured([(Captured("", scopes, sequences, stacks), other.strings)], "s")
    assert [found.strings[i] for i in found.captured.scopes.name] == ["aten::new"] * 2
    assert [found.strings[i] for i in found.captured.sequences.name] == ["shared"] * 2
    assert found.captured.scopes.shapes.tolist() == found.captured.scopes.row.tolist() == [-1, -1]
    assert list(found.strings)[: len(table.strings)] == list(table.strings) and found.name is table.name
    two = table.with_captured([(found.captured, found.strings), (Captured("", scopes, sequences), other.strings)], "")
    assert [two.strings[i] for i in two.captured.scopes.name] == ["aten::new"] * 4
    assert found.captured.stacks.scope.tolist() == two.captured.stacks.scope.tolist() == [1, 0]
    assert [two.strings[i] for i in two.captured.stacks.scopes.name] == ["aten::new"] * 2
    assert two.captured.sequences.begin.tolist() == [0, 2, 4] and len(two.strings) == len(found.strings)
    # What both have keeps the id that it has here; nothing is there twice.
    assert set(found.captured.sequences.name.tolist()) == {int(table.name[table.kind == EventKind.KERNEL][0])}
    assert len(set(found.strings)) == len(found.strings) == len(table.strings) + 1
    assert not hasattr(found, "_remembered")


def test_the_page_names_it_in_the_address(logs, tmp_path):
    workspace = opened(logs, tmp_path)
    client = Client(Routes(lambda: workspace))
    where = "run=run&worker=w&span=1"
    profile = client.get(f"{BASE}profile?{where}").json
    assert profile["state"] == "ready" and profile["capture"]["how"] == "beside"
    assert client.get(f"{BASE}profile?{where}&capture=none").json["capture"]["how"] == "none"
    path = logs / "run" / "capture_traces" / "w.1.pt.trace.json"
    answer = client.get(f"{BASE}profile", query_string={"run": "run", "worker": "w", "span": "1", "capture": str(path)})
    assert answer.json["capture"]["problem"]["what"].startswith("There is no profile")
    view = client.get(f"{BASE}view/kernels?{where}&capture=none")
    assert view.status_code == 200 and client.get(f"{BASE}view/kernels?{where}").status_code == 200


def test_a_command_may_name_a_path(logs, tmp_path):
    workspace = opened(logs, tmp_path)
    path = str(put(tmp_path / "elsewhere" / "y.1.pt.trace.json", eager(operator="aten::relu")))

    def scanned(text):
        catalog = open_catalog([("", text)])
        catalog.scan()
        return catalog

    assert told(workspace, place(path))[1].problem is not None
    workspace.captures.allow(path, scanned)
    assert told(workspace, place(path))[0] == ("elsewhere/y/1", ["aten::relu"] * 2)
    with pytest.raises(NotFoundError):
        workspace.captures.allow(str(tmp_path / "nothing"), scanned)


def test_views_of_several_take_that_of_each(tmp_path):
    for rank in range(2):
        put(tmp_path / "logs" / f"rank{rank}.1.pt.trace.json", replaying())
        put(tmp_path / "logs" / "capture" / f"rank{rank}.1.pt.trace.json", eager())
    workspace = opened(tmp_path / "logs", tmp_path)
    for capture in ("", "none", "capture/rank0/1"):
        answer = workspace.group(place(capture, "rank0", "logs"), "ranks_kernels", Params())
        assert not isinstance(answer, Profile)
    params = Params(limit=None, extra=(("base_capture", "none"), ("base_worker", "rank1")))
    assert json.loads(workspace.group(place("", "rank0", "logs"), "diff", params))["kind"] == "view"


def test_a_view_waits_until_the_capture_is_read(logs, tmp_path, monkeypatch):
    workspace = opened(logs, tmp_path)
    workspace.load(place())
    capture = workspace.catalog.find(place(run="run/capture_traces"))
    ready = workspace._loader.ready
    with monkeypatch.context() as patch:
        patch.setattr(workspace._loader, "ready", lambda entry: entry if entry is capture else ready(entry))
        client = Client(Routes(lambda: workspace))
        answer = client.get(f"{BASE}view/kernels?run=run&worker=w&span=1")
        assert answer.status_code == 202 and answer.json["state"] == "loading" and answer.json["fraction"] == 0.5
        assert client.get(f"{BASE}view/kernels?run=run&worker=w&span=1&capture=none").status_code == 200
    assert client.get(f"{BASE}view/kernels?run=run&worker=w&span=1").status_code == 200
