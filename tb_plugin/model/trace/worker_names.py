"""Names of workers."""

from __future__ import annotations


def rank_worker(rank: int) -> str:
    return f"rank{rank}"
