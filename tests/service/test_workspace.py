"""Loading: states, one parse for many, deaths, changes, leases, the cache."""

from __future__ import annotations

import gzip
import json
import os
import threading
import time
from pathlib import Path

import fsspec
import pytest

from tb_plugin.analysis.base import Params
from tb_plugin.errors import BadRequest, Cancelled, NotFoundError, StorageError, UnreadableTrace, WorkerDied
from tb_plugin.payloads import Profile
from tb_plugin.service import loader
from tb_plugin.service.answers import profile_info
from tb_plugin.service.catalog import Place
from tb_plugin.service.workers.pool import InlineWorkers
from tb_plugin.service.workspace import Workspace
from tb_plugin.storage.cache import FileStore
from tb_plugin.storage.files import Folder
from tests.builders import kernel, trace
from tests.service.fakes import LastingSlowPool, catalog_of, trace_text, until, write_trace


@pytest.fixture(scope="module")
def slow():
    """Workers of which every parse is slow and counted."""
    pool = LastingSlowPool(2)
    yield pool
    pool.end()


@pytest.fixture
def opened(tmp_path, slow):
    """Opens a workspace over a folder; all are closed at the end."""
    spaces = []

    def make(url, workers=None, cache="cache", scan=True):
        workspace = Workspace(catalog_of(url), workers or slow, FileStore(tmp_path / cache))
        spaces.append(workspace)
        if scan:
            workspace.catalog.scan()
        return workspace

    yield make
    for workspace in spaces:
        workspace.close()


def inline(opened, url, **more):
    return opened(url, InlineWorkers(), **more)


def parses(folder):
    log = folder / "parses.log"
    return len(log.read_text().split()) if log.exists() else 0


def state(workspace, **more):
    return workspace.profile(Place(), **more).state


def test_nothing_is_parsed_unasked(tmp_path, opened):
    write_trace(tmp_path / "logs" / "w.1.pt.trace.json")
    workspace = opened(tmp_path / "logs")
    workspace.runs()
    assert state(workspace, start=False) == "found"
    assert parses(tmp_path / "logs") == 0


def test_steps_with_their_device_work_and_on_the_host_alone(tmp_path, opened):
    (tmp_path / "logs").mkdir()
    builder = trace().step(1, 0, 100).op("a", 0, 20).launches(kernel("k", 200, 50)).step(2, 100, 300)
    builder.op("a", 110, 20).launches(kernel("k", 20, 260))
    (tmp_path / "logs" / "w.1.pt.trace.json").write_bytes(builder.bytes())
    workspace = inline(opened, tmp_path / "logs")
    (span,) = workspace.runs().runs[0].workers[0].spans
    assert (span.key_figures, span.device, span.step_count) == ([], None, None)
    assert until(lambda: state(workspace) == "ready")
    (span,) = workspace.runs().runs[0].workers[0].spans
    assert [(f.metric.title, f.value) for f in span.key_figures] == [("Step time", 200_000), ("GPU busy", 220 / 400)]
    assert (span.device, span.step_count) == ("device 0", 2)
    first, second = workspace.profile(Place()).steps
    assert (first.start_ns, first.end_ns, second.start_ns) == (0, 250_000, 250_000)
    assert (first.host_start_ns, first.host_end_ns, second.host_start_ns) == (0, 100_000, 100_000)


def test_found_loading_ready(tmp_path, opened):
    write_trace(tmp_path / "logs" / "w.1.pt.trace.json")
    workspace = opened(tmp_path / "logs")
    first = workspace.profile(Place())
    assert (first.state, first.read, first.default_view) == ("loading", None, "overview")
    assert all(view.available for view in first.views) and "overview" in [view.id for view in first.views]
    assert until(lambda: 0 < workspace.profile(Place()).fraction < 1)
    assert until(lambda: state(workspace) == "ready")
    ready = workspace.profile(Place())
    assert ready.fraction == 1 and ready.read.events_in_file == 4
    assert [step.label for step in ready.steps] == ["5", "6"]
    views = {view.id: view for view in ready.views}
    assert views["overview"].available
    assert views["diff"].available and not views["memory"].available
    assert "events" not in views


