"""Patterns of lateness: persistent, single, periodic, rotating, irregular."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Bool = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

PERSISTENT, ROTATING, PERIODIC, SINGLE, IRREGULAR = "persistent", "rotating", "periodic", "single", "irregular"
# share of late steps above which a worker is persistently late
MOST = 0.6
# share of late steps below which irregular lateness is noise
MIN_IRREGULAR_SHARE = 0.2
# minimum number of late steps for a repeating pattern
FEWEST = 3
# minimum share of late steps among those due, for periodic lateness
MIN_DUE_SHARE = 0.75
# maximum probability that any worker of a group is late this often by chance
_MAX_CHANCE = 0.01
# the same for the t-test over steps; stricter, because it is rough for few steps
_MAX_SCATTER_CHANCE = 0.001


def late_period(slow: Bool) -> int:
    """Returns the period of the marked steps, at least 2, or 0 if they are not periodic.

    A few repetitions may be missing.
    """
    places = np.flatnonzero(slow)
    if len(places) < FEWEST:
        return 0
    distances = np.diff(places)
    k = int(distances.min())
    if k < 2 or (distances % k).any():
        return 0
    due = (places[-1] - places[0]) // k + 1
    return k if len(places) >= MIN_DUE_SHARE * due else 0


def late_pattern(slow: Bool) -> tuple[str, int]:
    """Returns the pattern of a worker's late steps ("" = none), and its period in steps (0 unless periodic)."""
    count, steps = int(slow.sum()), len(slow)
    if not count:
        return "", 0
    if steps == 1:
        return SINGLE, 0
    if count > MOST * steps:
        return PERSISTENT, 0
    if k := late_period(slow):
        return PERIODIC, k
    if count == 1:
        return SINGLE, 0
    return (IRREGULAR, 0) if count >= FEWEST and count >= MIN_IRREGULAR_SHARE * steps else ("", 0)


def is_rotating(slow: Bool) -> bool:
    """Returns whether most steps have a late worker although no worker is late in most steps.

    ``slow`` has shape (workers, steps).
    """
    steps = slow.shape[1]
    any_slow = slow.any(axis=0)
    several = int(slow.any(axis=1).sum()) > 1
    mine = slow.sum(axis=1).max(initial=0)
    return several and any_slow.sum() > max(FEWEST, MOST * steps) and bool(mine <= MOST * steps)


def is_chance(times: Int64, trials: Int64, size: Int64) -> Bool:
    """Returns whether chance may explain how often each worker is last.

    Each worker is last in ``times`` of ``trials`` collectives, among ``size`` equal workers. The test is Chernoff's
    bound on the binomial tail, with Bonferroni correction for the workers of the group.
    """
    fair = 1 / np.maximum(size, 1)
    share = np.clip(times / np.maximum(trials, 1), 0, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        more = np.where(share > 0, share * np.log(share / fair), 0)
        less = np.where(share < 1, (1 - share) * np.log((1 - share) / (1 - fair)), 0)
        unlikely = np.where(share > fair, trials * (more + less), 0)
    found: Bool = np.log(np.maximum(size, 1)) - unlikely > np.log(_MAX_CHANCE)
    return found


def is_scatter(net: Float64) -> Bool:
    """Returns whether noise between steps may explain that the mean of a row differs from 0.

    ``net`` has shape (rows, steps). This is a t-test with Bonferroni correction for the rows. The tail probability
    is replaced by an upper bound, x / t times the density. Always true for fewer than three steps.
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
    found: Bool = (mean <= 0) | ~(tail + math.log(max(rows, 1)) <= math.log(_MAX_SCATTER_CHANCE))
    return found
