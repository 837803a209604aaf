"""Runs open from rank summaries: beside the traces, in a tree of their own, and where no trace is; bad ones cost a notice."""

from __future__ import annotations

import json
import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from werkzeug.test import Client

from tb_plugin import cli
from tb_plugin.analyses.base import Params
from tb_plugin.cli import summarize as command
from tb_plugin.errors import NotFound, StorageError, UnreadableTrace
from tb_plugin.service import cluster_parts, parts, rank_summary, summaries
from tb_plugin.service.catalog import Place
from tb_plugin.service.cluster import Scheduler
from tb_plugin.service.found import SummaryFile
from tb_plugin.service.listed_summaries import SUFFIX
from tb_plugin.service.pool import InlineWorkers
from tb_plugin.service.rank_summary import Settings, Wanted
from tb_plugin.service.states import Entry
from tb_plugin.service.summaries import Summaries
from tb_plugin.service.summarizing import Outcome, summarize_rank
from tb_plugin.service.workspace import Workspace
from tb_plugin.storage.cache import FileStore
from tb_plugin.storage.listing import StoredFile
from tb_plugin.web.routes import BASE, Routes
from tests.conftest import SAMPLES
from tests.service.fakes import catalog_of, until

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
        "The trace is not here: the log directory holds the summary of this rank, for the view Distributed alone."
    }
    for ask in (
        lambda: workspace.view(place, "overview", Params()),
        lambda: workspace.tiles(place, 0, []),
        lambda: workspace.window(place),
        lambda: workspace.original(place),
        lambda: workspace.csv(place, "operators", Params(table="operators")),
    ):
        with pytest.raises(NotFound, match="The trace is not here"):
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
    assert told(view(workspace)).keys() == {"straggler", "redundant_states"} or "straggler" in told(view(workspace))
    assert not read_traces(workspace)
    assert workspace.profile(place).state == "ready"  # the Overview, say
    assert len(read_traces(workspace)) == 1


def test_the_page_over_http(logs, tree, tmp_path, workers):
    summarised(logs, tree)
    workspace = Workspace(catalog_of(logs), workers, FileStore(tmp_path / "cache"))
    client = Client(Routes(lambda: workspace))
    try:
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
    finally:
        workspace.close()


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
    assert said.startswith("ddp: rank2 costs ")
    noting = Noting()
    workspace = Workspace(catalog_of(shown), noting, FileStore(cache))
    workspace.catalog.scan()
    assert "straggler" in told(view(workspace))
    workspace.close()
    assert noting.asked == ["AskViewTogether"] and not list(cache.glob("*.arrow"))


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
    assert "The ranks are not joined yet; TensorBoard will do it. " in capsys.readouterr().err


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


def test_an_older_summary_is_none(logs, tree, opened):
    paths = summarised(logs, tree)
    trace = Path(str(paths[0]).removesuffix(SUFFIX))
    later = paths[0].stat().st_mtime + 10
    os.utime(trace, (later, later))
    workspace = opened(logs)
    assert [entry.found.summary is None for entry in workspace.catalog.entries()] == [True, False, False, False]
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
        "Computed from the trace here: rank0, rank2 (its summary is damaged); rank1 (its summary is of another file); "
        "rank3 (its summary is of another version)."
    )
    assert len(read_traces(workspace)) == 4
    assert view(workspace) == answer  # also when the parts are kept
    for each in (answer, expected):
        each["payloads"].pop("findings")
    assert answer == expected


