"""A reader that opens a whole profile or nothing has no ``survey``: everything works, but for windows, which say so."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from tb_plugin.analysis.base import Params
from tb_plugin.errors import BadRequest, UnreadableTrace
from tb_plugin.formats.base import Candidate, FileSize, ListedFile, Progress, ReadOptions, ReadState, Source
from tb_plugin.formats.format_entry import as_windowed_reader
from tb_plugin.formats.kineto.reader import KinetoReader
from tb_plugin.model.trace.report import ReadReport
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.strings import StringTable
from tb_plugin.model.trace.table import RawTrace
from tb_plugin.service.catalog import Place, ProfileCatalog
from tb_plugin.service.discovery.scan import Root, Scanner
from tb_plugin.service.workers.memory_budget import PROCESS_BYTES
from tb_plugin.service.workers.pool import InlineWorkers
from tb_plugin.service.workspace import Workspace
from tb_plugin.storage.cache import FileStore
from tb_plugin.storage.files import Folder

LINES = "load 0 30\ncompute 30 70\n"
"""A format of our own: a name, a start and a duration (ns) a line."""


class LinesReader:
    """Reads lines; what is required of a reader, and nothing else."""

    id = "lines"
    title = "Lines"
    raw = RawTrace
    endings = (".lines",)

    def find(self, listing: Sequence[ListedFile]) -> list[Candidate]:
        return [
            Candidate("lines", "", "w", None, (file.path,), True) for file in listing if file.path.endswith(".lines")
        ]

    def sniff(self, head: bytes) -> bool:
        return False

    def peak_memory_bytes(self, sizes: Mapping[str, FileSize]) -> int:
        return 1000 * sum(size.stored_bytes for size in sizes.values())

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> RawTrace:
        (name,) = source.names()
        with source.open(name) as stream:
            lines = [line.split() for line in stream.read().decode().splitlines()]
        progress(ReadState(1.0, len(lines), {"operator": len(lines)}))
        texts = [*(line[0] for line in lines), "1"]
        n = len(lines)
        ids, none = np.arange(n, dtype=np.int32), np.full(n, -1, np.int64)
        return RawTrace(
            start_ns=np.array([int(line[1]) for line in lines]),
            dur_ns=np.array([int(line[2]) for line in lines]),
            name=ids,
            category=ids,
            kind=np.full(n, EventKind.OPERATOR, np.uint8),
            pid=np.full(n, n, np.int32),
            tid=np.full(n, n, np.int32),
            correlation=none,
            external_id=none,
            device=none.astype(np.int16),
            is_collective=np.zeros(n, np.bool_),
            uses_matrix_unit=np.zeros(n, np.bool_),
            matrix_eligible=np.zeros(n, np.bool_),
            strings=StringTable(texts),
            devices=(),
            report=ReadReport("lines", source.size(name), source.size(name), n, n),
        )


READERS = (LinesReader(),)
"""As an extension has it."""


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TORCH_TRACE_EXTENSIONS", __name__)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.lines").write_text(LINES)
    return tmp_path / "logs"


def opened(logs: Path, budget: int) -> Workspace:
    catalog = ProfileCatalog(Scanner([Root(Folder(str(logs)))], [LinesReader()]), every_seconds=0.1)
    workspace = Workspace(catalog, InlineWorkers(budget=budget), FileStore(logs.parent / "cache"))
    workspace.catalog.scan()
    return workspace


def test_one_function_tells_who_opens_windows() -> None:
    assert as_windowed_reader(LinesReader()) is None
    kineto = KinetoReader()
    assert as_windowed_reader(kineto) is kineto


def test_it_works_from_the_scan_to_the_answer(logs: Path) -> None:
    workspace = opened(logs, PROCESS_BYTES + 1000 * len(LINES))
    workspace.load(Place())
    answer = workspace.view(Place(), "operators", Params())
    assert isinstance(answer, bytes)
    rows = json.loads(answer)["payloads"]["operators"]["rows"]
    assert {row["name"]: row["host_total_ns"] for row in rows} == {"load": 30, "compute": 70}
    profile = workspace.profile(Place())
    assert (profile.state, profile.window) == ("ready", None)


def test_one_that_is_too_large_says_that_it_cannot_be_opened_as_a_window(logs: Path) -> None:
    workspace = opened(logs, PROCESS_BYTES + 1000 * len(LINES) - 1)
    with pytest.raises(UnreadableTrace) as refused:
        workspace.load(Place())
    assert "needs about 160 MB" in refused.value.what and "cannot be opened as a window" in refused.value.what
    assert refused.value.where.endswith("a.lines")
    assert refused.value.do == "Allow more memory with TORCH_TRACE_MEMORY_MB=161, or record a shorter trace."


def test_a_window_of_it_is_refused(logs: Path) -> None:
    workspace = opened(logs, 10**12)
    with pytest.raises(BadRequest, match="cannot be opened as a window") as refused:
        workspace.load(replace(Place(), window="0ns-10ns"))
    assert refused.value.do == "Open the profile without a window."
    workspace.load(Place())
