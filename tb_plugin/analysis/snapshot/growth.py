"""Growth of retained memory and of peak memory from step to step."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, devices_of, levels_of
from tb_plugin.analysis.snapshot.metrics import METRICS
from tb_plugin.analysis.snapshot.steps import Steps, steps_of
from tb_plugin.lib.groupby import Groups, group
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.snapshot.table import Snapshot
from tb_plugin.payloads import Figure

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

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


class Growth(msgspec.Struct, frozen=True, eq=False):
    """Retained memory by allocation stack. There is one row for each stack that has blocks after the first or the
    last step.

    The first step is the warm-up.
    """

    stack: Int64
    first_bytes: Int64
    """Bytes allocated at the end of the first step, which is the warm-up."""
    last_bytes: Int64
    last_blocks: Int64
    left_bytes: Int64
    """Bytes that were allocated in a checked step (see ``counted``) and are still allocated after the last step."""
    left_blocks: Int64
    counted: Int64
    """Number of steps that are checked for growth: all steps except the warm-up and the last n steps.

    n is the longest lifetime of any released block of the stack, in steps. Blocks from the last n steps may still
    be released.
    """
    growing: Int64
    """Number of checked steps whose blocks are not all released."""
    confidence: Float64
    """Share of the checked steps that retain blocks, times the similarity of the retained bytes per step.

    The similarity is 1 - d / (2 m), for mean m and mean absolute deviation d. The confidence is 0 if there are too
    few steps, or if growth has ended.
    """

    @property
    def step_bytes(self) -> Float64:
        """Returns the mean retained bytes per checked step."""
        return self.left_bytes / np.maximum(self.counted, 1)

    @property
    def step_blocks(self) -> Float64:
        """Returns the mean number of retained blocks per checked step."""
        return self.left_blocks / np.maximum(self.counted, 1)

    def ranked(self) -> Int64:
        """Returns the rows, largest first, sorted by bytes per step times confidence, then by bytes allocated at
        the end.
        """
        return np.lexsort((self.stack, -self.last_bytes, -self.step_bytes * self.confidence))

    def leaks(self) -> Int64:
        """Returns the rows that may be leaks, in the order of ``ranked``."""
        rows = self.ranked()
        return rows[self.confidence[rows] >= LEAK_CONFIDENCE]


def growth_of(device: DeviceLevels) -> Growth:
    """Returns the memory that each stack retains from step to step. Returns no rows if there are no steps."""
    return _growth(device.snapshot, device.place) if device.count else _none()


def _none() -> Growth:
    nothing = np.empty(0, np.int64)
    return Growth(nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing, np.empty(0, np.float64))


@cached_by_argument
def _growth(snapshot: Snapshot, place: int) -> Growth:
    device = devices_of(snapshot)[place]
    steps = steps_of(device)
    count = len(steps)
    if count < 2:
        return _none()
    last = int(steps.moments[-1])
    begin, freed = device.block("begin").astype(np.int64), device.block("freed").astype(np.int64)
    mine = np.flatnonzero(begin <= last)
    begin, freed = begin[mine], freed[mine]
    stack, size = device.block("stack")[mine].astype(np.int64), device.block("size")[mine]
    groups = group(stack)
    born, left = steps.of(begin), freed > last
    counted = np.maximum(count - WARM_UP - _longest(steps, groups, born, freed, left), 0)
    # Blocks younger than the longest lifetime of a released block of their stack may still be released.
    kept = left & (born >= WARM_UP) & (born < (WARM_UP + counted)[groups.of])
    live_first = (begin <= steps.moments[WARM_UP]) & (freed > steps.moments[WARM_UP])
    growing, confidence = _confidence(groups, born - WARM_UP, size, kept, counted)
    found = Growth(
        stack=stack[groups.first],
        first_bytes=groups.sum(np.where(live_first, size, 0)),
        last_bytes=groups.sum(np.where(left, size, 0)),
        last_blocks=np.bincount(groups.of[left], minlength=len(groups)).astype(np.int64),
        left_bytes=groups.sum(np.where(kept, size, 0)),
        left_blocks=np.bincount(groups.of[kept], minlength=len(groups)).astype(np.int64),
        counted=counted,
        growing=growing,
        confidence=confidence,
    )
    rows = np.flatnonzero((found.first_bytes > 0) | (found.last_bytes > 0))
    return Growth(*(getattr(found, name)[rows] for name in found.__struct_fields__))


def _longest(steps: Steps, groups: Groups, born: Int64, freed: Int64, left: Bool) -> Int64:
    """Returns the longest lifetime of any released block of each stack, in steps; 0 if no block was released."""
    longest = np.zeros(len(groups), np.int64)
    rows = np.flatnonzero(~left & (born >= 0))
    np.maximum.at(longest, groups.of[rows], steps.of(freed[rows]) - born[rows])
    return longest


def _confidence(groups: Groups, step: Int64, size: Int64, kept: Bool, counted: Int64) -> tuple[Int64, Float64]:
    """Returns, for each stack, the number of steps that retain blocks, and the confidence."""
    rows = np.flatnonzero(kept)
    pairs = group(groups.of[rows], step[rows]) if len(rows) else Groups(rows, rows)
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
    """Increase of the memory peaks from step to step, with the event and the bytes of the first and of the last
    peak.
    """

    first: int
    last: int
    first_bytes: int
    last_bytes: int
    steps: int
    """Number of steps from the first peak to the last peak."""
    rising: float
    """Share of the steps whose peak is higher than the peak of the previous step."""
    threshold: float = RISING

    @property
    def figures(self) -> list[Figure]:
        return [
            METRICS.figure("peak_growth_bytes", (self.last_bytes - self.first_bytes) / self.steps),
            METRICS.figure("first_peak_bytes", self.first_bytes),
            METRICS.figure("last_peak_bytes", self.last_bytes),
            METRICS.figure("peak_steps", self.steps),
            METRICS.figure("rising_ratio", self.rising),
        ]


def rise_of(device: DeviceLevels) -> Rise | None:
    """Returns the increase of the memory peaks of the steps.

    Returns None if the peaks do not increase, or if retained memory explains most of the increase.
    """
    steps = steps_of(device)
    count = len(steps) - WARM_UP
    if count <= MIN_RISES:
        return None
    moments = steps.moments[WARM_UP:]
    allocated = levels_of(device).allocated[moments[0] + 2 : moments[-1] + 2]
    starts = moments[:-1] - moments[0]
    peaks = np.maximum.reduceat(allocated, starts)
    rising = float((np.diff(peaks) > 0).mean())
    grown = int(peaks[-1] - peaks[0])
    live = levels_of(device).allocated[moments + 1]
    stays = int(live[-2] - live[0])  # from the start of the first counted step to the start of the last step
    if rising < RISING or grown < RISEN * peaks[0] or 2 * stays > grown:
        return None
    ends = np.append(starts[1:], len(allocated))
    first, last = (int(moments[0] + 1 + starts[i] + allocated[starts[i] : ends[i]].argmax()) for i in (0, count - 1))
    return Rise(first, last, int(peaks[0]), int(peaks[-1]), count - 1, rising)


class Live(msgspec.Struct, frozen=True, eq=False):
    """Allocated memory at the start of each step and at the end of the last step."""

    bytes: Int64
    blocks: Int64


def live_of(device: DeviceLevels, steps: Steps, stack: int | None) -> Live:
    """Returns the allocated memory at the boundaries of the steps, for one stack.

    If ``stack`` is None, returns the sum over all stacks.
    """
    begin, freed, size = (device.block(column) for column in ("begin", "freed", "size"))
    rows = slice(None) if stack is None else np.flatnonzero(device.block("stack") == stack)
    begin, freed, size = begin[rows], freed[rows], size[rows]
    moments = steps.moments
    # First moment at which each block is live, and first moment after its release.
    comes, goes = np.searchsorted(moments, begin), np.searchsorted(moments, freed)
    lasting = np.flatnonzero(comes < goes)
    change, number = np.zeros(len(moments) + 1, np.int64), np.zeros(len(moments) + 1, np.int64)
    for at, sign in ((comes[lasting], 1), (goes[lasting], -1)):
        np.add.at(change, at, sign * size[lasting])
        np.add.at(number, at, sign)
    return Live(np.cumsum(change)[:-1], np.cumsum(number)[:-1])


class Change(msgspec.Struct, frozen=True, eq=False):
    """Allocated memory after each of two events, one row per allocation stack."""

    stack: Int64
    first_bytes: Int64
    first_blocks: Int64
    second_bytes: Int64
    second_blocks: Int64
    both_blocks: Int64
    """Number of blocks that are allocated after the first event and still after the second event."""
    both_bytes: Int64


def change_of(device: DeviceLevels, first: int, second: int) -> Change:
    """Returns the allocated memory of each stack after event ``first`` and after event ``second``."""
    begin, freed = device.block("begin"), device.block("freed")
    one, other = ((begin <= at) & (freed > at) for at in (first, second))
    rows = np.flatnonzero(one | other)
    one, other, size = one[rows], other[rows], device.block("size")[rows]
    stack = device.block("stack")[rows].astype(np.int64)
    groups = group(stack)
    both = one & other
    sums = [(groups.sum(np.where(flags, size, 0)), groups.sum(flags.astype(np.int64))) for flags in (one, other, both)]
    (b1, n1), (b2, n2), (b3, n3) = sums
    return Change(stack[groups.first], b1, n1, b2, n2, n3, b3)
