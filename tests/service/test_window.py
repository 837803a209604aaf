"""A trace that cannot fit is opened as a window: with a notice, other windows, and the numbers of the whole inside."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

import tb_plugin
from tb_plugin.analysis.base import Params, Part
from tb_plugin.cli import main
from tb_plugin.errors import BadRequest
from tb_plugin.formats._chrome.memory_estimate import PER_TEXT_BYTE
from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.formats.kineto.reader import KinetoReader
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.window import choose, parse_window
from tb_plugin.service import loader
from tb_plugin.service.catalog import Place
from tb_plugin.service.states import MAX_WINDOWS
from tb_plugin.service.workers.memory_budget import PROCESS_BYTES
from tb_plugin.service.workers.pool import InlineWorkers, Pool
from tb_plugin.service.workspace import Workspace
from tb_plugin.storage.cache import FileStore
from tb_plugin.storage.files import FileSource
from tb_plugin.views.distributed.view import Distributed
from tests.builders import trace
from tests.conftest import SAMPLES
from tests.service.fakes import catalog_of, need_of, until, workspace_of

VIEWS = ("overview", "operators", "kernels", "modules", "memory")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A run of six steps with a device."""
    shutil.copytree(SAMPLES / "synthetic_gpu", tmp_path / "logs" / "run")
    return tmp_path / "logs"


def half(logs: Path) -> int:
    """A budget for half of the text of the one trace."""
    (path,) = logs.rglob("*.pt.trace.json*")
    return PROCESS_BYTES + (need_of(path) - PROCESS_BYTES) // 2


def opened(logs: Path, tmp_path: Path, budget: int, cache: str = "cache") -> Workspace:
    workspace = Workspace(catalog_of(logs), InlineWorkers(budget=budget), FileStore(tmp_path / cache))
    workspace.catalog.scan()
    return workspace


@pytest.fixture
def part(logs: Path, tmp_path: Path) -> Workspace:
    return opened(logs, tmp_path, half(logs))


@pytest.fixture
def whole(logs: Path, tmp_path: Path) -> Workspace:
    return opened(logs, tmp_path, 10**12)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, Workspace]:
    """The trace in part and whole, for tests that only ask: loaded once."""
    folder = tmp_path_factory.mktemp("both")
    logs = folder / "logs"
    shutil.copytree(SAMPLES / "synthetic_gpu", logs / "run")
    return opened(logs, folder, half(logs)), opened(logs, folder, 10**12)


def ask(workspace: Workspace, view: str, steps: str = "", window: str = "", **more: str) -> dict:
    params = Params(limit=1000, extra=tuple(more.items()))
    answer = workspace.view(Place(window=window), view, params, steps)
    assert isinstance(answer, bytes), answer
    return json.loads(answer)


def test_a_trace_that_cannot_fit_is_opened_as_its_first_steps(part):
    part.load(Place())
    profile = part.profile(Place())
    assert profile.state == "ready"
    assert [step.label for step in profile.steps] == ["0", "1", "2"]
    assert profile.trace_steps == ["0", "1", "2", "3", "4", "5"]
    window = profile.window
    assert (window.first_step, window.last_step, window.steps, window.trace_steps) == ("0", "2", 3, 6)
    assert 0 < window.start_ns < window.end_ns < window.trace_ns
    assert window.peak_memory_bytes > window.budget_bytes > PROCESS_BYTES
    assert 0 < window.events < window.trace_events
    read = profile.read
    assert read.events_outside == window.trace_events - window.events
    assert read.events_loaded + read.events_outside + read.events_other == read.events_in_file


def test_a_trace_that_fits_is_whole(whole):
    whole.load(Place())
    profile = whole.profile(Place())
    assert (profile.window, profile.trace_steps, profile.read.events_outside) == (None, [], 0)
    assert ask(whole, "operators")["coverage"]["window"] is None


def test_every_view_says_that_it_is_about_a_window(part):
    part.load(Place())
    for view in part.profile(Place()).views:
        if view.available and view.id not in ("diff", "distributed"):
            covered = ask(part, view.id)["coverage"]
            assert not covered["complete"] and 0 < covered["fraction_read"] < 1, view.id
            assert covered["window"]["last_step"] == "2", view.id
    notices = ask(part, "overview")["payloads"]["data_quality"]["notices"]
    assert notices[0]["rule"] == "window" and notices[0]["severity"] == "high"
    keys = {figure["metric"]["key"] for figure in notices[0]["figures"]}
    assert {f"{{{key}}}" for key in keys} <= set(
        (notices[0]["text"] + notices[0]["todo"]).replace("{", " {").replace("}", "} ").split()
    )
    assert "TORCH_TRACE_MEMORY_MB" in notices[0]["todo"]


