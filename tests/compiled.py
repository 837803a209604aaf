"""Bytecode of the tests in a fresh clone: of several processes each writes a share, where each would make all of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

TESTS = Path(__file__).parent
FOLDERS = [folder for folder in TESTS.iterdir() if folder.is_dir() and folder.name != "azurite"]
"""Those with tests; an emulator has thousands of files of its own."""


def compile_share(config: pytest.Config, number: int, of: int) -> None:
    """Writes what pytest keeps of its assertions for every ``of``-th test file that has none yet.

    Pytest itself sees to files that have changed since, and to those that another process is not done with.
    """
    if sys.dont_write_bytecode:
        return
    own = [path for folder in FOLDERS for path in folder.rglob("test_*.py")]
    for path in sorted([*TESTS.glob("test_*.py"), *own])[number::of]:
        kept = rewrite.get_cache_dir(path) / (path.stem + rewrite.PYC_TAIL)
        if kept.exists():
            continue
        source_hash, code = rewrite._rewrite_test(path, config)
        kept.parent.mkdir(exist_ok=True)
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source_hash, kept)
