"""Ratio of bus bandwidth to algorithm bandwidth, as in nccl-tests."""

from __future__ import annotations

from tb_plugin.analysis.collective_names import POINT_TO_POINT


def has_larger_side(collective: str) -> bool:
    """Returns whether nccl-tests uses the larger of the two buffers as the size S.

    The larger one is the smaller one times the group size.
    """
    return collective in ("all_gather", "gather", "scatter", "broadcast", "recv")


def bus_factor(collective: str, ranks: int) -> float | None:
    """Returns bus bandwidth divided by algorithm bandwidth, None if undefined."""
    if ranks < 1:
        return None
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if collective in ("reduce_scatter", "all_gather", "all_to_all", "gather", "scatter"):
        return (ranks - 1) / ranks
    if collective in ("broadcast", "reduce", *POINT_TO_POINT):
        return 1.0
    return None
