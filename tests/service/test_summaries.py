"""Runs open from rank summaries: beside the traces, in a tree of their own, and where no trace is; bad ones cost a notice."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import Counter
from pathlib import Path

import fsspec
import pytest
from werkzeug.test import Client

from tb_plugin import cli, registry
from tb_plugin.analysis.base import Params
from tb_plugin.cli import summarize as command
from tb_plugin.errors import NotFoundError, StorageError, UnreadableTrace, UserError
from tb_plugin.service.answers import questions
from tb_plugin.service.answers.questions import WriteMergedPart
from tb_plugin.service.catalog import Place
from tb_plugin.service.discovery.summary_files import SUFFIX
from tb_plugin.service.summaries import format, sources
from tb_plugin.service.summaries.format import Settings, Wanted
from tb_plugin.service.workers.pool import InlineWorkers
from tb_plugin.service.workspace import Workspace
from tb_plugin.storage.cache import FileStore
from tb_plugin.storage.files import Folder
from tb_plugin.web.routes import BASE, Routes
from tests.conftest import SAMPLES
from tests.service.fakes import catalog_of, until, workspace_of

ASCEND = SAMPLES / "synthetic_ascend"
WHATEVER = Wanted(None, Settings())


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Summaries of two samples, in a tree beside no trace."""
    logs, to = (tmp_path_factory.mktemp(name) for name in ("logs", "to"))
    shutil.copytree(SAMPLES / "synthetic_ddp", logs / "ddp")
    shutil.copytree(ASCEND, logs / "ascend")
    assert cli.main(["summarize", str(logs), "--to", str(to), "--workers", "0"]) == 0
    return to


@pytest.fixture
def logs(tmp_path):
    logs = tmp_path / "logs"
    shutil.copytree(SAMPLES / "synthetic_ddp", logs / "ddp")
    return logs


def summarised(logs, tree):
    """The log directory with the summaries beside its traces."""
    for file in sorted((tree / "ddp").iterdir()):
        shutil.copy(file, logs / "ddp")
    return sorted((logs / "ddp").glob(f"*{SUFFIX}"))


@pytest.fixture
def opened(tmp_path):
    """Opens log directories, each with an empty cache."""
    made = []

    def make(logs, **more):
        cache = tmp_path / f"cache{len(made)}"
        made.append(Workspace(catalog_of(logs), InlineWorkers(), FileStore(cache), **more))
        made[-1].catalog.scan()
        made[-1].folder = cache
        return made[-1]

    yield make
    for workspace in made:
        workspace.close()


def view(workspace, run="ddp", name="distributed"):
    return json.loads(workspace.view(Place(run, None, "1"), name, Params()))


def told(answer):
    return {notice["rule"]: notice["text"] for notice in answer["payloads"]["findings"]["notices"]}


def read_traces(workspace):
    return sorted(path.name for path in workspace.folder.glob("*.arrow"))


def test_a_directory_of_summaries_answers_like_that_of_the_traces(logs, tree, opened):
    traces, alone = opened(logs), opened(tree)
    assert view(alone) == view(traces)
    assert read_traces(traces) and not read_traces(alone)
    assert [entry.key for entry in alone.catalog.entries() if entry.key[0] == "ddp"] == [
        entry.key for entry in traces.catalog.entries()
    ]
    assert alone.catalog.skipped() == []


def test_what_a_summary_has_nothing_for_says_that_the_trace_is_not_here(tree, opened):
    workspace = opened(tree)
    place = Place("ddp", "rank1", "1")
    profile = workspace.profile(place)
    assert (profile.state, profile.default_view, profile.features) == ("ready", "distributed", ["steps"])
    assert [step.label for step in profile.steps] == ["0", "1", "2"]
    there = {info.id: info for info in profile.views}
    assert there["distributed"].available
    assert {info.why for info in profile.views if not info.available} == {
        "The trace is missing. For this rank, the log directory has only a summary, which only the page Ranks uses."
    }
    for ask in (
        lambda: workspace.view(place, "overview", Params()),
        lambda: workspace.tiles(place, 0, []),
        lambda: workspace.window(place),
        lambda: workspace.original(place),
        lambda: workspace.csv(place, "operators", Params(table="operators")),
    ):
        with pytest.raises(NotFoundError, match="The trace is missing"):
            ask()


