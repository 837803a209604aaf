"""Reading a window: which events of a chunk are kept. What is outside is counted and let go before it costs memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from tb_plugin.devices import is_told_by_name, kind_of, kind_of_event
from tb_plugin.readers.chrome.events import ChromeEvent
from tb_plugin.readers.chrome.interning import Ids, as_text
from tb_plugin.trace.order import FAR, touching
from tb_plugin.trace.schema import DEVICE_WORK, EventKind, of_kind
from tb_plugin.trace.table import Window

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
_BY_NAME = 255
"""In place of an EventKind: the category does not tell it."""

Each = TypeVar("Each", bound=ChromeEvent)


class Cut:
    """Keeps what touches a window, and the launches and device work that may belong to it.

    Which of those do is known only when all of the file was read: ``assemble`` drops the others.
    """

    def __init__(self, window: Window) -> None:
        self.outside = 0
        """Rows, allocator events and counters that were let go; arrows count as events without a duration in any case."""
        self._begin = window.origin_ns + window.begin_ns
        self._end = window.origin_ns + window.end_ns
        self._lag = window.lag_ns
        self.trace_end_ns = window.origin_ns + window.whole.end_ns
        """Where the whole trace ends."""
        self._kinds = kind_ids()

    def rows(self, events: Sequence[Each], start_ns: Int64, dur_ns: Int64) -> tuple[Sequence[Each], Int64, Int64]:
        """Returns the duration events to keep, with their times."""
        end_ns = start_ns + np.clip(dur_ns, 0, FAR)
        keep = touching(start_ns, end_ns, self._begin, self._end)
        before = (end_ns <= self._begin) & (start_ns >= self._begin - self._lag)
        after = (start_ns >= self._end) & (start_ns < self._end + self._lag)
        near = np.flatnonzero((before | after) & ~keep)
        if len(near):
            kinds = kinds_of(self._kinds, [events[i] for i in near.tolist()])
            keep[near] = np.where(before[near], kinds == EventKind.RUNTIME, of_kind(kinds, *DEVICE_WORK))
        self.outside += int((~keep).sum())
        return _chosen(events, keep), start_ns[keep], dur_ns[keep]

    def moments(self, events: Sequence[Each], time_ns: Int64) -> tuple[Sequence[Each], Int64]:
        """Returns the allocator events or counters to keep, with their times."""
        kept, times = self.arrows(events, time_ns)
        self.outside += len(events) - len(kept)
        return kept, times

    def arrows(self, events: Sequence[Each], time_ns: Int64) -> tuple[Sequence[Each], Int64]:
        """Returns the ends of arrows to keep, with their times."""
        keep = (time_ns >= self._begin) & (time_ns < self._end)
        return _chosen(events, keep), time_ns[keep]


def _chosen(events: Sequence[Each], keep: Bool) -> Sequence[Each]:
    return events if keep.all() else [events[i] for i in np.flatnonzero(keep).tolist()]


def kind_ids() -> Ids:
    """Returns the category of an event -> its EventKind as a number, or that its name tells."""
    return Ids(lambda category: _BY_NAME if is_told_by_name(category or "") else int(kind_of(category or "")))


def kinds_of(ids: Ids, events: Sequence[ChromeEvent]) -> npt.NDArray[np.uint8]:
    """Returns the EventKind of each event; ``ids`` as ``kind_ids`` makes them."""
    kinds = np.array([ids[event.cat] for event in events], np.uint8)
    for i in np.flatnonzero(kinds == _BY_NAME).tolist():
        kinds[i] = kind_of_event(events[i].cat or "", as_text(events[i].name or ""))
    return kinds
