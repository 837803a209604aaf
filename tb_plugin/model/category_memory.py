"""Changes of the memory of one device by category, in order of time, and what was there before the first of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.lib.model_cache import remembered
from tb_plugin.model.trace.report import ReadReport

Int64 = npt.NDArray[np.int64]
Int8 = npt.NDArray[np.int8]

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
"""In the order of PyTorch's numbers."""
BEFORE = -1
"""Time of rows about memory that was there before the recording."""


@dataclass(frozen=True)
class Action:
    """Numbers of what a row tells, as PyTorch writes them; ``LEVEL`` where the file has levels and no actions."""

    LEVEL = 0
    PREEXISTING = 1
    CREATE = 2
    INCREMENT_VERSION = 3
    DESTROY = 4


@dataclass(frozen=True, eq=False)
class RawCategoryMemory:
    """What a reader returns: rows in the order of the file. Each adds ``bytes`` (or takes, where negative) at a time."""

    time_ns: Int64
    """Nanoseconds since 1970; negative = ``BEFORE``."""
    category: Int8
    """Position in ``CATEGORIES``."""
    action: Int8
    bytes: Int64
    end_ns: int
    """Time of the last moment that the file speaks of, which need not have changed anything."""
    report: ReadReport


@dataclass(frozen=True, eq=False)
class CategoryMemory:
    """The changes by time. What is negative without them was there before, and stands in ``missing`` and ``before``."""

    origin_ns: int
    """Nanoseconds since 1970 of time 0, the first change."""
    end_ns: int
    """The end of the recording, since ``origin_ns``."""
    time_ns: Int64
    """Since ``origin_ns``."""
    category: Int8
    action: Int8
    bytes: Int64
    before: Int64
    """Bytes by category before the first change."""
    missing: Int64
    """The part of ``before`` that no row tells: more was released later than there was."""
    report: ReadReport

    @property
    def has_actions(self) -> bool:
        """Returns whether it is known what was allocated, and not only how much there was."""
        return bool((self.action != Action.LEVEL).any())

    def rows_until(self, times_ns: Int64) -> Int64:
        """Returns how many changes there are until each time, those at it included."""
        return np.searchsorted(self.time_ns, times_ns, side="right").astype(np.int64)

    def levels(self, rows: Int64) -> Int64:
        """Returns bytes by category (second axis) after so many changes (first axis)."""
        found = np.repeat(self.before[None, :], len(rows), axis=0)
        for number, (place, level) in enumerate(categories_of(self)):
            at = np.searchsorted(place, rows, side="left")
            known = at > 0
            found[known, number] = level[at[known] - 1]
        return found


@remembered
def categories_of(memory: CategoryMemory) -> list[tuple[Int64, Int64]]:
    """Returns for each category the places of its changes, and its bytes after each."""
    found = []
    for number in range(len(CATEGORIES)):
        place = np.flatnonzero(memory.category == number)
        found.append((place, memory.before[number] + np.cumsum(memory.bytes[place])))
    return found


@remembered
def moments_of(memory: CategoryMemory) -> Int64:
    """Returns the places of the last change of each time: what lies between changes of one time never was."""
    times = memory.time_ns
    return np.flatnonzero(np.append(times[1:] != times[:-1], True)) if len(times) else np.empty(0, np.int64)


def assembled(raw: RawCategoryMemory) -> CategoryMemory:
    """Returns the changes by time, from the first one on."""
    old = raw.time_ns < 0
    before = _sums(raw.category[old], raw.bytes[old])
    first = int(old.sum())
    rows: slice | Int64 = slice(first, None)
    if not old[:first].all() or (raw.time_ns[first + 1 :] < raw.time_ns[first:-1]).any():
        # PyTorch writes them by time, and what was there before at the beginning.
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
