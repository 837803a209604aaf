"""Memory that steps retain, and peaks that rise from step to step.

``moments`` are event numbers, one per step and one for the end. Step i contains the events after ``moments[i]``, up
to and including ``moments[i + 1]``.
"""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.analysis.memory.blocks import Blocks
from tb_plugin.lib.arrays import Bool, Float64, Int64
from tb_plugin.lib.groupby import Groups, group
from tb_plugin.model.trace.schema import MISSING

# Steps to skip: the first one allocates what later steps use (optimizer state, workspaces, caches).
WARM_UP = 1
# Two points are always on a line.
FEWEST_GROWING = 3
# Of seven peaks in random order, all rise in one of 5,040 orders.
MIN_RISES = 6
# Share of the peaks that are higher than the previous one.
RISING = 0.9
# Share of the first peak. Smaller rises need no action.
RISEN = 0.05
# Leak candidates start here. Equal growth in all steps has confidence 1; a cache that fills for half of the steps and
# stops has at most 0.5.
LEAK_CONFIDENCE = 0.7
# Share of the retained bytes. Blocks that replace as many older bytes fill a queue, unless memory grows.
MIN_REPLACED_SHARE = 0.5


def steps_of(moments: Int64, event: Int64) -> Int64:
    """Returns the step of each event; -1 = before the first step. Events after the last step have the next number."""
    return np.searchsorted(moments, event, side="left") - 1


class Growth(msgspec.Struct, frozen=True, eq=False):
    """Retained memory: one row per owner that has blocks after the warm-up or at the end."""

    owner: Int64
    first_bytes: Int64
    """Bytes allocated at the end of the warm-up."""
    last_bytes: Int64
    last_blocks: Int64
    left_bytes: Int64
    """Bytes that were allocated in a checked step (see ``counted``) and are still allocated at the end."""
    left_blocks: Int64
    released_blocks: Int64
    counted: Int64
    """Number of steps that are checked for growth: all steps except the warm-up and the last n steps.

    n is the longest lifetime of any released block of the owner, in steps. Blocks from the last n steps may still
    be released.
    """
    growing: Int64
    """Number of checked steps whose blocks are not all released."""
    confidence: Float64
    """Share of the checked steps that retain blocks, times the similarity of the retained bytes per step.

    The similarity is 1 - d / (2 m), for mean m and mean absolute deviation d. The confidence is 0 if there are too
    few steps, or if growth has ended.
    """
    adds_memory: Bool
    """Whether the retained blocks do more than replace older blocks of the same sizes."""

    @property
    def step_bytes(self) -> Float64:
        return self.left_bytes / np.maximum(self.counted, 1)

    @property
    def step_blocks(self) -> Float64:
        return self.left_blocks / np.maximum(self.counted, 1)

    def ranked(self) -> Int64:
        """Returns the rows, largest growth first: by bytes per step times confidence, then by bytes at the end."""
        return np.lexsort((self.owner, -self.last_bytes, -self.step_bytes * self.confidence))

    def leaks(self) -> Int64:
        """Returns the rows that may be leaks, in the order of ``ranked``."""
        rows = self.ranked()
        return rows[self.adds_memory[rows] & (self.confidence[rows] >= LEAK_CONFIDENCE)]


def growth_of(blocks: Blocks, moments: Int64, until: int | None = None, warm_up: int = WARM_UP) -> Growth:
    """Returns the memory that each owner retains from step to step. Returns no rows for fewer than two steps.

    A block is retained if it is allocated after event ``until``, by default the end of the last step.
    """
    if len(moments) < 3:
        blocks, moments = blocks.take(np.empty(0, np.int64)), np.full(3, MISSING)
    count, end, start = len(moments) - 1, int(moments[-1]), int(moments[warm_up])
    blocks = blocks.take(np.flatnonzero(blocks.begin <= end))
    until = end if until is None else until
    begin, freed, size = blocks.begin, blocks.freed, blocks.size
    groups = group(blocks.owner)
    born, left = steps_of(moments, begin), freed > until
    released = np.flatnonzero(~left & (born >= 0))
    longest = np.zeros(len(groups), np.int64)
    np.maximum.at(longest, groups.of[released], steps_of(moments, freed[released]) - born[released])
    counted = np.maximum(count - warm_up - longest, 0)
    # Blocks younger than the longest lifetime of a released block of their owner may still be released.
    kept = left & (born >= warm_up) & (born < (warm_up + counted)[groups.of])
    growing, confidence = _confidence(groups, born - warm_up, size, kept, counted)
    at_start = (begin <= start) & (freed > start)
    first_bytes, last_bytes = groups.sum(np.where(at_start, size, 0)), groups.sum(np.where(left, size, 0))
    left_bytes = groups.sum(np.where(kept, size, 0))
    older = (begin == MISSING) & ~left & (freed > start) & np.isin(size, size[kept])
    least = MIN_REPLACED_SHARE * left_bytes
    rows = np.flatnonzero((first_bytes > 0) | (last_bytes > 0))
    found = Growth(
        owner=blocks.owner[groups.first],
        first_bytes=first_bytes,
        last_bytes=last_bytes,
        last_blocks=_count(groups, left),
        left_bytes=left_bytes,
        left_blocks=_count(groups, kept),
        released_blocks=_count(groups, ~left & (born >= 0)),
        counted=counted,
        growing=growing,
        confidence=confidence,
        adds_memory=(last_bytes.sum() - first_bytes.sum() >= least) | (size[older].sum() < least),
    )
    return Growth(*(getattr(found, name)[rows] for name in found.__struct_fields__))


