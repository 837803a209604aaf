"""An Ascend profile that cannot fit is opened as its first steps; one of databases alone says what it needs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from benchmarks import ascend
from tb_plugin.analysis.base import Params
from tb_plugin.errors import BadRequest, UnreadableTrace
from tb_plugin.formats.ascend.reader import AscendReader
from tb_plugin.formats.base import FileSize
from tb_plugin.service.catalog import Place
from tb_plugin.service.workers.memory_budget import PROCESS_BYTES
from tb_plugin.service.workers.pool import InlineWorkers
from tb_plugin.service.workspace import Workspace
from tb_plugin.storage.cache import FileStore
from tests.conftest import SAMPLES
from tests.service.fakes import catalog_of


def opened(logs: Path, share: float) -> Workspace:
    """With so much of the memory that reading all of it takes."""
    sizes = {str(path): FileSize(path.stat().st_size) for path in logs.rglob("*") if path.is_file()}
    budget = PROCESS_BYTES + int(share * AscendReader().peak_memory_bytes(sizes))
    workspace = Workspace(catalog_of(logs), InlineWorkers(budget=budget), FileStore(logs.parent / "cache"))
    workspace.catalog.scan()
    return workspace


def test_a_repeated_training_is_opened_as_its_first_steps(tmp_path: Path) -> None:
    """Thirty copies of two steps, as the benchmark makes them: a third fits."""
    logs = tmp_path / "logs"
    logs.mkdir()
    ascend.made(logs, 30 * 540, ascend.SYNTHETIC)
    whole = opened(logs, 1.01)
    whole.load(Place())
    read = whole.profile(Place()).read
    labels = [step.label for step in whole.profile(Place()).steps]
    assert labels == [str(number) for number in range(12, 12 + len(labels))] and len(labels) >= 50
    assert whole.profile(Place()).window is None and read is not None and not read.issues
    part = opened(logs, 0.34)
    part.load(Place())
    window = part.profile(Place()).window
    assert window is not None and (window.first_step, window.trace_steps) == ("12", len(labels))
    assert 0.2 * len(labels) < window.steps < 0.4 * len(labels)
    assert window.peak_memory_bytes > window.budget_bytes and window.events < window.trace_events
    answers = []
    for workspace in (whole, part):
        answer = workspace.view(Place(), "kernels", Params(limit=1000), "13")
        assert isinstance(answer, bytes)
        rows = json.loads(answer)["payloads"]["kernels"]["rows"]
        answers.append({row["name"]: (row["calls"], row["total_ns"]) for row in rows})
    assert answers[0] == answers[1] and len(answers[0]) > 10, "a step of the window is that step of the whole"


def test_databases_alone_are_opened_whole_or_say_what_they_need(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    (rank,) = (SAMPLES / "synthetic_ascend_db").glob("rank_0_*")
    shutil.copytree(rank, logs / rank.name)
    opened(logs, 1.0).load(Place())
    with pytest.raises(UnreadableTrace) as refused:
        opened(logs, 0.5).load(Place())
    assert "needs about 160 MB of memory" in refused.value.what
    assert refused.value.what.endswith("; a profile without a trace view cannot be opened as a time window.")
    assert refused.value.do == "Allow more with TORCH_TRACE_MEMORY_MB=161, or record a shorter trace."
    with pytest.raises(BadRequest, match="A profile without a trace view"):
        opened(logs, 1.0).load(Place(window="0ns"))
