"""Begins and ends find each other: of a thread, or of an asynchronous operation, as brackets do. Some ends are missing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

MOST_OPEN = 200
"""Ranges of one key that nothing ends and that last to the end of the trace; later ones last until the next begins: a
tower of thousands would say nothing, and every view would climb it."""


def matched(key: npt.NDArray[np.integer], time_ns: Int64, opens: Bool) -> tuple[Int64, Int64]:
    """Returns the positions of begins, and for each that of the end which closes it: the innermost open one of its key.

    In order of time, of one time in the order given. An end before which nothing is open, and a begin that nothing closes,
    are in neither.
    """
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
    # An end before which nothing is open lowers the ground on which all that follow stand.
    below = run * (count + 1)
    ground = np.minimum.accumulate(np.minimum(level, 0) - below) + below
    before = np.where(is_first, 0, np.concatenate(([0], ground[:-1])))
    closes = ~opening & (ground == before)
    bracket = level - ground + ~opening
    some = np.flatnonzero(opening | closes)
    some = some[np.lexsort((bracket[some], run[some]))]
    here, there = some[:-1], some[1:]
    pair = opening[here] & closes[there] & (run[here] == run[there]) & (bracket[here] == bracket[there])
    return order[here[pair]], order[there[pair]]


def unended(key: npt.NDArray[np.integer], time_ns: Int64, until_ns: int) -> Int64:
    """Returns how long ranges last that nothing ends: to the end of the trace, but for more than ``MOST_OPEN`` of a key."""
    order = np.lexsort((time_ns, key))
    ordered, begun = key[order], time_ns[order]
    nth = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    end = np.full(len(order), until_ns, np.int64)
    short = np.flatnonzero((nth[:-1] >= MOST_OPEN) & (ordered[1:] == ordered[:-1]))
    end[short] = begun[short + 1]
    lasted = np.empty(len(order), np.int64)
    lasted[order] = end - begun
    return lasted
