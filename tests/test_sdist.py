"""What a source archive holds: everything that an install needs, the built page included, so that nobody needs Node.js."""

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
LEFT_OUT = {".git", ".venv", "node_modules", "__pycache__", "samples", "tests", "dist", "build"}
needs_setuptools = pytest.mark.skipif(
    int(importlib.metadata.version("setuptools").partition(".")[0]) < 77,
    reason="an sdist needs the setuptools that make test installs",
)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of a copy of this tree."""
    if not (STATIC / "index.html").is_file():
        pytest.fail("The page is not built: run make test.")
    copy = tmp_path_factory.mktemp("sdist") / "tree"
    shutil.copytree(
        ROOT,
        copy,
        ignore=lambda _, names: {n for n in names if n in LEFT_OUT or n.startswith(".venv") or n.endswith(".egg-info")},
    )
    environment = os.environ | {"TORCH_TRACE_NO_FRONTEND": "1"}  # the page is there
    command = [sys.executable, "setup.py", "--quiet", "sdist"]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (archive,) = (copy / "dist").glob("*.tar.gz")
    return archive


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
@pytest.mark.skipif(not DEEP, reason="make test-deep installs the sdist into an environment of its own")
def test_it_installs_without_node(sdist: Path, tmp_path: Path) -> None:
    """The command and the page come out of the archive on a machine that has Python alone."""
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "tar", "uname"):
        if path := shutil.which(name):
            (tools / name).symlink_to(path)
    environment = {**os.environ, "PATH": f"{python.parent}{os.pathsep}{tools}"}
    assert shutil.which("node", path=environment["PATH"]) is None
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(sdist)]
    done = subprocess.run(install, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    script = (
        "import importlib.util, pathlib, tb_plugin\n"
        "folder = pathlib.Path(tb_plugin.__file__).parent\n"
        "assert (folder / 'static' / 'index.js').is_file()\n"
        "assert importlib.util.find_spec('pandas') is None\n"
        f"print(tb_plugin.open({str(ROOT / 'samples' / 'no_steps_cpu')!r}).facts['trace.cpu_ops'] > 0)\n"
    )
    done = subprocess.run([python, "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.strip() == "True", done.stderr
