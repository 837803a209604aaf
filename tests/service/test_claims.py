"""Claims on files: a profile of 14 files is one profile, with no ghosts, and nothing of it is told as skipped."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import PurePosixPath

import pytest

from tb_plugin.readers import READERS
from tb_plugin.readers.base import Candidate
from tb_plugin.readers.kineto import KinetoReader
from tb_plugin.service.catalog import Place, ProfileCatalog
from tb_plugin.service.discovery import NOT_A_TRACE, Root, Scanner
from tb_plugin.service.pool import InlineWorkers
from tb_plugin.service.workspace import Workspace
from tb_plugin.storage.cache import FileStore
from tb_plugin.storage.files import FileSource, Folder
from tests.service.fakes import trace_text, write_trace

NAMES = (
    "OUT/timeline.json",  # Kineto's reader would take it
    "OUT/communication.json",  # it would ask for it, and tell that it is no trace
    *(f"OUT/table_{i}.csv" for i in range(10)),
    "info.json",
)
RAW = ("PROF_1/device.json",)
TIME_NS = 1_741_000_000_000_000_000


@dataclass
class FolderReader:
    """A format that is a folder: what it reads is in OUT, what lies beside it is raw data."""

    id: str = "folder"
    endings: tuple[str, ...] = ("_profile/",)
    is_certain: bool = True

    def find(self, listing):
        found = []
        for root in dict.fromkeys(file.path.partition("_profile/")[0] for file in listing if "_profile/" in file.path):
            place = f"{root}_profile"
            mine = [file.path for file in listing if file.path.startswith(f"{place}/")]
            read = [f"{place}/{name}" for name in NAMES if f"{place}/{name}" in mine]
            also = tuple(path for path in mine if path not in read)
            run, worker = str(PurePosixPath(root).parent), PurePosixPath(root).name
            found.append(
                Candidate(self.id, run, worker, None, tuple(read), self.is_certain, place, also, time_unix_ns=TIME_NS)
            )
        return found

    def sniff(self, head):
        return b'"version": 7' not in head

    def need_bytes(self, sizes):
        assert len(sizes) == 13
        return 1

    def read(self, source, options, progress):
        assert len(source.names()) == 13 and all(source.size(name) for name in source.names())
        only = _Only(source, source.names()[0])
        return KinetoReader().read(only, options, progress)


class _Only:
    """One file of a folder as a source of its own."""

    def __init__(self, source: FileSource, name: str) -> None:
        self._source, self._name = source, name

    def names(self):
        return [self._name]

    def open(self, name):
        return self._source.open(name)

    def size(self, name):
        return self._source.size(name)


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


@pytest.mark.parametrize("readers", [(FolderReader(), *READERS), (*READERS, FolderReader())], ids=["first", "last"])
@pytest.mark.parametrize("is_certain", [True, False])
def test_a_folder_is_one_profile(logs, readers, is_certain):
    readers = [FolderReader(is_certain=is_certain) if reader.id == "folder" else reader for reader in readers]
    scan = scanned(logs, *readers)
    (found,) = scan.found
    assert (found.run, found.worker, found.span, found.stem) == ("job", "w0", "1", "w0")
    assert found.url == str(logs / "job" / "w0_profile")
    assert found.time_unix_ms == TIME_NS // 1_000_000
    assert scan.skipped == [] and scan.files == 14
    assert found.size_bytes == sum((logs / found.place / name).stat().st_size for name in NAMES)


def test_a_folder_that_turns_out_to_be_another_thing_claims_nothing(logs):
    path = logs / "job" / "w0_profile" / NAMES[0]
    path.write_text('{"version": 7, "traceEvents": []}')
    scan = scanned(logs, FolderReader(is_certain=False), *READERS)
    assert len(scan.found) == 2 and "folder" not in {found.reader.id for found in scan.found}
    told = {path.removeprefix(str(logs / "job")): why for path, why in scan.skipped}
    assert told == dict.fromkeys(("/w0_profile/info.json", "/w0_profile/OUT/communication.json"), NOT_A_TRACE)


def test_beside_it_stands_what_is_not_claimed(logs):
    write_trace(logs / "job" / "w.1.pt.trace.json")
    assert [found.worker for found in scanned(logs, FolderReader(), *READERS).found] == ["w", "w0"]


def test_spans_of_one_worker_are_in_the_order_of_the_stated_time(tmp_path):
    class Stating:
        id, endings = "stating", (".x",)

        def find(self, listing):
            times = {"a.x": 3 * 10**18, "b.x": 2 * 10**18, "c.x": None}
            return [Candidate("stating", "", "w", None, (f.path,), True, time_unix_ns=times[f.path]) for f in listing]

    for name in ("a.x", "b.x", "c.x"):
        (tmp_path / name).touch()
    found = scanned(tmp_path, Stating()).found
    assert [(f.names[0], f.span, f.time_unix_ms) for f in found] == [
        ("b.x", "1", 2 * 10**12),
        ("a.x", "2", 3 * 10**12),
        ("c.x", "default", None),
    ]


def test_a_folder_is_opened_and_its_main_file_is_the_original(logs, tmp_path, monkeypatch):
    reader = FolderReader()
    monkeypatch.setattr("tb_plugin.readers.READERS", (*READERS, reader))
    for module in ("parse",):
        monkeypatch.setattr(f"tb_plugin.service.{module}.READERS", (*READERS, reader))
    catalog = ProfileCatalog(Scanner([Root(Folder(str(logs)))], (*READERS, reader)))
    workspace = Workspace(catalog, InlineWorkers(), FileStore(tmp_path / "cache"))
    try:
        catalog.scan()
        (span,) = workspace.runs().runs[0].workers[0].spans
        assert len(span.files) == 13
        assert workspace.load(Place()).summary.read.events_seen == 4
        original = workspace.original(Place())
        assert (original.name, b"".join(original.chunks).decode()) == ("timeline.json", trace_text())
        assert workspace.window(Place()).name == "w0.window.json"
    finally:
        workspace.close()
