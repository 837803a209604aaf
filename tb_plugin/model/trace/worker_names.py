"""Worker names."""

from __future__ import annotations


def rank_worker(rank: int) -> str:
    """Returns the name of the worker that has this rank."""
    return f"rank{rank}"