def _count(groups: Groups, flags: Bool) -> Int64:
    return np.bincount(groups.of[flags], minlength=len(groups)).astype(np.int64)


def _confidence(groups: Groups, step: Int64, size: Int64, kept: Bool, counted: Int64) -> tuple[Int64, Float64]:
    rows = np.flatnonzero(kept)
    pairs = group(groups.of[rows], step[rows])
    of, when = groups.of[rows][pairs.first], step[rows][pairs.first]
    left = pairs.sum(size[rows]).astype(np.float64)
    growing = np.bincount(of, minlength=len(groups)).astype(np.int64)
    mean = np.bincount(of, left, len(groups)) / np.maximum(growing, 1)
    deviation = np.bincount(of, np.abs(left - mean[of]), len(groups)) / np.maximum(growing, 1)
    share = growing / np.maximum(counted, 1)
    alike = np.maximum(1 - np.divide(deviation, 2 * mean, out=np.full(len(groups), 2.0), where=mean > 0), 0)
    # Growth ended if fewer than half of the last quarter of the steps (at least two) left blocks.
    quarter = np.maximum(counted // 4, 2)
    late = np.bincount(of[when >= (counted - quarter)[of]], minlength=len(groups))
    sure = (counted >= FEWEST_GROWING) & (2 * late >= quarter)
    return growing, np.where(sure, share * alike, 0.0)


class Rise(msgspec.Struct, frozen=True):
    """Increase of the memory peaks from step to step, from the event of the first peak to that of the last peak."""

    first: int
    last: int
    first_bytes: int
    last_bytes: int
    steps: int
    rising: float
    """Share of the steps whose peak is higher than the peak of the previous step."""


def rise_of(allocated: Int64, moments: Int64) -> Rise | None:
    """Returns the increase of the peaks of the steps. ``allocated[e + 1]`` is the level after event e.

    Returns None if the peaks do not increase, or if retained memory explains most of the increase.
    """
    moments = moments[WARM_UP:]
    count = len(moments) - 1
    if count <= MIN_RISES:
        return None
    live = allocated[moments + 1]
    allocated = allocated[moments[0] + 2 : moments[-1] + 2]
    starts = moments[:-1] - moments[0]
    peaks = np.maximum.reduceat(allocated, starts)
    rising = float((np.diff(peaks) > 0).mean())
    grown = int(peaks[-1] - peaks[0])
    stays = int(live[-2] - live[0])  # from the start of the first counted step to the start of the last step
    if rising < RISING or grown < RISEN * peaks[0] or 2 * stays > grown:
        return None
    ends = np.append(starts[1:], len(allocated))
    first, last = (int(moments[0] + 1 + starts[i] + allocated[starts[i] : ends[i]].argmax()) for i in (0, count - 1))
    return Rise(first, last, int(peaks[0]), int(peaks[-1]), count - 1, rising)


def live_of(blocks: Blocks, moments: Int64) -> tuple[Int64, Int64]:
    comes, goes = np.searchsorted(moments, blocks.begin), np.searchsorted(moments, blocks.freed)
    change = np.zeros((2, len(moments) + 1), np.int64)
    for at, sign in ((comes, 1), (goes, -1)):
        np.add.at(change[0], at, sign * blocks.size)
        np.add.at(change[1], at, sign)
    size, number = np.cumsum(change, axis=1)[:, :-1]
    return size, number


class Change(msgspec.Struct, frozen=True, eq=False):
    """Allocated memory after each of two events, one row per owner."""

    owner: Int64
    first_bytes: Int64
    first_blocks: Int64
    second_bytes: Int64
    second_blocks: Int64
    both_bytes: Int64
    both_blocks: Int64


def change_of(blocks: Blocks, first: int, second: int) -> Change:
    one, other = blocks.live(first), blocks.live(second)
    rows = np.flatnonzero(one | other)
    one, other, size, owner = one[rows], other[rows], blocks.size[rows], blocks.owner[rows]
    groups = group(owner)
    sums = [
        sums
        for flags in (one, other, one & other)
        for sums in (groups.sum(np.where(flags, size, 0)), _count(groups, flags))
    ]
    return Change(owner[groups.first], *sums)


def varying_share(size: Int64, step: Int64, count: int) -> float:
    """Returns the share of bytes in blocks whose size does not occur in each of ``count`` steps.

    ``step`` is the step in which each block was allocated.
    """
    total = int(size.sum())
    if count < 2 or not total:
        return 0.0
    pairs = group(size, step)
    sizes = group(size[pairs.first])
    in_all = sizes.count()[sizes.of] == count
    return 1 - int(pairs.sum(size)[in_all].sum()) / total
