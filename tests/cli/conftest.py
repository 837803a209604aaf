"""What tests of the command share: a cache folder for each, and the worker processes of all.

The start of a worker costs ten times what these tests ask of it. A few of them run the command in a process of its own,
which starts its own workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tb_plugin.cli import session
from tb_plugin.service.pool import Pool


class LastingPool(Pool):
    """A pool that goes on when a command is done with it."""

    def close(self) -> None:
        """Does nothing: the next command has it."""

    def end(self) -> None:
        """Ends the workers."""
        super().close()


@pytest.fixture(scope="session")
def workers() -> Iterator[LastingPool]:
    pool = LastingPool(2, heavy=2)
    yield pool
    pool.end()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: LastingPool) -> Path:
    """A cache folder of the test's own."""
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(session, "Pool", lambda size, heavy: workers)
    return tmp_path / "cache"