def test_a_loading_profile_says_how_far_it_is(tmp_path, opened):
    write_trace(tmp_path / "logs" / "slow.1.pt.trace.json")
    workspace = opened(tmp_path / "logs")
    waiting = workspace.profile(Place())
    assert (waiting.events_read, waiting.loading.stage, waiting.loading.counts) == (0, "waiting", {})
    assert waiting.loading.fraction is None, "nobody knows how long a queue takes"
    assert until(lambda: workspace.profile(Place()).events_read > 0)
    profile = workspace.profile(Place())
    assert (profile.state, profile.loading.stage) == ("loading", "reading")
    assert profile.loading.counts == {"operator": profile.events_read}
    assert profile.loading.fraction == profile.fraction > 0
    later = workspace.profile(Place()).loading
    assert later.seconds > profile.loading.seconds, "the time runs between two reports too"


def test_a_parse_names_its_stages_and_counts_what_it_reads(tmp_path, opened):
    seen = []
    write_trace(tmp_path / "logs" / "w.1.pt.trace.json")
    workspace = opened(tmp_path / "logs", InlineWorkers(seen.append))
    workspace.load(Place())
    assert list(dict.fromkeys(progress.stage for progress in seen)) == [
        "reading",
        "assembling",
        "writing",
        "summarising",
    ]
    assert {(p.fraction, p.events, *p.counts.items()) for p in seen if p.stage != "reading"} == {
        (1.0, 4, ("operator", 2), ("annotation", 2))
    }
    ready = workspace.profile(Place())
    assert (ready.events_read, ready.loading) == (4, None)


def test_a_parse_says_what_the_file_states_ahead_of_its_events(tmp_path, opened):
    seen = []
    builder = trace().op("a", 0, 5)
    builder.root |= {"deviceProperties": [{"id": i, "name": "V100"} for i in range(8)], "with_stack": 1}
    builder.root |= {"distributedInfo": {"rank": 3, "world_size": 8}}
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "w.1.pt.trace.json").write_bytes(builder.bytes())
    opened(tmp_path / "logs", InlineWorkers(seen.append)).load(Place())
    told = {figure.metric.title: figure.value for figure in seen[-1].profile_info}
    assert told == {"Devices": "8 × V100", "Rank": "3", "World size": "8", "Profiler options": "with_stack"}