def test_nothing_is_said_about_the_trace_that_the_window_cannot_know(part):
    window = "100000000ns-110000000ns"
    part.load(Place(window=window))
    rules = {notice["rule"] for notice in ask(part, "overview", window=window)["payloads"]["data_quality"]["notices"]}
    assert "window" in rules
    assert not {"steps_missing", "memory_missing", "no_operator", "device_events_missing", "shapes_missing"} & rules
    profile = part.profile(Place(window=window))
    views = {view.id: view for view in [*profile.views, *profile.absent]}
    assert views["memory"].why.startswith("In the opened window") and not views["memory"].enable


def numbers(view: dict) -> dict:
    """What a view says, without what it says about itself, and with events that are known by their time alone."""
    kept = {
        name: {key: value for key, value in payload.items() if key != "sql"}  # which names the steps
        for name, payload in view["payloads"].items()
        if name not in ("data_quality", "curve")
    }
    return json.loads(json.dumps(kept))


@pytest.mark.parametrize("view", ["operators", "kernels", "modules", "stacks"])
@pytest.mark.parametrize("window", ["", "3-4", "5"])
def test_numbers_of_the_steps_inside_are_those_of_the_whole_trace(both, view, window):
    part, whole = both
    part.load(Place(window=window))
    whole.load(Place())
    labels = [step.label for step in part.profile(Place(window=window)).steps]
    steps = ",".join(labels)
    expected = ask(whole, view, steps)
    for chosen in (steps, ""):
        found = ask(part, view, chosen, window)
        assert found["coverage"]["steps"] == expected["coverage"]["steps"] == labels
        assert numbers(found) == numbers(expected)


@pytest.mark.parametrize("step, window", [("1", "1"), ("2", "1-2"), ("4", "3-5"), ("5", "4-5")])
def test_a_step_of_the_overview_is_that_of_the_whole_trace(both, step, window):
    part, whole = both
    part.load(Place(window=window))
    whole.load(Place())
    one, other = ask(part, "overview", step, window)["payloads"], ask(whole, "overview", step)["payloads"]
    for name in ("headline", "steps", "average_step"):
        assert one[name] == other[name], name


def test_other_windows_are_loaded_on_their_own(part):
    part.load(Place())
    part.load(Place(window="3"))
    assert [step.label for step in part.profile(Place(window="3")).steps] == ["3", "4"]
    assert [step.label for step in part.profile(Place()).steps] == ["0", "1", "2"]
    window = part.profile(Place(window="0ns-90000000ns")).window
    assert (window.start_ns, window.end_ns, window.steps) == (0, 90_000_000, 1)
    inside = part.profile(Place(window="100000000ns-110000000ns"))
    assert (inside.window.first_step, inside.steps) == (None, [])
    headline = ask(part, "overview", window="100000000ns-110000000ns")["payloads"]["headline"]["figures"]
    assert (headline[0]["metric"]["title"], headline[0]["value"]) == ("Recorded time", 10_000_000)


def test_a_window_that_the_trace_does_not_have(part):
    with pytest.raises(BadRequest):
        part.profile(Place(window="nonsense"))
    failed = part.profile(Place(window="77"))
    assert failed.state == "failed" and "no step 77" in failed.problem.what
    assert part.profile(Place()).state == "ready"


def test_the_file_is_surveyed_once(part, logs, tmp_path, monkeypatch):
    surveys, real = [], KinetoReader.survey

    def survey(self, *args):
        surveys.append(1)
        return real(self, *args)

    monkeypatch.setattr(KinetoReader, "survey", survey)
    for window in ("", "2", "3-4"):
        part.load(Place(window=window))
    opened(logs, tmp_path, half(logs) - 100_000).load(Place())
    assert len(surveys) == 1
    (kept,) = (tmp_path / "cache").glob("*.survey.json")
    kept.write_bytes(b"damaged")
    part.load(Place(window="4"))
    assert len(surveys) == 2


def test_windows_and_budgets_do_not_share_columns(part, whole, logs, tmp_path):
    paths = {part.load(Place()).path, part.load(Place(window="2")).path, whole.load(Place()).path}
    paths.add(opened(logs, tmp_path, half(logs) - 100_000).load(Place()).path)
    assert len(paths) == 4
    assert opened(logs, tmp_path, half(logs)).load(Place()).path in paths, "a later start finds it"


def test_few_windows_are_remembered(part):
    base = part.catalog.find(Place())
    for i in range(3 * MAX_WINDOWS):
        part.catalog.find(Place(window=str(i)))
    assert len(base.all()) == 1 + MAX_WINDOWS
    assert part.catalog.find(Place(window=str(i))) is part.catalog.find(Place(window=str(i)))


def test_a_window_of_a_file_that_changes_goes_with_it(part, logs):
    entry = part.load(Place(window="2"))
    (path,) = logs.rglob("*.pt.trace.json*")
    path.unlink()
    (logs / "run" / "worker0.1.pt.trace.json").write_bytes(trace().op("aten::mm", 0, 5).bytes())
    part.catalog.scan()
    assert entry.gone