def test_summaries_that_are_too_much_together_are_refused(logs, tree, opened, monkeypatch):
    summarised(logs, tree)
    expected = view(opened(logs))
    sizes = [
        len(parts.dump(rank_summary.part_of(path.read_bytes(), WHATEVER))) for path in sorted((tree / "ddp").iterdir())
    ]
    monkeypatch.setattr(summaries, "budget_bytes", lambda: sum(sizes[:3]))
    answer = view(opened(logs))
    assert told(answer)["summary_refused"] == (
        "Computed from the trace here: rank3 (its summary does not fit into memory with those of the other ranks "
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
    assert "{worker} (The trace is not here, and its summary is damaged)" in told(answer)["worker_failed"]
    profile = workspace.profile(Place("ddp", "rank1", "1"))
    assert (profile.state, profile.problem.what) == ("failed", "The trace is not here, and its summary is damaged.")
    for other in sorted((tmp_path / "logs" / "ddp").iterdir()):
        other.write_bytes(b"")
    with pytest.raises((NotFound, UnreadableTrace), match="its summary is damaged"):
        view(opened(tmp_path / "logs"))


def test_a_tree_that_the_environment_names(logs, tree, opened, monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_TRACE_SUMMARIES", str(tree))
    workspace = opened(logs)
    assert {entry.found.run for entry in workspace.catalog.entries()} == {"ddp"}
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
        (str(tmp_path / "logs" / f"notes.txt{SUFFIX}"), "A rank summary of a file whose name no reader knows.")
    ]


def test_links_out_of_the_log_directory_are_no_summaries(logs, tree, opened):
    for file in (tree / "ddp").iterdir():
        (logs / "ddp" / file.name).symlink_to(file)
    workspace = opened(logs)
    assert all(entry.found.summary is None for entry in workspace.catalog.entries())


class FakeCluster:
    """Computes in the thread that asks, as a cluster that answers would."""

    def __init__(self, scheduler):
        self.threads = {threading.current_thread().name}
        self.jobs = []

    def submit(self, jobs):
        self.jobs += jobs

    def cancel(self, names):
        self.jobs = [job for job in self.jobs if job.name not in names]

    def done(self, seconds):
        jobs, self.jobs = self.jobs, []
        return [
            Outcome(job.name, "failed", reason="It fell over.") if "rank3" in job.name else summarize_rank(job)
            for job in jobs
        ]

    def close(self):
        pass


SCHEDULER = Scheduler("tcp://127.0.0.1:1")


def on_a_cluster(opened, logs, monkeypatch, connect):
    monkeypatch.setattr(cluster_parts.ClusterParts.__init__, "__defaults__", (connect,))
    workspace = opened(logs, scheduler=SCHEDULER)
    asked = ("distributed", Params())
    assert until(lambda: isinstance(workspace.view(Place("ddp", None, "1"), *asked), bytes), 30)
    return workspace


def test_a_cluster_computes_what_is_missing(logs, opened, monkeypatch):
    expected = view(opened(logs))
    workspace = on_a_cluster(opened, logs, monkeypatch, FakeCluster)
    answer = view(workspace)
    assert len(read_traces(workspace)) == 1, "the rank that failed there is computed here"
    assert told(answer)["summary_refused"] == "Computed from the trace here: rank3 (the cluster: It fell over.)."
    for each in (answer, expected):
        each["payloads"].pop("findings")
    assert answer == expected
    assert not list((logs / "ddp").glob(f"*{SUFFIX}")), "nothing is written but the cache"


def test_without_its_cluster_everything_is_computed_here(logs, opened, monkeypatch):
    def away(scheduler):
        raise NotFound("The cluster cannot be used: nobody is there.", scheduler.address)

    workspace = on_a_cluster(opened, logs, monkeypatch, away)
    text = told(view(workspace))["summary_refused"]
    assert text == (
        "Computed from the trace here: rank0, rank1, rank2, rank3 (The cluster cannot be used: nobody is there.)."
    )
    assert len(read_traces(workspace)) == 4


def test_a_copy_that_failed_is_tried_again_after_a_while(tmp_path, monkeypatch):
    away = [True, True]

    def copying():
        return [thread for thread in threading.enumerate() if thread.name == "torch-trace-summaries"]

    class Bucket:
        is_local = False

        def locate(self, path):
            return f"s3://bucket/{path}"

        def copy(self, file, target):
            assert [thread.daemon for thread in copying()] == [True], "Python ends without them"
            if away and away.pop():
                raise StorageError("The storage is away.")
            target.write_bytes(b"a summary")

    file = SummaryFile(Bucket(), StoredFile(f"rank0.json{SUFFIX}", 9, "1"))
    catalog = catalog_of(SAMPLES / "synthetic_ddp")
    catalog.scan()
    profile = catalog.matching(Place())[0].found
    entry = Entry(replace(profile, summary=file))
    copied = Summaries(FileStore(tmp_path / "cache"))

    def asked():
        copied.begin([entry])
        copied.wait()
        assert until(lambda: not copying()), "no thread stays"
        return copied.begin([entry])[entry]

    for _ in range(3):
        assert asked() == "cannot be read (The storage is away.)"
    assert away == [True], "it is not asked for again at once"
    monkeypatch.setattr(summaries, "RETRY_SECONDS", 0.0)
    assert "away" in asked() and not away
    assert Path(asked().file.path).read_bytes() == b"a summary"
