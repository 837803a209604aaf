"""What tests of the command share: the worker processes, and a cache folder.

A few of them run the command in a process of its own, which starts its own workers.
"""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What was read of the samples, so that each is read once."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(autouse=True)
def shared_cache(kept: Path, monkeypatch: pytest.MonkeyPatch, commands_share_workers: None) -> None:
    """A cache folder that is not the person's own."""
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(kept))