def test_folders_that_are_profiles_have_summaries_too(tree, opened):
    workspace = opened(tree)
    answer = view(workspace, "ascend")
    assert len(answer["payloads"]["workers"]["rows"]) == 2 and "links" in answer["payloads"]


def test_beside_the_traces_nothing_is_read_until_somebody_opens_a_rank(logs, tree, opened):
    summarised(logs, tree)
    workspace = opened(logs)
    assert len(workspace.catalog.entries()) == 4 and workspace.catalog.skipped() == []
    place = Place("ddp", "rank2", "1")
    profile = workspace.profile(place, view="distributed")
    assert profile.state == "ready" and [step.label for step in profile.steps] == ["0", "1", "2"]
    assert "straggler" in told(view(workspace))
    assert not read_traces(workspace)
    assert workspace.profile(place).state == "ready"  # the Overview, say
    assert len(read_traces(workspace)) == 1


def test_the_page_over_http(logs, tree, tmp_path, workers):
    summarised(logs, tree)
    with workspace_of(logs, tmp_path / "cache", workers) as workspace:
        client = Client(Routes(lambda: workspace))
        route = BASE + "view/distributed?run=ddp&span=1"
        assert until(lambda: client.get(route).status_code == 200, 60)
        asked = BASE + "profile?run=ddp&worker=rank0&span=1&view=distributed"
        assert until(lambda: client.get(asked).get_json()["state"] == "ready", 60)
        states = [
            span["state"]
            for run in client.get(BASE + "runs").get_json()["runs"]
            for w in run["workers"]
            for span in w["spans"]
        ]
        assert states == ["found"] * 4
        assert not list((tmp_path / "cache").glob("*.arrow"))


