"""Claims on files: a profile of 14 files is one profile, with no ghosts, and nothing of it is told as skipped."""

from __future__ import annotations

import json

import pytest

from tb_plugin import registry
from tb_plugin.formats.base import Candidate
from tb_plugin.service.catalog import Place
from tb_plugin.service.discovery.scan import NOT_A_TRACE, Root, Scanner
from tb_plugin.service.workers.pool import InlineWorkers
from tb_plugin.service.workspace import Workspace, open_catalog
from tb_plugin.storage.cache import FileStore
from tb_plugin.storage.files import Folder
from tests.folder_format import NAMES, RAW, TIME_NS, FolderReader
from tests.service.fakes import trace_text, write_trace


@pytest.fixture
def logs(tmp_path):
    logs = tmp_path / "logs"
    for name in (*NAMES, *RAW):
        path = logs / "job" / "w0_profile" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(trace_text() if "timeline" in name or "device" in name else json.dumps({"a": 1}))
    return logs


def scanned(logs, *readers):
    return Scanner([Root(Folder(str(logs)))], readers).scan()


@pytest.mark.parametrize(
    "readers", [(FolderReader(), *registry.readers()), (*registry.readers(), FolderReader())], ids=["first", "last"]
)
@pytest.mark.parametrize("is_certain", [True, False])
def test_a_folder_is_one_profile(logs, readers, is_certain):
    readers = [FolderReader(is_certain=is_certain) if reader.id == "folder" else reader for reader in readers]
    scan = scanned(logs, *readers)
    (found,) = scan.profiles
    assert (found.run, found.worker, found.span, found.stem) == ("job", "w0", "1", "w0")
    assert found.url == str(logs / "job" / "w0_profile")
    assert found.time_unix_ms == TIME_NS // 1_000_000
    assert scan.skipped == [] and scan.files == 14
    assert found.size_bytes == sum((logs / found.place / name).stat().st_size for name in NAMES)


def test_a_folder_that_turns_out_to_be_another_thing_claims_nothing(logs):
    path = logs / "job" / "w0_profile" / NAMES[0]
    path.write_text('{"version": 7, "traceEvents": []}')
    scan = scanned(logs, FolderReader(is_certain=False), *registry.readers())
    assert len(scan.profiles) == 2 and "folder" not in {found.reader.id for found in scan.profiles}
    told = {path.removeprefix(str(logs / "job")): why for path, why in scan.skipped}
    assert "table" in told.pop("/w0_profile/OUT")
    assert told == dict.fromkeys(("/w0_profile/info.json", "/w0_profile/OUT/communication.json"), NOT_A_TRACE)


def test_beside_it_stands_what_is_not_claimed(logs):
    write_trace(logs / "job" / "w.1.pt.trace.json")
    assert [found.worker for found in scanned(logs, FolderReader(), *registry.readers()).profiles] == ["w", "w0"]


def test_spans_of_one_worker_are_in_the_order_of_the_stated_time(tmp_path):
    class Stating:
        id, endings, raw = "stating", (".x",), object

        def find(self, listing):
            times = {"a.x": 3 * 10**18, "b.x": 2 * 10**18, "c.x": None}
            return [Candidate("stating", "", "w", None, (f.path,), True, time_unix_ns=times[f.path]) for f in listing]

    for name in ("a.x", "b.x", "c.x"):
        (tmp_path / name).write_bytes(b"x")
    found = scanned(tmp_path, Stating()).profiles
    assert [(f.names[0], f.span, f.time_unix_ms) for f in found] == [
        ("b.x", "1", 2 * 10**12),
        ("a.x", "2", 3 * 10**12),
        ("c.x", "default", None),
    ]


def test_a_folder_is_opened_and_its_main_file_is_the_original(logs, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_TRACE_EXTENSIONS", "tests.folder_format")
    catalog = open_catalog([("", str(logs))])
    workspace = Workspace(catalog, InlineWorkers(), FileStore(tmp_path / "cache"))
    try:
        catalog.scan()
        (span,) = workspace.runs().runs[0].workers[0].spans
        assert len(span.files) == 13
        assert workspace.load(Place()).summary.read.events_in_file == 4
        original = workspace.original(Place())
        assert (original.name, b"".join(original.chunks).decode()) == ("timeline.json", trace_text())
        assert workspace.window(Place()).name == "w0.window.json"
    finally:
        workspace.close()
