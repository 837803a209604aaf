"""Names of workers."""

from __future__ import annotations


def rank_worker(rank: int) -> str:
    """Returns the name of the worker that is this rank of its job."""
    return f"rank{rank}"
