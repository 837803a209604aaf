"""What tests of the command share: a cache folder for each, and the worker processes of all.

A few of them run the command in a process of its own, which starts its own workers.
"""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commands_share_workers: None) -> Path:
    """A cache folder of the test's own."""
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