class Noting(InlineWorkers):
    """Notes what it is asked."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def submit(self, question, **more):
        self.asked.append(type(question).__name__)
        return super().submit(question, **more)


@pytest.mark.parametrize("to", [True, False])
def test_the_ranks_are_joined_for_tensorboard_on_this_machine(logs, tmp_path, monkeypatch, capsys, to):
    cache = tmp_path / "cache"
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(cache))
    shown = tmp_path / "to" if to else logs
    more = ["--to", str(shown)] if to else []
    assert cli.main(["summarize", str(logs), "--workers", "0", *more]) == 0
    _, said = capsys.readouterr().out.splitlines()[:2]
    assert said.startswith("ddp: Other ranks wait for rank2")
    noting = Noting()
    with workspace_of(shown, cache, noting) as workspace:
        workspace.catalog.scan()
        assert "straggler" in told(view(workspace))
    assert noting.asked == ["AskMultiView"] and not list(cache.glob("*.arrow"))


def test_the_runs_that_were_summarised_are_joined_and_no_others(logs, tmp_path, monkeypatch, capsys):
    """Traces at the top of a log directory are a run that is called after it: elsewhere the run has another name."""
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(tmp_path / "cache"))
    to = tmp_path / "to"
    asked = ["summarize", "--workers", "0", "--to"]
    assert cli.main([*asked, str(to / "before"), str(logs)]) == 0
    assert "ddp: Other ranks wait for rank2" in capsys.readouterr().out
    assert cli.main([*asked, str(to), str(logs / "ddp"), "--run", "ddp"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[1].startswith("to: Other ranks wait for rank2") and "ddp: " not in said.out
    assert said.err == ""


def test_nothing_is_joined_for_a_cache_that_nobody_finds(logs, monkeypatch, capsys):
    monkeypatch.setenv("TORCH_TRACE_CACHE", "off")
    assert cli.main(["summarize", str(logs), "--workers", "0"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_nothing_is_joined_where_a_trace_would_be_read_for_it(logs, tmp_path, monkeypatch, capsys):
    cache = tmp_path / "cache"
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(cache))
    assert cli.main(["summarize", str(logs), "--workers", "0", "--worker", "rank2"]) == 0
    assert cli.main(["summarize", str(logs), "--workers", "0", "--worker", "rank1"]) == 0
    assert not list(cache.glob("*")) and capsys.readouterr().out.count("\n") == 2
    next((logs / "ddp").glob("rank3*gz")).write_text("no trace")
    assert cli.main(["summarize", str(logs), "--workers", "0"]) == 3
    assert not list(cache.glob("*"))


def test_ranks_that_cannot_be_joined_cost_a_line(logs, tmp_path, monkeypatch, capsys):
    def refuse(*args, **more):
        raise StorageError("The storage is away.", "s3://x", "Try again.")

    monkeypatch.setenv("TORCH_TRACE_CACHE", str(tmp_path))
    monkeypatch.setattr(Workspace, "group", refuse)
    assert cli.main(["summarize", str(logs), "--workers", "0"]) == 0
    assert "The ranks are not merged yet; TensorBoard will merge them. " in capsys.readouterr().err


def test_a_log_is_told_how_far_it_is(logs, tmp_path, monkeypatch, capsys):
    bad = next((logs / "ddp").glob("rank1*"))
    bad.unlink()
    (logs / "ddp" / "rank1.1.pt.trace.json").write_text("no trace")
    asked = ["summarize", str(logs), "--workers", "0", "--to", str(tmp_path / "to")]
    assert cli.main(asked) == 3
    assert not [line for line in capsys.readouterr().err.splitlines() if " of 4 ranks" in line]  # seconds: no line
    monkeypatch.setattr(command, "LINE_SECONDS", 0.0)
    assert cli.main(asked) == 3
    told = [line for line in capsys.readouterr().err.splitlines() if " of 4 ranks" in line]
    assert told == [f"{done} of 4 ranks, {failed} failed" for done, failed in ((1, 0), (2, 1), (3, 1), (4, 1))]


def test_a_trace_that_ends_early_is_told(logs, capsys):
    cut = next((logs / "ddp").glob("rank1*"))
    whole = cut.read_bytes()
    cut.write_bytes(whole[: len(whole) // 2])
    asked = ["summarize", str(logs), "--workers", "0"]
    for counts in ("4 computed, 0 up to date", "0 computed, 4 up to date"):
        assert cli.main(asked) == 0
        said = capsys.readouterr()
        assert said.out.startswith(f"4 ranks: {counts}, 0 failed, 1 incomplete; ")
        assert said.err == (
            "ddp/rank1/1: Incomplete: the file is damaged or truncated. The summary covers the part that was read.\n"
        )
    cut.write_bytes(whole)
    assert cli.main(asked) == 0
    said = capsys.readouterr()
    assert said.out.startswith("4 ranks: 1 computed, 3 up to date, 0 failed; ") and said.err == ""


def test_what_the_view_is_about_is_looked_up_once_and_not_for_each_rank(tree, tmp_path, opened, monkeypatch):
    looks = []
    monkeypatch.setattr(registry, "extension_names", lambda: looks.append(1) or [])
    counts = []
    for ranks in (4, 2):
        shutil.copytree(tree / "ddp", tmp_path / str(ranks) / "ddp")
        for path in sorted((tmp_path / str(ranks) / "ddp").iterdir())[ranks:]:
            path.unlink()
        workspace = opened(tmp_path / str(ranks))
        view(workspace)
        looks.clear()
        view(workspace)  # a page of a table, say
        counts.append(len(looks))
    assert counts[0] == counts[1]


def test_an_older_summary_is_none(logs, tree, opened):
    paths = summarised(logs, tree)
    trace = Path(str(paths[0]).removesuffix(SUFFIX))
    later = paths[0].stat().st_mtime + 10
    os.utime(trace, (later, later))
    workspace = opened(logs)
    assert [bool(entry.files.summaries) for entry in workspace.catalog.entries()] == [False, True, True, True]
    assert "summary_refused" not in told(view(workspace))
    assert len(read_traces(workspace)) == 1


def test_bad_summaries_are_told_and_their_ranks_are_computed(logs, tree, opened):
    paths = summarised(logs, tree)
    expected = view(opened(logs))
    paths[0].write_bytes(paths[0].read_bytes()[:-5])
    paths[1].write_bytes(paths[2].read_bytes())
    paths[2].write_bytes(b"")
    paths[3].write_bytes(paths[3].read_bytes().replace(b"summary 1\n", b"summary 9\n", 1))
    workspace = opened(logs)
    answer = view(workspace)
    text = told(answer)["summary_refused"]
    assert text == (
        "Summary not used: rank0, rank2 (its summary is damaged); rank1 (its summary belongs to another trace file); "
        "rank3 (its summary was written by another version)."
    )
    assert len(read_traces(workspace)) == 4
    assert view(workspace) == answer  # also when the parts are kept
    for each in (answer, expected):
        each["payloads"].pop("findings")
    assert answer == expected


def test_summaries_that_are_too_much_together_are_refused(logs, tree, opened, monkeypatch):
    summarised(logs, tree)
    expected = view(opened(logs))
    contents = [path.read_bytes() for path in sorted((tree / "ddp").iterdir())]
    sizes = [format.decode_unchecked(content, WHATEVER)[1] for content in contents]
    monkeypatch.setattr(questions, "budget_bytes", lambda: sum(sizes[:3]) + len(contents[2]))
    answer = view(opened(logs))
    assert told(answer)["summary_refused"] == (
        "Summary not used: rank3 (its summary does not fit in memory together with the summaries of the other ranks "
        "(TORCH_TRACE_MEMORY_MB))."
    )
    for each in (answer, expected):
        each["payloads"].pop("findings")
    assert answer == expected


def test_a_bad_summary_without_a_trace_names_the_rank(tree, tmp_path, opened):
    shutil.copytree(tree, tmp_path / "logs")
    bad = sorted((tmp_path / "logs" / "ddp").iterdir())[1]
    bad.write_bytes(b"no summary")
    workspace = opened(tmp_path / "logs")
    answer = view(workspace)
    assert "{worker} (The trace is missing, and its summary is damaged)" in told(answer)["worker_failed"]
    profile = workspace.profile(Place("ddp", "rank1", "1"))
    assert (profile.state, profile.problem.what) == ("failed", "The trace is missing, and its summary is damaged.")
    for other in sorted((tmp_path / "logs" / "ddp").iterdir()):
        other.write_bytes(b"")
    with pytest.raises((NotFoundError, UnreadableTrace), match="its summary is damaged"):
        view(opened(tmp_path / "logs"))


def test_a_tree_that_the_environment_names(logs, tree, opened, monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_TRACE_SUMMARIES", str(tree))
    workspace = opened(logs)
    assert {entry.files.run for entry in workspace.catalog.entries()} == {"ddp"}
    view(workspace)
    assert not read_traces(workspace)
    monkeypatch.setenv("TORCH_TRACE_SUMMARIES", str(tmp_path / "none"))
    workspace = opened(logs)
    assert [problem.what for problem in workspace.catalog.problems()] == ["The path does not exist."]
    assert "straggler" in told(view(workspace))


def test_other_settings_make_other_summaries(logs, tree, opened, monkeypatch):
    summarised(logs, tree)
    monkeypatch.setenv("TORCH_TRACE_STEPS", "my step .*")
    workspace = opened(logs)
    assert "computed with other settings" in told(view(workspace))["summary_refused"]


def test_a_summary_of_nothing_that_is_known_is_named(tmp_path, opened):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / f"notes.txt{SUFFIX}").write_bytes(b"")
    workspace = opened(tmp_path / "logs")
    assert workspace.catalog.skipped() == [
        (
            str(tmp_path / "logs" / f"notes.txt{SUFFIX}"),
            "This is a rank summary, but the file name of its trace is not recognized.",
        )
    ]


def test_links_out_of_the_log_directory_are_no_summaries(logs, tree, opened):
    for file in (tree / "ddp").iterdir():
        (logs / "ddp" / file.name).symlink_to(file)
    workspace = opened(logs)
    assert not any(entry.files.summaries for entry in workspace.catalog.entries())


@pytest.fixture
def bucket(tree):
    """The summaries of a run in a remote place."""
    fs = fsspec.filesystem("memory")
    for path in sorted((tree / "ddp").iterdir()):
        fs.pipe_file(f"/bucket/ddp/{path.name}", path.read_bytes())
    yield "memory://bucket"
    fs.rm("/bucket", recursive=True)


@pytest.fixture
def copied(monkeypatch):
    """How often each file was copied."""
    count, real = Counter(), Folder.copy

    def copy(folder, file, *more):
        count[file.path] += 1
        real(folder, file, *more)

    monkeypatch.setattr(Folder, "copy", copy)
    return count


def polled(workspace, params=Params()):  # noqa: B008
    """The answer to the polls of a page."""
    answer = workspace.view(Place("ddp", None, "1"), "distributed", params)
    for _ in range(100):
        if isinstance(answer, bytes):
            return json.loads(answer)
        time.sleep(0.02)
        answer = workspace.view(Place("ddp", None, "1"), "distributed", params)
    raise AssertionError(answer)


@pytest.mark.parametrize("ask", ["page", "command"])
def test_copies_that_are_larger_than_the_cache_together_are_made_once(tree, bucket, opened, copied, ask):
    workspace = opened(bucket)
    sizes = [path.stat().st_size for path in (tree / "ddp").iterdir()]
    workspace._store.limit_bytes = 2 * max(sizes)
    if ask == "page":
        answer = polled(workspace)
    else:
        answer = json.loads(workspace.group(Place("ddp", None, "1"), "distributed", Params()))
    assert answer == view(opened(tree))
    assert sorted(copied.values()) == [1] * 4
    assert workspace._store.limit_bytes >= sum(path.stat().st_size for path in workspace.folder.glob(f"*{SUFFIX}"))
    polled(workspace, Params(table="collectives"))
    assert sorted(copied.values()) == [1] * 4, "the joined ranks are in the cache"


def test_a_copy_that_failed_is_tried_again_after_a_while(bucket, opened, monkeypatch):
    real, away = Folder.copy, [True]

    def copy(folder, file, *more):
        if away and "rank2" in file.path:
            raise StorageError("The storage is away.")
        real(folder, file, *more)

    monkeypatch.setattr(Folder, "copy", copy)
    workspace = opened(bucket)
    why = "{worker} (The trace is missing, and its summary cannot be read (The storage is away.))"
    assert why in told(polled(workspace))["worker_failed"]
    away.clear()
    assert why in told(polled(workspace))["worker_failed"], "not at once"
    monkeypatch.setattr(sources, "RETRY_SECONDS", -1.0)
    assert "worker_failed" not in told(polled(workspace))


def test_a_summary_that_could_not_be_read_is_tried_again_after_a_while(logs, tree, opened, monkeypatch):
    summarised(logs, tree)
    workspace = opened(logs)
    real, away = sources.open_local, [True]

    def open_local(file):
        if away and "rank2" in file.path:
            raise StorageError("The disk is away.")
        return real(file)

    monkeypatch.setattr(sources, "open_local", open_local)
    why = "Summary not used: rank2 (its summary cannot be read (The disk is away.))."
    assert told(view(workspace))["summary_refused"] == why
    away.clear()
    assert told(view(workspace))["summary_refused"] == why, "not at once"
    monkeypatch.setattr(sources, "RETRY_SECONDS", -1.0)
    assert "summary_refused" not in told(view(workspace))


def test_of_two_summaries_the_good_one_counts(logs, tree, opened, monkeypatch):
    paths = summarised(logs, tree)
    monkeypatch.setenv("TORCH_TRACE_SUMMARIES", str(tree))
    paths[0].write_bytes(b"no summary")
    workspace = opened(logs)
    assert workspace.profile(Place("ddp", "rank0", "1"), view="distributed").state == "ready"
    assert "summary_refused" not in told(view(workspace)) and not read_traces(workspace)
    good = tree / "ddp" / paths[1].name
    content = good.read_bytes()
    try:
        good.write_bytes(b"no summary, too")
        paths[1].write_bytes(b"no summary")
        workspace = opened(logs)
        assert told(view(workspace))["summary_refused"] == "Summary not used: rank1 (its summary is damaged)."
        assert len(read_traces(workspace)) == 1
    finally:
        good.write_bytes(content)


def test_parts_in_the_cache_take_no_more_than_the_workers_may(logs, opened, monkeypatch):
    workspace = opened(logs)
    asked, real = [], workspace._workers.submit
    monkeypatch.setattr(
        workspace._workers, "submit", lambda question, **more: asked.append((question, more)) or real(question, **more)
    )
    view(workspace)
    ((question, more),) = [each for each in asked if isinstance(each[0], WriteMergedPart)]
    size = sum(Path(path).stat().st_size for _, path in question.parts)
    assert more["heavy"] and more["peak_memory_bytes"] == questions.PROCESS_BYTES + 6 * size
    monkeypatch.setattr(questions, "budget_bytes", lambda: size)
    assert question.answer(workspace._workers._models, None) == {}
    monkeypatch.setattr(questions, "budget_bytes", lambda: size - 1)
    with pytest.raises(UserError, match="Merging the ranks needs 0 MB of memory") as caught:
        question.answer(workspace._workers._models, None)
    assert "TORCH_TRACE_MEMORY_MB=1" in caught.value.do
