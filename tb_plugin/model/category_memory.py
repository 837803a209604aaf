"""Memory of one device by category: initial bytes and later changes."""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.lib.arrays import Int8, Int64
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.report import ReadReport

# In the order of PyTorch's category numbers.
CATEGORIES = (
    "parameter",
    "optimizer_state",
    "input",
    "temporary",
    "activation",
    "gradient",
    "autograd_detail",
    "unknown",
)
# Time of rows about memory allocated before the recording.
BEFORE = -1


class Action(msgspec.Struct, frozen=True):
    """Kinds of memory changes, with PyTorch's numbers. ``LEVEL``: the file reports levels instead of changes."""

    LEVEL = 0
    PREEXISTING = 1
    CREATE = 2
    INCREMENT_VERSION = 3
    DESTROY = 4


class RawCategoryMemory(msgspec.Struct, frozen=True, eq=False):
    """Memory changes in file order, as returned by a reader. ``bytes`` is negative for a decrease."""

    time_ns: Int64
    """Time in nanoseconds since 1970; ``BEFORE`` for memory that was allocated before the recording."""
    category: Int8
    action: Int8
    bytes: Int64
    end_ns: int
    report: ReadReport


class CategoryMemory(msgspec.Struct, frozen=True, eq=False, dict=True, weakref=True):
    """Memory changes, sorted by time. ``before`` contains the memory that was allocated before the recording."""

    origin_ns: int
    """Time of the first change, in nanoseconds since 1970."""
    end_ns: int
    time_ns: Int64
    category: Int8
    action: Int8
    bytes: Int64
    before: Int64
    """Bytes per category before the first change, including ``missing``."""
    missing: Int64
    """Bytes per category that are released in the file but never allocated in it."""
    report: ReadReport

    @property
    def has_actions(self) -> bool:
        return bool((self.action != Action.LEVEL).any())

    def rows_until(self, times_ns: Int64) -> Int64:
        return np.searchsorted(self.time_ns, times_ns, side="right").astype(np.int64)

    def levels(self, rows: Int64) -> Int64:
        """Returns the bytes of each category after the first ``rows[i]`` changes, shape (len(rows), categories)."""
        found = np.repeat(self.before[None, :], len(rows), axis=0)
        for number, (place, level) in enumerate(categories_of(self)):
            at = np.searchsorted(place, rows, side="left")
            known = at > 0
            found[known, number] = level[at[known] - 1]
        return found


@cached_by_argument
def categories_of(memory: CategoryMemory) -> list[tuple[Int64, Int64]]:
    """Returns the indices of the changes of each category, and the bytes after each of these changes."""
    found = []
    for number in range(len(CATEGORIES)):
        place = np.flatnonzero(memory.category == number)
        found.append((place, memory.before[number] + np.cumsum(memory.bytes[place])))
    return found


@cached_by_argument
def moments_of(memory: CategoryMemory) -> Int64:
    times = memory.time_ns
    return np.flatnonzero(np.append(times[1:] != times[:-1], True)) if len(times) else np.empty(0, np.int64)


def assembled(raw: RawCategoryMemory) -> CategoryMemory:
    """Returns the changes sorted by time. Memory that was allocated before the recording is summed by category."""
    old = raw.time_ns < 0
    before = _sums(raw.category[old], raw.bytes[old])
    first = int(old.sum())
    rows: slice | Int64 = slice(first, None)
    if not old[:first].all() or (raw.time_ns[first + 1 :] < raw.time_ns[first:-1]).any():
        # PyTorch writes rows sorted by time, with earlier memory first. This file is different.
        rows = np.argsort(raw.time_ns, kind="stable")[first:]
    time = raw.time_ns[rows]
    origin = int(time[0]) if len(time) else max(0, raw.end_ns)
    category, size = raw.category[rows], raw.bytes[rows]
    moments = np.flatnonzero(np.append(time[1:] != time[:-1], True)) if len(time) else np.empty(0, np.int64)
    missing = np.zeros(len(CATEGORIES), np.int64)
    for number in range(len(CATEGORIES)):
        level = np.cumsum(np.where(category == number, size, 0))[moments]
        missing[number] = max(0, -(int(before[number]) + min(0, int(level.min(initial=0)))))
    return CategoryMemory(
        origin_ns=origin,
        end_ns=max(raw.end_ns - origin, int(time[-1]) - origin if len(time) else 0),
        time_ns=time - origin,
        category=category,
        action=raw.action[rows],
        bytes=size,
        before=before + missing,
        missing=missing,
        report=raw.report,
    )


def _sums(category: Int8, size: Int64) -> Int64:
    found = np.zeros(len(CATEGORIES), np.int64)
    np.add.at(found, category, size)
    return found
