"""Selection of the events in a time window, chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from tb_plugin.formats._chrome.events import ChromeEvent
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.model.trace.order import FAR, overlaps_range
from tb_plugin.model.trace.table import Window

Near = Callable[[Sequence[Any]], tuple[Bool, Bool]]
"""Returns two boolean masks: events that may be launches, and events that may be device work."""

Each = TypeVar("Each", bound=ChromeEvent)


class Cut:
    """Selects events in a time window, and nearby launches and work, of which ``assemble`` makes the final selection."""

    def __init__(self, window: Window, near: Near, arrow_lag_ns: int = 0) -> None:
        # number of dropped rows, allocator events and counters; arrows are not included
        self.outside = 0
        self._begin = window.origin_ns + window.begin_ns
        self._end = window.origin_ns + window.end_ns
        self._lag = window.lag_ns
        self.trace_end_ns = window.origin_ns + window.full.end_ns  # end of the whole trace
        self._near = near
        self._arrow_lag = arrow_lag_ns

    def rows(self, events: Sequence[Each], start_ns: Int64, dur_ns: Int64) -> tuple[Sequence[Each], Int64, Int64]:
        keep = self.keeps(events, start_ns, dur_ns)
        return flagged_events(events, keep), start_ns[keep], dur_ns[keep]

    def keeps(self, events: Sequence[Each], start_ns: Int64, dur_ns: Int64) -> Bool:
        """Returns a boolean mask of the selected ranges. Counts all others as outside the window."""
        end_ns = start_ns + np.clip(dur_ns, 0, FAR)
        keep = overlaps_range(start_ns, end_ns, self._begin, self._end)
        before = (end_ns <= self._begin) & (start_ns >= self._begin - self._lag)
        after = (start_ns >= self._end) & (start_ns < self._end + self._lag)
        near = np.flatnonzero((before | after) & ~keep)
        if len(near):
            calls, work = self._near([events[i] for i in near.tolist()])
            keep[near] = np.where(before[near], calls, work)
        self.outside += int((~keep).sum())
        return keep

    def moments(self, events: Sequence[Each], time_ns: Int64) -> tuple[Sequence[Each], Int64]:
        keep = self.is_inside(time_ns)
        self.outside += int((~keep).sum())
        return flagged_events(events, keep), time_ns[keep]

    def arrows(self, events: Sequence[Each], time_ns: Int64) -> tuple[Sequence[Each], Int64]:
        keep = self.is_inside(time_ns, self._arrow_lag)
        return flagged_events(events, keep), time_ns[keep]

    def is_inside(self, time_ns: Int64, lag_ns: int = 0) -> Bool:
        found: Bool = (time_ns >= self._begin - lag_ns) & (time_ns < self._end + lag_ns)
        return found


def flagged_events(events: Sequence[Each], keep: Bool) -> Sequence[Each]:
    return events if keep.all() else [events[i] for i in np.flatnonzero(keep).tolist()]
