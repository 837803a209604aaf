"""Reading a window: which events of a chunk are kept. What is outside is counted and let go before it costs memory."""

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
"""Which of these events may be launches, and which may be work of a device."""

Each = TypeVar("Each", bound=ChromeEvent)


class Cut:
    """Keeps what touches a window, and the launches and device work that may belong to it.

    Which of those do is known only when all of the file was read: ``assemble`` drops the others.
    """

    def __init__(self, window: Window, near: Near, arrow_lag_ns: int = 0) -> None:
        self.outside = 0
        """Rows, allocator events and counters that were let go; arrows count as events without a duration in any case."""
        self._begin = window.origin_ns + window.begin_ns
        self._end = window.origin_ns + window.end_ns
        self._lag = window.lag_ns
        self.trace_end_ns = window.origin_ns + window.whole.end_ns
        """Where the whole trace ends."""
        self._near = near
        self._arrow_lag = arrow_lag_ns

    def rows(self, events: Sequence[Each], start_ns: Int64, dur_ns: Int64) -> tuple[Sequence[Each], Int64, Int64]:
        """Returns the duration events to keep, with their times."""
        keep = self.keeps(events, start_ns, dur_ns)
        return chosen(events, keep), start_ns[keep], dur_ns[keep]

    def keeps(self, events: Sequence[Each], start_ns: Int64, dur_ns: Int64) -> Bool:
        """Returns which duration events to keep; the others are counted."""
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
        """Returns the allocator events or counters to keep, with their times."""
        keep = self.is_inside(time_ns)
        self.outside += int((~keep).sum())
        return chosen(events, keep), time_ns[keep]

    def arrows(self, events: Sequence[Each], time_ns: Int64) -> tuple[Sequence[Each], Int64]:
        """Returns the ends of arrows to keep, with their times."""
        keep = self.is_inside(time_ns, self._arrow_lag)
        return chosen(events, keep), time_ns[keep]

    def is_inside(self, time_ns: Int64, lag_ns: int = 0) -> Bool:
        """Returns which moments lie in the window, or no further than ``lag_ns`` from it."""
        found: Bool = (time_ns >= self._begin - lag_ns) & (time_ns < self._end + lag_ns)
        return found


def chosen(events: Sequence[Each], keep: Bool) -> Sequence[Each]:
    """Returns the events to keep."""
    return events if keep.all() else [events[i] for i in np.flatnonzero(keep).tolist()]
