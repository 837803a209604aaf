"""When a worker is late: in most steps, in one, at every k-th, or in turn with others."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Bool = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

PERSISTENT, ROTATING, PERIODIC, SINGLE, IRREGULAR = "persistent", "rotating", "periodic", "single", "irregular"
MOST = 0.6
"""A worker that is late in more than this share of the steps is so persistently."""
SOME = 0.2
"""Late in less than this share of the steps and in no order: noise has such steps as well."""
FEWEST = 3
"""So many times at least something happens before it is said to repeat."""
THERE = 0.75
"""This share of the steps at which something periodic is due have it."""
_CHANCE = 0.01
"""So probable may it be, at most, that chance makes any worker of a group late so often."""
_RARE = 0.001
"""The same of how much steps vary: of few steps with noise of no known kind Student's t is a rough measure."""


def periods(slow: Bool) -> int:
    """Returns k where the marked steps come at every k-th one, 2 at least, with few left out; 0 where they do not."""
    places = np.flatnonzero(slow)
    if len(places) < FEWEST:
        return 0
    apart = np.diff(places)
    k = int(apart.min())
    if k < 2 or (apart % k).any():
        return 0
    due = (places[-1] - places[0]) // k + 1
    return k if len(places) >= THERE * due else 0


def pattern(slow: Bool) -> tuple[str, int]:
    """Returns the pattern of one worker's late steps and k where it is periodic, else 0; empty where it is none."""
    count, steps = int(slow.sum()), len(slow)
    if not count:
        return "", 0
    if steps == 1:
        return SINGLE, 0
    if count > MOST * steps:
        return PERSISTENT, 0
    if k := periods(slow):
        return PERIODIC, k
    if count == 1:
        return SINGLE, 0
    return (IRREGULAR, 0) if count >= FEWEST and count >= SOME * steps else ("", 0)


def rotates(slow: Bool) -> bool:
    """Returns whether most steps ([worker, step]) have a late worker, and no worker is late in most of them."""
    steps = slow.shape[1]
    any_slow = slow.any(axis=0)
    several = int(slow.any(axis=1).sum()) > 1
    mine = slow.sum(axis=1).max(initial=0)
    return several and any_slow.sum() > max(FEWEST, MOST * steps) and bool(mine <= MOST * steps)


def is_chance(times: Int64, trials: Int64, size: Int64) -> Bool:
    """Returns whether it may be chance that a worker, one of ``size`` equal ones, is last so many ``times``.

    By Chernoff's bound on the binomial tail, for the worker of which it is least probable among all of the group.
    """
    fair = 1 / np.maximum(size, 1)
    share = np.clip(times / np.maximum(trials, 1), 0, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        more = np.where(share > 0, share * np.log(share / fair), 0)
        less = np.where(share < 1, (1 - share) * np.log((1 - share) / (1 - fair)), 0)
        unlikely = np.where(share > fair, trials * (more + less), 0)
    found: Bool = np.log(np.maximum(size, 1)) - unlikely > np.log(_CHANCE)
    return found


def is_scatter(net: Float64) -> Bool:
    """Returns of each row ([row, step]) whether the mean over steps may be nothing but how much it varies from step to step.

    By Student's t of the mean against 0, for the row of which it is least probable among all rows; the tail is bounded from
    above by that of x / t times the density. Of fewer than three steps nobody knows how much varies.
    """
    rows, steps = net.shape
    if steps < FEWEST:
        return np.ones(rows, np.bool_)
    free = steps - 1
    mean, spread = net.mean(axis=1), net.std(axis=1, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = mean / (spread / math.sqrt(steps))
        height = math.lgamma((free + 1) / 2) - math.lgamma(free / 2) - math.log(free * math.pi) / 2
        tail = height + np.log(free / (free - 1) / t) - (free - 1) / 2 * np.log1p(t * t / free)
    found: Bool = (mean <= 0) | ~(tail + math.log(max(rows, 1)) <= math.log(_RARE))
    return found
