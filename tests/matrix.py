"""The tests under other versions (``make matrix``): the lowest and the newest of every dependency, and other Pythons.

Python 3.11 meets the lower bounds of pyproject.toml and the newest releases that its ranges allow; newer Pythons meet the
newest. An environment each in ``.venv-matrix``, kept for the next time; a Python that is not on PATH (or does not start) is
named and left out. ``--python`` names others.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".venv-matrix"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OLDEST = "3.11"
NEWER = ("3.12", "3.13", "3.14")
EXTRAS = ("pandas", "sql", "s3", "gcs", "azure", "dask")
TOOLS = ("pytest>=8.3,<10", "pytest-xdist>=3.6,<4", "hypothesis>=6.120,<7")
TESTS = (
    "tests/model", "tests/formats", "tests/devices", "tests/views", "tests/contract", "tests/golden", "tests/toy",
    "tests/cli", "tests/api", "tests/service", "tests/web/test_routes.py", "tests/web/test_plugin.py",
    "tests/storage/test_files.py", "tests/storage/test_cache.py",
)  # fmt: skip
"""Without the emulators and the browser, which test what is not in the matrix."""
_PYTEST = [
    "-m",
    "pytest",
    "-p",
    "no:cacheprovider",
    "-q",
    "--numprocesses",
    "auto",
    "--maxprocesses",
    "8",
    "--dist",
    "loadscope",
]
_SHOWN = ("tensorboard", "numpy", "pyarrow", "msgspec", "isal", "fsspec", "pandas", "werkzeug")


@dataclass(frozen=True)
class Cell:
    """One environment: a Python, and which releases of the dependencies."""

    python: str
    version: str
    releases: str
    """``lowest`` or ``newest``."""

    @property
    def name(self) -> str:
        return f"{self.version}-{self.releases}"


def requirements() -> list[str]:
    """What an install with all extras asks for."""
    extras = PROJECT["optional-dependencies"]
    return [*PROJECT["dependencies"], *(requirement for extra in EXTRAS for requirement in extras[extra])]


def lowest(requirement: str) -> str:
    """``numpy>=1.26,<3`` -> ``numpy==1.26``, which pip takes as 1.26.0."""
    found = re.match(r"([A-Za-z0-9_.-]+)\s*>=\s*([0-9.]+)", requirement)
    if found is None:
        sys.exit(f"{requirement} has no lower bound: what is tested there would change by itself.")
    return f"{found[1]}=={found[2]}"


def pythons(named: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """(path, version) of the Pythons that start, and the names of those that do not."""
    found, missing = [], []
    for name in named or [f"python{version}" for version in (OLDEST, *NEWER)]:
        path = shutil.which(name)
        command = [path or name, "-c", "import ensurepip, sys; print('%d.%d' % sys.version_info[:2])"]
        done = subprocess.run(command, capture_output=True, text=True) if path else None
        if path and done is not None and done.returncode == 0:
            found.append((path, done.stdout.strip()))
        else:
            missing.append(name)
    return found, missing


def cells(found: list[tuple[str, str]]) -> list[Cell]:
    """The lowest releases on the oldest Python alone: newer ones have no wheels of them."""
    return [
        Cell(path, version, releases)
        for path, version in found
        for releases in ("lowest", "newest")
        if releases == "newest" or version == OLDEST
    ]


def installed(cell: Cell) -> Path:
    """The Python of an environment with everything in it. Raises CalledProcessError."""
    folder = FOLDER / cell.name
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([cell.python, "-m", "venv", str(folder)], check=True)
    bounds = folder / "constraints.txt"
    bounds.write_text("\n".join(map(lowest, requirements())) if cell.releases == "lowest" else "", encoding="utf-8")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--constraint", str(bounds)]
    newest = ["--upgrade", "--upgrade-strategy", "eager"] if cell.releases == "newest" else []
    environment = os.environ | {"TORCH_TRACE_NO_FRONTEND": "1"}
    subprocess.run([*pip, *newest, f".[{','.join(EXTRAS)}]", *TOOLS], cwd=ROOT, env=environment, check=True)
    return python


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", action="append", default=[], help="a Python to use instead of those on PATH")
    parser.add_argument("--only", default="", help="a cell, such as 3.11-lowest")
    parser.add_argument("tests", nargs="*", default=TESTS)
    arguments = parser.parse_args()
    found, missing = pythons(arguments.python)
    rows, failed = [], False
    for cell in cells(found):
        if arguments.only not in ("", cell.name):
            continue
        begun = time.monotonic()
        try:
            python = installed(cell)
        except subprocess.CalledProcessError:
            rows.append(f"| {cell.name} | cannot be installed | |")
            failed = True
            continue
        listed = subprocess.check_output([python, "-m", "pip", "freeze", "--disable-pip-version-check"], text=True)
        versions = dict(line.split("==") for line in listed.lower().splitlines() if "==" in line)
        done = subprocess.run([python, *_PYTEST, *arguments.tests], cwd=ROOT)
        failed |= done.returncode != 0
        outcome = "passed" if done.returncode == 0 else "FAILED"
        shown = ", ".join(f"{name} {versions.get(name, '?')}" for name in _SHOWN)
        rows.append(f"| {cell.name} | {outcome} in {time.monotonic() - begun:.0f} s | {shown} |")
    print("| Python, releases | tests | |\n| --- | --- | --- |")
    print("\n".join(rows))
    for name in missing:
        print(f"left out: {name} is not on PATH, or does not start")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
