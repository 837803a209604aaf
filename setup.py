"""Builds the page (frontend/) into tb_plugin/static before files are collected; all else is pyproject.toml.

The sdist holds the built page as well, so that it installs without Node.js.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).resolve().parent
FRONTEND = ROOT / "frontend"
PAGE = ROOT / "tb_plugin" / "static" / "index.html"
UNPACKED = ROOT / "PKG-INFO"
"""Only an unpacked sdist has it: the page in it is the one that belongs to its sources, whatever the times of the files."""
SKIP = "TORCH_TRACE_NO_FRONTEND"


def is_stale() -> bool:
    """Whether the page is missing or older than what it is made from."""
    if not PAGE.exists():
        return True
    if UNPACKED.exists():
        return False
    made = PAGE.stat().st_mtime
    sources = [p for p in (FRONTEND / "src").rglob("*") if p.is_file() and ".test." not in p.name]
    return any(p.stat().st_mtime > made for p in sources)


def build_page() -> None:
    """Runs npm. Ends the build with one line when that is not possible."""
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit(
            f"torch-trace-tb: npm (Node.js 20.19 or newer) is needed to build the page; set {SKIP}=1 to go without it."
        )
    flags = ["--prefer-offline", "--no-audit", "--no-fund", "--loglevel=error"]
    try:
        # npm ci refuses when a registry lacks an optional package of another platform; npm install takes the same
        # locked versions.
        if (
            not (FRONTEND / "node_modules").is_dir()
            and subprocess.run([npm, "ci", *flags], cwd=FRONTEND, stderr=subprocess.DEVNULL).returncode
        ):
            subprocess.run([npm, "install", "--no-save", *flags], cwd=FRONTEND, check=True)
        subprocess.run([npm, "run", "--silent", "build", "--", "--logLevel", "warn"], cwd=FRONTEND, check=True)
    except subprocess.CalledProcessError as error:
        command = " ".join(["npm", *error.cmd[1:3]])
        raise SystemExit(f"torch-trace-tb: the page could not be built ({command} failed, see above).") from error


class BuildWithPage(build_py):
    """``build_py`` with the page in it."""

    def run(self) -> None:
        """Builds the page unless it is there, or the install is editable (``make`` builds it then)."""
        wanted = os.environ.get(SKIP) != "1" and not self.editable_mode and FRONTEND.is_dir()
        if wanted and is_stale():
            build_page()
        super().run()


class PackWithPage(sdist):
    """``sdist`` with the page in it."""

    def run(self) -> None:
        """Builds the page unless it is there."""
        if os.environ.get(SKIP) != "1" and is_stale():
            build_page()
        super().run()


setup(cmdclass={"build_py": BuildWithPage, "sdist": PackWithPage})
