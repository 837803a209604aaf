"""Events of a chunk that belong to a time window.

Other events are counted and dropped before they cost memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tb_plugin.formats._chrome.events import ChromeEvent
from tb_plugin.model.trace.order import FAR, touching
from tb_plugin.model.trace.table import Window

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
Near = Callable[[Sequence[Any]], tuple[Bool, Bool]]
"""Flags of events that may be launches, and of events that may be device work."""

Each = TypeVar("Each", bound=ChromeEvent)


class Cut:
    """Selects events that overlap a window, and launches and device work that may belong to it.

    The final decision needs the whole file: ``assemble`` drops the others.
    """

    def __init__(self, window: Window, near: Near, arrow_lag_ns: int = 0) -> None:
        # dropped rows, allocator events and counters; arrows always count as events without a duration
        self.outside = 0
        self._begin = window.origin_ns + window.begin_ns
        self._end = window.origin_ns + window.end_ns
        self._lag = window.lag_ns
        self.trace_end_ns = window.origin_ns + window.full.end_ns  # end of the whole trace
        self._near = near
        self._arrow_lag = arrow_lag_ns

    def rows(self, events: Sequence[Each], start_ns: Int64, dur_ns: Int64) -> tuple[Sequence[Each], Int64, Int64]:
        """Returns the duration events inside, with their times."""
        keep = self.keeps(events, start_ns, dur_ns)
        return chosen(events, keep), start_ns[keep], dur_ns[keep]

    def keeps(self, events: Sequence[Each], start_ns: Int64, dur_ns: Int64) -> Bool:
        """Returns flags of the duration events inside; the others are counted."""
        end_ns = start_ns + np.clip(dur_ns, 0, FAR)
        keep = touching(start_ns, end_ns, self._begin, self._end)
        before = (end_ns <= self._begin) & (start_ns >= self._begin - self._lag)
        after = (start_ns >= self._end) & (start_ns < self._end + self._lag)
        near = np.flatnonzero((before | after) & ~keep)
        if len(near):
            calls, work = self._near([events[i] for i in near.tolist()])
            keep[near] = np.where(before[near], calls, work)
        self.outside += int((~keep).sum())
        return keep

    def moments(self, events: Sequence[Each], time_ns: Int64) -> tuple[Sequence[Each], Int64]:
        """Returns the allocator events or counters inside, with their times."""
        keep = self.is_inside(time_ns)
        self.outside += int((~keep).sum())
        return chosen(events, keep), time_ns[keep]

    def arrows(self, events: Sequence[Each], time_ns: Int64) -> tuple[Sequence[Each], Int64]:
        """Returns the arrow ends inside, with their times."""
        keep = self.is_inside(time_ns, self._arrow_lag)
        return chosen(events, keep), time_ns[keep]

    def is_inside(self, time_ns: Int64, lag_ns: int = 0) -> Bool:
        """Returns flags of the moments inside the window, or at most ``lag_ns`` from it."""
        found: Bool = (time_ns >= self._begin - lag_ns) & (time_ns < self._end + lag_ns)
        return found


def chosen(events: Sequence[Each], keep: Bool) -> Sequence[Each]:
    """Returns the flagged events."""
    return events if keep.all() else [events[i] for i in np.flatnonzero(keep).tolist()]
