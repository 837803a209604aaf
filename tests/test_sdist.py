"""The sdist and the wheel: both contain the built page, and two builds are equal."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path, PurePosixPath

import pytest

from tests.depth import DEEP

ROOT = Path(__file__).resolve().parents[1]
STATIC = ROOT / "tb_plugin" / "static"
SAMPLE = ROOT / "samples" / "no_steps_cpu"
LEFT_OUT = {".git", ".venv", "node_modules", "__pycache__", "samples", "tests", "dist", "build"}
needs_setuptools = pytest.mark.skipif(
    int(importlib.metadata.version("setuptools").partition(".")[0]) < 77,
    reason="an sdist needs the setuptools that make test installs",
)


def built(folder: Path) -> Path:
    """The folder with the sdist and the wheel of a copy of this tree."""
    if not (STATIC / "index.html").is_file():
        pytest.fail("The page is not built: run make test.")
    shutil.copytree(
        ROOT,
        folder,
        ignore=lambda _, names: {n for n in names if n in LEFT_OUT or n.startswith(".venv") or n.endswith(".egg-info")},
    )
    # The page is there. Times of files are those of the copy.
    environment = os.environ | {"TORCH_TRACE_NO_FRONTEND": "1", "SOURCE_DATE_EPOCH": "1764000000"}
    for path in folder.rglob("*.py"):
        path.touch()
    wheel = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        "dist",
        ".",
    ]
    for command in ([sys.executable, "setup.py", "--quiet", "sdist"], wheel):
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
    return folder / "dist"


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("sdist") / "tree")


@pytest.fixture(scope="module")
def sdist(dist: Path) -> Path:
    (archive,) = dist.glob("*.tar.gz")
    return archive


@needs_setuptools
def test_two_builds_are_equal(dist: Path, tmp_path: Path) -> None:
    again = built(tmp_path / "another")
    names = sorted(path.name for path in dist.iterdir())
    assert len(names) == 2 and [path.name for path in sorted(again.iterdir())] == names
    assert [name for name in names if (dist / name).read_bytes() != (again / name).read_bytes()] == []


@needs_setuptools
def test_the_archive_holds_the_page_and_all_modules(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {PurePosixPath(*PurePosixPath(name).parts[1:]).as_posix() for name in archive.getnames()}
    package = [
        *STATIC.rglob("*"),
        *(ROOT / "tb_plugin").rglob("*.py"),
        *(ROOT / "torch_trace_megengine").rglob("*.py"),
        ROOT / "tb_plugin" / "py.typed",
    ]
    wanted = {path.relative_to(ROOT).as_posix() for path in package if path.is_file()}
    assert "tb_plugin/static/index.js" in wanted and not wanted - names
    assert {"pyproject.toml", "setup.py", "LICENSE", "README.md", "frontend/package-lock.json"} <= names
    assert not {name for name in names if name.startswith(("frontend/node_modules", "samples", ".venv"))}


@needs_setuptools
@pytest.mark.skipif(not DEEP, reason="make test-deep installs both into environments of their own")
@pytest.mark.parametrize("ending", [".tar.gz", ".whl"])
def test_it_installs_without_node(dist: Path, tmp_path: Path, ending: str) -> None:
    """The command and the page come out of the archive on a machine that has Python alone."""
    (archive,) = dist.glob(f"*{ending}")
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "tar", "uname"):
        if path := shutil.which(name):
            (tools / name).symlink_to(path)
    environment = {**os.environ, "PATH": f"{python.parent}{os.pathsep}{tools}", "TORCH_TRACE_CACHE": "off"}
    environment.pop("PYTHONPATH", None)
    assert shutil.which("node", path=environment["PATH"]) is None

    def answer(*command: str | Path) -> str:
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", timeout=900
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    answer(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", archive)
    script = (
        "import importlib.util, pathlib, tb_plugin\n"
        "folder = pathlib.Path(tb_plugin.__file__).parent\n"
        "assert (folder / 'static' / 'index.js').is_file()\n"
        "assert importlib.util.find_spec('pandas') is None\n"
        f"print(tb_plugin.open({str(SAMPLE)!r}).facts['trace.cpu_ops'] > 0)\n"
    )
    assert answer(python, "-c", script) == "True\n"
    command = python.with_name("torch-trace")
    assert answer(command, "--version") == f"torch-trace {importlib.metadata.version('torch-trace-tb')}\n"
    assert "Operators" in answer(command, "report", SAMPLE)
