"""Builds the page (frontend/) into tb_plugin/static before files are collected; all else is pyproject.toml.

The sdist holds the built page as well, so that it installs without Node.js.
"""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import tarfile
import time
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

    def make_archive(
        self, base_name: str, format: str, root_dir: str | None = None, base_dir: str | None = None, **owners: object
    ) -> str:
        """Writes the archive: two archives of one tree are equal byte for byte if SOURCE_DATE_EPOCH is set."""
        if format != "gztar" or base_dir is None or root_dir is not None:
            return super().make_archive(base_name, format, root_dir, base_dir, **owners)
        seconds = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))

        def plain(item: tarfile.TarInfo) -> tarfile.TarInfo:
            item.mtime, item.mode = seconds, 0o755 if item.isdir() or item.mode & 0o100 else 0o644
            item.uid = item.gid = 0
            item.uname = item.gname = ""
            return item

        path = Path(f"{base_name}.tar.gz")
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            path.open("wb") as file,
            gzip.GzipFile("", "wb", fileobj=file, mtime=seconds) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            archive.add(base_dir, filter=plain)  # adds folders in order of their names
        return str(path)


setup(cmdclass={"build_py": BuildWithPage, "sdist": PackWithPage})
