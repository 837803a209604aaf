"""What a worker may import, and what is told when one dies."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tb_plugin.errors import WorkerDied
from tb_plugin.service.workers import worker_process
from tb_plugin.service.workers.pool import Pool
from tests.service.fakes import Arrays, Die

ROOT = Path(__file__).parent.parent.parent
TRAP = "import pathlib; pathlib.Path(__file__).with_suffix('.ran').touch()\n"
NAMES = ("json", "types", "enum", "sitecustomize", "numpy", "msgspec", "isal", "fsspec", "pandas", "tb_plugin")


@pytest.fixture
def traps(tmp_path, monkeypatch):
    """The current directory, full of modules that write a file when they are imported."""
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(TRAP)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answer_of_a_pool():
    pool = Pool(1)
    try:
        return pool.submit(Arrays()).future.result(60)
    finally:
        pool.close()


@pytest.mark.parametrize("entry", ["", ".", "here"])
def test_nothing_beside_the_traces_is_imported(traps, monkeypatch, entry):
    monkeypatch.setattr(sys, "path", [str(traps) if entry == "here" else entry, *sys.path])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", ".", str(traps)]))
    assert answer_of_a_pool() == ([0, 1, 2], False)
    assert list(traps.glob("*.ran")) == []


def test_a_script_beside_the_traces_lends_the_worker_nothing(traps):
    """What the script's folder holds under the name of a package that the worker needs."""
    for name in set(NAMES) - {"isal", "pandas"}:
        (traps / f"{name}.py").unlink()  # would end the script itself
    script = traps / "script.py"
    script.write_text(
        f"import sys\nhere = sys.path.pop(0)\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from tb_plugin.service.workers.pool import Pool\n"
        "from tests.service.fakes import Packer\nsys.path.insert(0, here)\n"
        "print(Pool(1).submit(Packer()).future.result(60))\n"
    )
    run = subprocess.run([sys.executable, script], cwd="/", capture_output=True, text=True, timeout=60)
    assert "site-packages" in run.stdout, run.stderr
    assert list(traps.glob("*.ran")) == []


def test_the_import_path_begins_with_the_standard_library():
    path = worker_process.import_path()
    assert all(os.path.isabs(entry) for entry in path)  # noqa: PTH117
    import json

    import numpy

    standard, packages, ours = (Path(file).parent.parent for file in (json.__file__, numpy.__file__, __file__))
    places = [path.index(str(folder)) for folder in (standard, packages, ours.parent)]
    assert places[0] < min(places[1:])


def death(how, about="/logs/run/x.pt.trace.json"):
    pool = Pool(1)
    try:
        with pytest.raises(WorkerDied) as caught:
            pool.submit(Die(how), key="/cache/columns.arrow", label=about).future.result(60)
        return caught.value
    finally:
        pool.close()


@pytest.mark.parametrize("how", ["kill", "memory"])
def test_a_worker_killed_for_memory_names_the_trace_and_what_to_do(how):
    error = death(how)
    assert error.where == "/logs/run/x.pt.trace.json"
    assert ("SIGKILL" if how == "kill" else "exit code 137") in error.what
    assert "memory" in error.do and "TORCH_TRACE_MEMORY_MB" in error.do


def test_a_worker_that_ends_otherwise_tells_no_word_of_memory():
    error = death("exit")
    assert error.what == "The worker process exited unexpectedly twice (exit code 1)."
    assert error.where == "/logs/run/x.pt.trace.json"
    assert "memory" not in error.do


def test_a_worker_that_cannot_start_says_so(monkeypatch, capfd):
    monkeypatch.setattr(worker_process, "_START", "import sys; sys.stderr.write('no module called x\\n'); sys.exit(1)")
    error = death("exit")
    assert error.what == "A worker process could not start (exit code 1)."
    assert "memory" not in str(error)
    assert "no module called x" in capfd.readouterr().err  # the console has it


def test_an_interpreter_that_is_gone(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    error = death("exit")
    assert "could not start" in error.what and "/nowhere/python" in error.what
