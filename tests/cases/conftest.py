"""Commands of these tests share worker processes."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commands_share_workers: None) -> None:
    """A cache folder of the test's own."""
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(tmp_path / "cache"))
