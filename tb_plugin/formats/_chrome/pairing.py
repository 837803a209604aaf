"""Matching of starts and ends per key, like brackets."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.lib.arrays import Bool, Int64

MOST_OPEN = 200
"""Unfinished ranges per key that last until the end. Others end at the next start: deep nesting slows down views."""


def matched_ends(key: npt.NDArray[np.integer], time_ns: Int64, opens: Bool) -> tuple[Int64, Int64]:
    """Returns matched starts and ends, in order of time. An end closes the innermost open start with the same key."""
    count = len(key)
    if not count:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    order = np.lexsort((time_ns, key))
    ordered = key[order]
    is_first = np.concatenate(([True], ordered[1:] != ordered[:-1]))
    run = np.cumsum(is_first) - 1
    opening = opens[order]
    step = np.where(opening, 1, -1)
    level = np.cumsum(step)
    level -= (level - step)[is_first][run]
    # An unmatched end lowers the base level of everything after it.
    below = run * (count + 1)
    ground = np.minimum.accumulate(np.minimum(level, 0) - below) + below
    before = np.where(is_first, 0, np.concatenate(([0], ground[:-1])))
    closes = ~opening & (ground == before)
    bracket = level - ground + ~opening
    some = np.flatnonzero(opening | closes)
    some = some[np.lexsort((bracket[some], run[some]))]
    former, latter = some[:-1], some[1:]
    pair = opening[former] & closes[latter] & (run[former] == run[latter]) & (bracket[former] == bracket[latter])
    return order[former[pair]], order[latter[pair]]


def unfinished_durations(key: npt.NDArray[np.integer], time_ns: Int64, until_ns: int) -> Int64:
    """Returns durations of unfinished ranges in ns. The first ``MOST_OPEN`` of a key end at ``until_ns``."""
    order = np.lexsort((time_ns, key))
    ordered, begun = key[order], time_ns[order]
    nth = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    end = np.full(len(order), until_ns, np.int64)
    short = np.flatnonzero((nth[:-1] >= MOST_OPEN) & (ordered[1:] == ordered[:-1]))
    end[short] = begun[short + 1]
    lasted = np.empty(len(order), np.int64)
    lasted[order] = end - begun
    return lasted
