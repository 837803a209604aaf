"""The 5 GB file on a machine with little memory, simulated: the budget decides by size, and bounds what a read takes."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tb_plugin.formats.kineto.reader import KinetoReader
from tb_plugin.service.catalog import Place
from tb_plugin.service.workers.memory_budget import PROCESS_BYTES, room_bytes
from tb_plugin.service.workers.pool import InlineWorkers
from tb_plugin.service.workers.question import Job
from tb_plugin.service.workspace import Workspace
from tb_plugin.storage.cache import FileStore
from tests.service.fakes import catalog_of, need_of, write_trace

STEPS = 60
OPERATORS = 1500
"""A step; with their stacks about 90 MB of text in all."""
PARSE = """
import json, sys
from tb_plugin.service.workers.parse import Limits
from tb_plugin.service.workers.model_cache import OpenModels
from tb_plugin.service.workers.parse import Parse
path, target, budget = sys.argv[1], sys.argv[2], int(sys.argv[3])
limits = Limits("", 10**10, budget, target + ".survey") if budget else None
parse = Parse("kineto", (("x.json", path),), target, target + ".json", limits)
found = parse.answer(OpenModels(), lambda progress: None)
# Not ru_maxrss: that begins with the peak of the process that started this one, the test runner.
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps([int(status["VmHWM"].split()[0]) * 1024, [step.label for step in found.steps], found.read.events_in_file]))
"""


class Recording(InlineWorkers):
    """Notes what a parse is asked for, and does nothing."""

    def submit(self, question: Any, **more: Any) -> Job[Any]:
        self.limits: Any = question.limits
        self.peak_memory_bytes = more["peak_memory_bytes"]
        return Job(question, **more)


@pytest.mark.parametrize("name", ["w.1.pt.trace.json", "w.1.pt.trace.json.gz"])
def test_five_gigabytes_on_a_machine_with_little_memory(tmp_path, name):
    path = write_trace(tmp_path / "logs" / name)
    size = 5_000_000_000 if path.suffix == ".json" else 350_000_000
    os.truncate(path, size)  # sparse: it takes no room on the disk
    workers = Recording(budget=2_000_000_000)
    workspace = Workspace(catalog_of(tmp_path / "logs"), workers, FileStore(tmp_path / "cache"))
    workspace.catalog.scan()
    workspace.profile(Place())
    assert workers.limits.budget_bytes == workers.peak_memory_bytes == 2_000_000_000, "it runs alone, within the budget"
    assert workers.limits.peak_memory_bytes == need_of(path) > 10_000_000_000
    assert room_bytes(KinetoReader(), workers.limits.budget_bytes) < 1_000_000_000
    workers.budget = 64_000_000_000
    whole = Workspace(catalog_of(tmp_path / "logs"), workers, FileStore(tmp_path / "cache"))
    whole.catalog.scan()
    whole.profile(Place())
    assert workers.limits is None


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """About 90 MB of text, in which three neighbours have the same stack and the steps stand first."""
    path = tmp_path_factory.mktemp("large") / "x.json.gz"
    event = '{"ph": "X", "cat": "%s", "name": "%s", "pid": 1, "tid": 1, "ts": %d, "dur": %d, "args": {%s}},\n'
    with gzip.open(path, "wt", compresslevel=1) as out:
        out.write('{"traceEvents": [\n')
        for step in range(STEPS):
            out.write(event % ("user_annotation", f"ProfilerStep#{step}", step * 10_000, 9_900, ""))
        for i in range(STEPS * OPERATORS):
            at = i // OPERATORS * 10_000 + i % OPERATORS * 6
            stack = ";".join(f"/home/somebody/project/model_{i // 3}/layer.py({line}): forward" for line in range(15))
            out.write(event % ("cpu_op", "aten::mm", at, 5, f'"Call stack": "{stack}"'))
        out.write('{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}\n]}')
    return path


def measured(large: Path, tmp_path: Path, budget: int) -> tuple[int, list[str], int]:
    """Memory of a fresh process at the peak of a parse, labels of the steps, events seen."""
    command = [sys.executable, "-c", PARSE, str(large), str(tmp_path / f"{budget}.arrow"), str(budget)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    peak, labels, seen = json.loads(run.stdout)
    return peak, labels, seen


@pytest.mark.skipif(sys.platform != "linux", reason="Linux says what the peak was")
def test_the_memory_of_a_read_is_that_of_its_window(large, tmp_path):
    budget = PROCESS_BYTES + 40_000_000
    assert need_of(large) > PROCESS_BYTES + 150_000_000
    whole_peak, every, seen = measured(large, tmp_path, 0)
    peak, some, seen_by_both = measured(large, tmp_path, budget)
    assert len(every) == STEPS and seen == seen_by_both
    assert 3 <= len(some) < STEPS // 3 and some == every[: len(some)]
    assert peak < budget < whole_peak, f"{peak / 1e6:.0f} MB and {whole_peak / 1e6:.0f} MB"