def test_in_processes_with_progress_and_a_lease(logs, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_TRACE_MEMORY_MB", str(half(logs) / 1e6))
    with workspace_of(logs, tmp_path / "cache", Pool(2)) as workspace:
        workspace.catalog.scan()
        stages, fractions = [], []

        def ready() -> bool:
            profile = workspace.profile(Place())
            if profile.loading is not None:
                stages.append(profile.loading.stage)
                fractions.append(profile.fraction)
            return profile.state == "ready"

        assert until(ready, 60)
        assert fractions == sorted(fractions), "nothing goes backwards between the two passes"
        assert workspace.profile(Place()).window.last_step == "2"
        monkeypatch.setattr(loader, "ABANDONED_READ_SECONDS", 0.0)
        late = workspace.catalog.find(Place(window="3"))
        workspace.profile(Place(window="3"))
        workspace.catalog.ticked()
        assert late.state in ("found", "ready"), "the lease of a window ends as well"


def test_workers_of_a_run_show_the_same_window(tmp_path):
    shutil.copytree(SAMPLES / "synthetic_ddp", tmp_path / "logs" / "run")
    workspace = opened(tmp_path / "logs", tmp_path, PROCESS_BYTES + int(1_000_000 * PER_TEXT_BYTE))
    answer = json.loads(workspace.group(Place(window="1"), "distributed", Params()))
    assert not answer["coverage"]["complete"]
    assert {row["step"] for row in answer["payloads"]["steps"]["rows"]} == {"1"}


def test_a_window_is_compared_with_another(part):
    params = Params(extra=(("base_window", "3"),))
    answer = json.loads(part.group(Place(window="0"), "diff", params))
    assert [rule["rule"] for rule in answer["payloads"]["findings"]["notices"]].count("window") == 1


def test_the_log_and_the_python_api_tell_as_well(logs, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("TORCH_TRACE_MEMORY_MB", str(half(logs) / 1e6))
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(tmp_path / "cache"))
    profile = tb_plugin.open(str(logs))
    assert "Only a window of it was opened" in caplog.text and "TORCH_TRACE_MEMORY_MB" in caplog.text
    assert profile.window.steps == 3 and profile.read.events_outside > 0
    chosen = tb_plugin.open(str(logs), window="4")
    assert chosen.window.first_step == "4"
    assert caplog.text.count("was opened") == 1, "who asks for a window knows"


def test_the_command_tells_as_well(logs, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TORCH_TRACE_MEMORY_MB", str(half(logs) / 1e6))
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(tmp_path / "cache"))
    assert main(["report", str(logs), "--view", "operators"]) == 0
    assert "Only a window was opened: steps 0 to 2 (3 of 6)" in capsys.readouterr().out
    assert main(["report", str(logs), "--view", "overview", "--window", "4-5", "--format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["profiles"]
    assert found["window"]["first_step"] == "4" and found["facts"]["overview.steps"] == found["window"]["steps"]
    assert main(["report", str(logs), "--window", "x"]) == 2


def part_of(name: str, window: str) -> Part:
    """What one rank of a run, opened as a window, contributes to the distributed view."""
    (path,) = SAMPLES.glob(f"synthetic_ddp/{name}.*")
    source = FileSource({"x": str(path)})
    survey = KinetoReader().survey(source, ReadOptions(), no_progress)
    chosen = choose(survey, parse_window(window), 10**12, 1, 1)
    table = assemble(KinetoReader().read(source, ReadOptions(window=chosen), no_progress))
    return replace(Distributed().part(table, Params()), worker=name)


def test_workers_with_different_windows_share_the_steps_that_all_hold():
    parts = [part_of("rank0", "0-1"), part_of("rank1", "1-2")]
    answer = Distributed().answer(parts, Params())
    assert answer.coverage.steps == ["1"] and not answer.coverage.complete
    both = [part_of("rank0", "1"), part_of("rank1", "1")]
    findings = Distributed().answer(both, Params(steps=("1",)))
    assert answer.payloads["headline"] == findings.payloads["headline"]
    with pytest.raises(BadRequest, match="no step in common"):
        Distributed().answer([part_of("rank0", "0-0"), part_of("rank1", "1-2")], Params())


def test_memory_of_a_window_does_not_say_what_comes_after_it(part, whole):
    part.load(Place(window="1-2"))
    whole.load(Place())
    one, other = ask(part, "memory", "1", "1-2")["payloads"], ask(whole, "memory", "1")["payloads"]
    figures = [{f["metric"]["key"]: f["value"] for f in view["summary"]["figures"]} for view in (one, other)]
    assert figures[0].pop("unreleased_bytes") is None and figures[1].pop("unreleased_bytes") is not None
    assert figures[0] == figures[1] and one["curve"] == other["curve"]
    blocks = part.view(Place(window="1-2"), "memory", Params(table="memory_events", limit=None))
    states = {row["block_state"] for row in json.loads(blocks)["rows"]}
    assert "released" in states and "never released" not in states
