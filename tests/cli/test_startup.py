"""The command starts at once: what it imports is counted here, what it takes is measured by benchmarks/startup.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tb_plugin import cli
from tb_plugin.analysis.stack_frames import FRAMES
from tb_plugin.service.answers.stack_export import SUFFIXES
from tb_plugin.views.stacks.options import FOLDS, WEIGHTS
from tests.builders import trace
from tests.samples import SAMPLES

COMMAND = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
from tb_plugin.cli import main
sys.exit(main())
"""
HEAVY = {"numpy", "pyarrow", "pandas", "fsspec", "asyncio", "concurrent"}
NOT_OURS = {
    "pandas",
    "fsspec",
    "s3fs",
    "gcsfs",
    "adlfs",
    "tensorboard",
    "werkzeug",
    "aiohttp",
    "asyncio",
    "multiprocessing",
}
"""Nothing that a report of a file on this machine needs."""


def imported(tmp_path: Path, *arguments: str, code: int = 0) -> set[str]:
    """Names of all modules that a run of the command imported."""
    environment = os.environ | {"TORCH_TRACE_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == code, done.stderr
    found: list[str] = json.loads(done.stderr.splitlines()[-1])
    return set(found)


def packages(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["--help"], 0), (["report", "--help"], 0), (["--version"], 0), (["stacks", "x", "--of", "nothing"], 2)],
    ids=["help", "help of a command", "version", "a wrong choice"],
)
def test_help_and_wrong_usage_import_nothing_heavy(tmp_path: Path, arguments: list[str], code: int) -> None:
    modules = imported(tmp_path, *arguments, code=code)
    assert not HEAVY & packages(modules)
    ours = {name for name in modules if name.startswith("tb_plugin.")}
    assert not {
        name for name in ours if name.startswith(("tb_plugin.views", "tb_plugin.model.trace", "tb_plugin.formats"))
    }


def test_a_report_of_one_local_file_imports_what_it_needs(tmp_path: Path) -> None:
    path = tmp_path / "w.pt.trace.json"
    path.write_bytes(trace().step(1, 0, 9).op("aten::mm", 0, 5).bytes())
    modules = imported(tmp_path, "report", str(path), "--format", "json")
    assert {"numpy", "pyarrow"} <= packages(modules)
    assert not NOT_OURS & packages(modules)
    not_asked = {f"tb_plugin.views.{name}.view" for name in ("diff", "distributed", "kernels", "memory", "segments")}
    assert not not_asked & modules
    read = {name for name in modules if name.startswith("tb_plugin.formats.") and name.endswith(".reader")}
    assert read == {"tb_plugin.formats.kineto.reader"}
    assert sum(name.startswith("tb_plugin") for name in modules) < 425


def test_the_pages_of_a_trace_do_not_import_acero(tmp_path: Path) -> None:
    """It takes 0.2 s and 50 MB; see ``tb_plugin.lib.tables``."""
    modules = imported(tmp_path, "report", str(SAMPLES / "synthetic_gpu"), "--format", "text")
    assert "tb_plugin.views.memory.view" in modules
    assert not {"pyarrow.acero", "pyarrow.dataset"} & modules


def test_the_choices_of_the_options_are_those_of_the_analysis() -> None:
    assert (
        set(cli.FRAMES) == set(FRAMES)
        and cli.WEIGHTS == WEIGHTS
        and cli.FOLDS == FOLDS
        and tuple(SUFFIXES) == cli.FORMATS
    )