def test_a_remote_profile_is_copied_first(remote, opened, monkeypatch):
    url, _ = remote
    seen, real = [], Folder.copy

    def copy(self, file, target, watch):
        watch(file.size // 2)
        profile = workspace.profile(Place("run", "w0"))
        seen.append((profile.loading.stage, round(profile.loading.fraction, 1), round(profile.fraction, 1)))
        real(self, file, target, watch)

    monkeypatch.setattr(Folder, "copy", copy)
    workspace = inline(opened, url)
    workspace.load(Place("run", "w0"))
    assert seen == [("copying", 0.5, 0.2)]


def test_twenty_threads_one_parse(tmp_path, opened):
    write_trace(tmp_path / "logs" / "w.1.pt.trace.json")
    workspace = opened(tmp_path / "logs")
    answers = []

    def ask():
        workspace.load(Place())
        answers.append(workspace.view(Place(), "overview", Params()))

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert parses(tmp_path / "logs") == 1
    assert len(answers) == 20 and len(set(answers)) == 1 and isinstance(answers[0], bytes)


def test_a_view_of_an_unloaded_profile_is_its_state(tmp_path, opened):
    write_trace(tmp_path / "logs" / "w.1.pt.trace.json")
    workspace = opened(tmp_path / "logs")
    answer = workspace.view(Place(), "overview", Params())
    assert isinstance(answer, Profile) and answer.state == "loading"


def test_worker_killed_twice_is_failed_until_the_file_changes(tmp_path, opened):
    path = write_trace(tmp_path / "logs" / "deadly.1.pt.trace.json")
    workspace = opened(tmp_path / "logs")
    with pytest.raises(WorkerDied):
        workspace.load(Place())
    assert parses(tmp_path / "logs") == 2
    failed = workspace.profile(Place())
    assert failed.state == "failed" and "SIGKILL" in failed.problem.what
    with pytest.raises(WorkerDied):
        workspace.view(Place(), "overview", Params())
    assert parses(tmp_path / "logs") == 2
    span = workspace.runs().runs[0].workers[0].spans[0]
    assert span.state == "failed" and span.problem == failed.problem
    assert state(workspace, retry=True) == "loading"
    assert until(lambda: state(workspace) == "failed")
    assert parses(tmp_path / "logs") == 4
    write_trace(path, "another")
    workspace.catalog.scan()
    assert state(workspace, start=False) == "found"


def test_worker_killed_once_is_retried(tmp_path, opened):
    write_trace(tmp_path / "logs" / "slow.1.pt.trace.json")
    workspace = opened(tmp_path / "logs")
    workspace.profile(Place())
    assert until(lambda: parses(tmp_path / "logs") == 1)
    os.kill(int((tmp_path / "logs" / "parses.log").read_text()), 9)
    assert until(lambda: parses(tmp_path / "logs") == 2)
    assert state(workspace) == "loading"


def test_half_written_file_is_read_again_when_it_is_whole(tmp_path, opened):
    path = tmp_path / "logs" / "w.1.pt.trace.json.gz"
    path.parent.mkdir()
    whole = gzip.compress(trace_text(*(f"op{i}" for i in range(3000))).encode())
    path.write_bytes(whole[: len(whole) // 3])
    workspace = inline(opened, path.parent)
    half = workspace.load(Place()).summary.read
    assert not half.complete
    path.write_bytes(whole)
    workspace.catalog.scan()
    read = workspace.load(Place()).summary.read
    assert read.complete and read.events_loaded > half.events_loaded


def test_unreadable_file_fails_and_recovers(tmp_path, opened):
    path = tmp_path / "logs" / "w.1.pt.trace.json"
    path.parent.mkdir()
    path.write_text("nothing like a trace")
    workspace = inline(opened, path.parent)
    with pytest.raises(UnreadableTrace):
        workspace.load(Place())
    assert state(workspace) == "failed"
    write_trace(path)
    workspace.catalog.scan()
    assert workspace.load(Place()).state == "ready"


def test_file_that_cannot_be_opened(tmp_path, opened):
    path = write_trace(tmp_path / "logs" / "w.1.pt.trace.json")
    workspace = inline(opened, path.parent)
    path.unlink()  # between the scan and the parse; root may read any file, so no chmod here
    with pytest.raises(Exception, match=r"storage reported an error|does not exist|No such file"):
        workspace.load(Place())
    assert state(workspace) == "failed"


def test_new_and_vanished_files_appear_by_themselves(tmp_path, opened):
    logs = tmp_path / "logs"
    one = write_trace(logs / "a.1.pt.trace.json")
    workspace = opened(logs, scan=False)
    workspace.catalog.start()
    assert workspace.catalog.wait_first(10)

    def workers():
        return [worker.name for run in workspace.runs().runs for worker in run.workers]

    assert workers() == ["a"]
    write_trace(logs / "b.1.pt.trace.json")
    assert until(lambda: workers() == ["a", "b"])
    one.unlink()
    assert until(lambda: workers() == ["b"])
    with pytest.raises(NotFoundError):
        workspace.profile(Place(worker="a"))


@pytest.mark.parametrize("ends", ["ready", "failed"])
@pytest.mark.parametrize(
    "ask",
    [
        lambda space: space.view(Place(), "overview", Params()),
        lambda space: space.tiles(Place(), 0, []),
        lambda space: space.window(Place()),
        lambda space: space.stacks(Place(), Params(), "folded"),
        lambda space: space.original(Place()),
    ],
    ids=["view", "tiles", "window", "stacks", "original"],
)
def test_what_ends_while_a_question_is_turned_away_is_told_as_loading(tmp_path, opened, monkeypatch, ask, ends):
    """The answer is a profile, and a profile that is ready would be taken for what was asked for."""
    path = write_trace(tmp_path / "logs" / "w.1.pt.trace.json")
    if ends == "failed":
        path.write_text("{ this is no trace")
    workspace = opened(path.parent)
    payload_of = profile_info.profile_of

    def late(entry):
        assert until(lambda: entry.state == ends)
        return payload_of(entry)

    monkeypatch.setattr(profile_info, "profile_of", late)
    assert ask(workspace).state == "loading"


def test_vanished_file_stops_its_parse(tmp_path, opened):
    path = write_trace(tmp_path / "logs" / "slow.1.pt.trace.json")
    workspace = opened(path.parent)
    entry = workspace.catalog.find(Place())
    workspace.profile(Place())
    assert until(lambda: entry.fraction > 0)
    job = entry.job
    path.unlink()
    workspace.catalog.scan()
    with pytest.raises(Cancelled):
        job.future.result(5)


def test_lease_ends_a_parse_that_nobody_asks_about(tmp_path, opened, monkeypatch):
    monkeypatch.setattr(loader, "ABANDONED_READ_SECONDS", 0.3)
    write_trace(tmp_path / "logs" / "slow.1.pt.trace.json")
    workspace = opened(tmp_path / "logs", scan=False)
    workspace.catalog.start()
    workspace.catalog.wait_first(10)
    assert until(lambda: state(workspace) == "loading" and parses(tmp_path / "logs"))
    assert until(lambda: state(workspace, start=False) == "found")
    assert state(workspace) == "loading"


def test_polling_keeps_the_lease(tmp_path, opened, monkeypatch):
    monkeypatch.setattr(loader, "ABANDONED_READ_SECONDS", 0.5)
    write_trace(tmp_path / "logs" / "w.1.pt.trace.json")
    workspace = opened(tmp_path / "logs", scan=False)
    workspace.catalog.start()
    workspace.catalog.wait_first(10)
    assert until(lambda: state(workspace) == "ready")
    assert parses(tmp_path / "logs") == 1


def test_cache_survives_a_restart(tmp_path, opened):
    write_trace(tmp_path / "logs" / "w.1.pt.trace.json")
    opened(tmp_path / "logs").load(Place())
    again = opened(tmp_path / "logs")
    assert state(again) == "ready"
    assert parses(tmp_path / "logs") == 1


def test_evicted_columns_are_parsed_again(tmp_path, opened):
    write_trace(tmp_path / "logs" / "w.1.pt.trace.json")
    workspace = opened(tmp_path / "logs")
    Path(workspace.load(Place()).path).unlink()
    assert isinstance(workspace.view(Place(), "overview", Params()), Profile)
    workspace.load(Place())
    assert parses(tmp_path / "logs") == 2


def test_memory_files_are_copied_first(tmp_path, opened, workers):
    fs = fsspec.filesystem("memory")
    fs.pipe("/work/w.1.pt.trace.json.gz", gzip.compress(trace_text().encode()))
    try:
        workspace = opened("memory://work", workers)
        assert workspace.load(Place()).summary.read.events_in_file == 4
        assert b"".join(workspace.original(Place()).chunks) == fs.cat("/work/w.1.pt.trace.json.gz")
    finally:
        fs.rm("/work", recursive=True)


def test_remote_file_that_vanished_fails(tmp_path, opened):
    fs = fsspec.filesystem("memory")
    fs.pipe("/gone/w.1.pt.trace.json", trace_text().encode())
    workspace = opened("memory://gone")
    fs.rm("/gone", recursive=True)
    workspace.profile(Place())
    assert until(lambda: state(workspace) == "failed")


@pytest.fixture
def remote():
    """A remote place with two profiles: its URL and its file system."""
    fs = fsspec.filesystem("memory")
    for worker in ("w0", "w1"):
        fs.pipe(f"/far/run/{worker}.1.pt.trace.json", trace_text().encode())
    yield "memory://far", fs
    fs.rm("/far", recursive=True)


def test_a_copy_waits_in_the_cache_until_it_is_parsed(remote, opened, monkeypatch):
    url, _ = remote
    workspace = inline(opened, url)
    store, parse = workspace._store, workspace._loader._parse
    store.limit_bytes = 1
    kept = []

    def crowded(entry, load, paths, held):
        store.put("another", ".bin", lambda partial: partial.write_bytes(b"x" * 1000))
        kept.extend(Path(path).exists() for path in paths.values())
        parse(entry, load, paths, held)

    monkeypatch.setattr(workspace._loader, "_parse", crowded)
    workspace.load(Place("run", "w0"))
    assert kept == [True]
    store.evict()
    assert not list(store.folder.glob("*.json")), "and no longer"


def test_few_profiles_are_copied_at_a_time(remote, opened, monkeypatch):
    url, fs = remote
    for i in range(12):
        fs.pipe(f"/far/run/x{i}.1.pt.trace.json", trace_text().encode())
    at_once, most, lock, real = [], [], threading.Lock(), Folder.copy

    def copy(self, file, target, watch):
        with lock:
            at_once.append(file.path)
            most.append(len(at_once))
        time.sleep(0.05)
        real(self, file, target, watch)
        with lock:
            at_once.remove(file.path)

    monkeypatch.setattr(Folder, "copy", copy)
    workspace = inline(opened, url)
    for entry in workspace.catalog.entries():
        workspace._loader.begin(entry)
    for entry in workspace.catalog.entries():
        workspace.load(Place(*entry.key))
    assert len(most) == 14 and max(most) == loader._COPIES


def test_a_copy_that_nobody_waits_for_is_not_begun(remote, opened, monkeypatch):
    url, _ = remote
    copied = []
    monkeypatch.setattr(Folder, "copy", lambda self, file, target, watch: copied.append(file.path))
    workspace = inline(opened, url)
    entry = workspace.catalog.find(Place("run", "w0"))
    monkeypatch.setattr(workspace._loader, "_copying", threading.Semaphore(0))
    workspace._loader.begin(entry)
    workspace._loader.drop(entry)
    workspace._loader._copying.release()
    assert until(lambda: workspace._loader._copying._value == 1)
    assert copied == [] and not list(workspace._store.folder.iterdir())


def test_the_original_of_what_was_loaded_outlives_its_store(remote, opened, monkeypatch):
    url, _ = remote
    workspace = inline(opened, url)
    workspace.load(Place("run", "w0"))

    def refuse(self, *args):
        raise StorageError("The storage refused.", str(args))

    monkeypatch.setattr(Folder, "open", refuse)
    monkeypatch.setattr(Folder, "copy", refuse)
    assert b"".join(workspace.original(Place("run", "w0")).chunks) == trace_text().encode()
    assert until(lambda: workspace.profile(Place("run", "w1")).state == "failed")
    with pytest.raises(StorageError):
        workspace.original(Place("run", "w1"))


def test_the_original_is_handed_out_only_when_it_was_read_as_a_profile(tmp_path, opened):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "key.1.pt.trace.json").write_text("-----BEGIN KEY")
    workspace = inline(opened, tmp_path / "logs")
    workspace.profile(Place())
    with pytest.raises(UnreadableTrace):
        workspace.original(Place())
    path = write_trace(tmp_path / "logs" / "a.1.pt.trace.json")
    workspace.catalog.scan()
    workspace.load(Place(worker="a"))
    assert b"".join(workspace.original(Place(worker="a")).chunks) == path.read_bytes()
    path.unlink()
    path.symlink_to(tmp_path / "logs" / "key.1.pt.trace.json")  # before the next scan
    with pytest.raises(StorageError, match="replaced after it was listed"):
        workspace.original(Place(worker="a"))


def test_a_pipe_in_place_of_a_file_holds_nothing_up(tmp_path, opened):
    path = write_trace(tmp_path / "logs" / "w.1.pt.trace.json")
    workspace = opened(tmp_path / "logs")
    path.unlink()
    os.mkfifo(path)
    workspace.profile(Place())
    assert until(lambda: workspace.catalog.entries() == [], 10), "the scan that the failure asks for finds no file"


def test_one_of_several_directories_that_fails_hides_no_other(tmp_path):
    write_trace(tmp_path / "logs" / "w.1.pt.trace.json")
    catalog = catalog_of(tmp_path / "logs", tmp_path / "none")
    catalog.scan()
    payload = catalog.payload()
    assert [run.name for run in payload.runs] == ["logs"]
    assert [(problem.where, problem.what) for problem in payload.problems] == [
        (str(tmp_path / "none"), "The path does not exist.")
    ]
    (tmp_path / "none").mkdir()
    catalog.scan()
    assert catalog.payload().problems == []


def test_places(tmp_path, opened):
    for worker in ("a", "b"):
        for token in (1, 2):
            write_trace(tmp_path / "logs" / f"{worker}.{token}.pt.trace.json")
    workspace = opened(tmp_path / "logs")
    find = workspace.catalog.find
    assert find(Place()).key == ("logs", "a", "1")
    assert find(Place("logs", "b", "2")).key == ("logs", "b", "2")
    with pytest.raises(BadRequest, match="2 workers"):
        find(Place("logs"))
    with pytest.raises(BadRequest, match="2 spans"):
        find(Place(worker="b"))
    for place in (Place("x"), Place("logs", "c"), Place("logs", "a", "3"), Place("../..")):
        with pytest.raises(NotFoundError):
            find(place)


def test_active_until_the_first_scan_finds_only_event_files(tmp_path, opened):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "events.out.tfevents.1700000000.host.7.0").write_bytes(b"x")
    workspace = opened(tmp_path / "logs", scan=False)
    assert workspace.catalog.is_active
    workspace.catalog.scan()
    assert not workspace.catalog.is_active
    write_trace(tmp_path / "logs" / "w.1.pt.trace.json")
    workspace.catalog.scan()
    assert workspace.catalog.is_active


def test_a_missing_logdir_is_active_and_says_so(tmp_path, opened):
    workspace = opened(tmp_path / "none")
    assert workspace.catalog.is_active
    assert "does not exist" in workspace.runs().problems[0].what
    with pytest.raises(NotFoundError):
        workspace.profile(Place())


def test_a_view_that_does_not_exist(tmp_path, opened):
    write_trace(tmp_path / "logs" / "w.1.pt.trace.json")
    workspace = inline(opened, tmp_path / "logs")
    with pytest.raises(NotFoundError):
        workspace.view(Place(), "nonsense", Params())


def test_steps_reach_the_analysis(tmp_path, opened):
    write_trace(tmp_path / "logs" / "w.1.pt.trace.json", "a", "b")
    workspace = inline(opened, tmp_path / "logs")
    view = json.loads(workspace.view(Place(), "operators", Params(), "5"))
    assert view["coverage"]["steps"] == ["5"]
    assert [row["name"] for row in view["payloads"]["operators"]["rows"]] == ["a"]
    with pytest.raises(BadRequest):
        workspace.view(Place(), "operators", Params(), "99")


def test_csv_has_units_and_no_formulas(tmp_path, opened):
    write_trace(tmp_path / "logs" / "w.1.pt.trace.json", "=cmd()", 'a"b,c')
    workspace = inline(opened, tmp_path / "logs")
    text = workspace.csv(Place(), "operators", Params(table="operators", limit=None)).decode()
    header, *rows = text.split("\r\n")
    assert "Host self [ns]" in header
    assert any(row.startswith("'=cmd()") for row in rows) and any(row.startswith('"a""b,c"') for row in rows)
    with pytest.raises(NotFoundError):
        workspace.csv(Place(), "operators", Params(table="nonsense"))


def test_window_holds_only_its_events_with_exact_times(tmp_path, opened):
    logs = tmp_path / "logs"
    logs.mkdir()
    events = [
        {"ph": "X", "cat": "cpu_op", "name": n, "pid": 1, "tid": 1, "ts": ts, "dur": 5}
        for n, ts in (("a", "TS1"), ("b", "TS2"))
    ]
    text = json.dumps({"traceEvents": events})
    text = text.replace('"TS1"', "1795200788569794.381").replace('"TS2"', "1795200788579794.382")
    (logs / "w.1.pt.trace.json").write_text(text)
    workspace = inline(opened, logs)

    def window(*bounds):
        data = gzip.decompress(b"".join(workspace.window(Place(), "", *bounds).chunks))
        assert json.loads(data)["traceEvents"]
        return data, [e["name"] for e in json.loads(data)["traceEvents"] if e["ph"] == "X"]

    data, names = window(None, None)
    assert names == ["a", "b"]
    assert b'"ts":1795200788569794.381' in data and b'"ts":1795200788579794.382' in data
    assert window(0, 1000)[1] == ["a"]
    assert window(10_000_001, None)[1] == ["b"]


def test_scan_errors_do_not_end_the_thread(tmp_path, opened, caplog, monkeypatch):
    write_trace(tmp_path / "logs" / "w.1.pt.trace.json")
    workspace = opened(tmp_path / "logs", scan=False)
    real, calls = workspace.catalog._scanner.scan, []

    def scan():
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("once")
        return real()

    monkeypatch.setattr(workspace.catalog._scanner, "scan", scan)
    workspace.catalog.start()
    assert until(lambda: workspace.catalog.entries())
    assert "once" in caplog.text


def test_close_ends_the_thread(tmp_path, opened):
    write_trace(tmp_path / "logs" / "w.1.pt.trace.json")
    workspace = opened(tmp_path / "logs", scan=False)
    workspace.catalog.start()
    workspace.close()
    assert not [t for t in threading.enumerate() if t is workspace.catalog._thread]
