"""A log directory with a thousand workers: one listing, linear work, and a parse only of what is asked for."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tb_plugin import registry
from tb_plugin.service.catalog import Place, ProfileCatalog
from tb_plugin.service.discovery import scan
from tb_plugin.service.discovery.scan import Root, Scanner
from tb_plugin.storage.files import Folder
from tb_plugin.storage.listing import Listing, StoredFile
from tests.service.fakes import SlowPool, catalog_of, trace_text, until, workspace_of, write_trace

CALLS = ("find", "ls", "info", "exists", "isdir", "isfile", "size", "modified", "cat_file", "_open", "get_file")


@pytest.fixture
def store(monkeypatch):
    """A store with 1,000 workers, and how often each of its methods was called."""
    fs = fsspec.filesystem("memory")
    for i in range(1000):
        fs.pipe(f"/many/run/rank{i}.1.pt.trace.json", trace_text().encode())
    calls: Counter[str] = Counter()
    depth = threading.local()

    def counted(name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(self: object, *args: object, **kwargs: object) -> object:
            outer = getattr(depth, "now", 0)
            calls[name] += outer == 0  # what a library asks itself is no request
            depth.now = outer + 1
            try:
                return real(self, *args, **kwargs)
            finally:
                depth.now = outer

        return call

    for name in CALLS:
        monkeypatch.setattr(MemoryFileSystem, name, counted(name, getattr(MemoryFileSystem, name)))
    yield "memory://many", calls
    fs.rm("/many", recursive=True)


def test_a_scan_of_a_store_is_one_listing_and_nothing_a_file(store):
    url, calls = store
    catalog = catalog_of(url)
    catalog.scan()
    assert len(catalog.entries()) == 1000
    # The first and the last worker are asked whether names of ranks are what files report.
    assert calls == Counter(find=1, cat_file=2)
    catalog.scan()
    assert len(catalog.payload().runs[0].workers) == 1000
    assert calls == Counter(find=2, cat_file=2)


def test_loading_one_of_a_store_touches_that_one(store, tmp_path, workers):
    url, calls = store
    with workspace_of(url, tmp_path / "cache", workers) as workspace:
        workspace.catalog.scan()
        workspace.load(Place(worker="rank7"))
    assert calls["find"] == 1 and calls["get_file"] == 1 and sum(calls.values()) <= 5, calls


def test_only_what_is_asked_for_is_parsed(tmp_path):
    for i in range(1000):
        write_trace(tmp_path / "logs" / f"rank{i}.1.pt.trace.json")
    with workspace_of(tmp_path / "logs", tmp_path / "cache", SlowPool(2)) as workspace:
        workspace.catalog.start()
        assert workspace.catalog.wait_first(20)
        workspace.load(Place(worker="rank500"))
        scans = workspace.catalog._last_scan_unix_ms
        assert until(lambda: workspace.catalog._last_scan_unix_ms > scans), "another scan begins none either"
        states = Counter(
            (worker.name == "rank500", span.state)
            for run in workspace.runs().runs
            for worker in run.workers
            for span in worker.spans
        )
    assert states == {(True, "ready"): 1, (False, "found"): 999}
    assert len((tmp_path / "logs" / "parses.log").read_text().split()) == 1


def steps_of(work: Callable[[], object]) -> int:
    """How many function calls a piece of work makes: a measure of it that no busy machine changes."""
    count = 0

    def tally(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(tally)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def listed(runs: int, workers: int) -> ProfileCatalog:
    """A catalog over a listing that needs no disk."""
    files = tuple(
        StoredFile(f"run{run}/rank{worker}.{i}.pt.trace.json", 1, "1")
        for run in range(runs)
        for worker in range(workers)
        for i in (1, 2)
    )
    folder = Folder("/nowhere")
    folder.list = lambda: Listing(files)  # type: ignore[method-assign]
    return ProfileCatalog(Scanner([Root(folder)], registry.readers()))


@pytest.mark.parametrize("shape", [lambda n: (1, n), lambda n: (n, 1)], ids=["workers", "runs"])
@pytest.mark.parametrize("what", ["first scan", "second scan", "payload", "find"])
def test_work_grows_with_the_number_of_profiles_and_no_faster(shape, what):
    def cost(count: int) -> int:
        catalog = listed(*shape(count))
        if what == "first scan":
            return steps_of(catalog.scan)
        catalog.scan()
        last = Place(*catalog.entries()[-1].key)
        return steps_of(
            {"second scan": catalog.scan, "payload": catalog.payload, "find": lambda: catalog.find(last)}[what]
        )

    # Sorting adds a little to ten times; a loop in a loop would be a hundred.
    assert cost(200) < 13 * cost(20)


def test_workers_are_listed_by_number(tmp_path):
    for name in ("rank10", "rank9", "rank1000", "rank", "b2", "rank09"):
        write_trace(tmp_path / "logs" / f"{name}.1.pt.trace.json")
    catalog = catalog_of(tmp_path / "logs")
    catalog.scan()
    workers = [worker.name for worker in catalog.payload().runs[0].workers]
    assert workers == ["b2", "rank", "rank09", "rank9", "rank10", "rank1000"]


def test_uncertain_files_are_looked_into_side_by_side(tmp_path, monkeypatch):
    """Each waits for seven others: one after the other would never end."""
    monkeypatch.setenv("TORCH_TRACE_GROUP", "folders")  # nobody is asked for a rank
    together, real = threading.Barrier(8, timeout=10), scan.read_head
    monkeypatch.setattr(scan, "read_head", lambda folder, path: (together.wait(), real(folder, path))[1])
    for i in range(8):
        write_trace(tmp_path / "logs" / f"profile{i}.json")
    catalog = catalog_of(tmp_path / "logs")
    catalog.scan()
    assert len(catalog.entries()) == 8
