"""Survey of Kineto's events, and their selection for a time window."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tb_plugin.devices import kind_of, kind_of_event, needs_name
from tb_plugin.formats._chrome.columns import int64s
from tb_plugin.formats._chrome.events import ChromeEvent
from tb_plugin.formats._chrome.interning import Ids, as_text
from tb_plugin.formats._chrome.survey import Surveying
from tb_plugin.formats._chrome.window_cut import Cut
from tb_plugin.formats.kineto.events import NO_ARGS, Event, is_instant
from tb_plugin.lib.arrays import Bool, Int64, UInt8
from tb_plugin.model.trace.order import FAR
from tb_plugin.model.trace.schema import DEVICE_WORK, EventKind, of_kind
from tb_plugin.model.trace.table import Window

_BY_NAME = 255  # used instead of an EventKind if the event's name decides


def cut_of(window: Window) -> Cut:
    ids = kind_ids()

    def near(events: Sequence[ChromeEvent]) -> tuple[Bool, Bool]:
        kinds = kinds_of(ids, events)
        return kinds == EventKind.RUNTIME, of_kind(kinds, *DEVICE_WORK)

    return Cut(window, near)


def kind_ids() -> Ids:
    """Returns a mapping from category to EventKind. 255 means that the kind depends on the name of the event."""
    return Ids(lambda category: _BY_NAME if needs_name(category or "") else int(kind_of(category or "")))


def kinds_of(ids: Ids, events: Sequence[ChromeEvent]) -> UInt8:
    kinds = np.array([ids[event.cat] for event in events], np.uint8)
    for i in np.flatnonzero(kinds == _BY_NAME).tolist():
        kinds[i] = kind_of_event(events[i].cat or "", as_text(events[i].name or ""))
    return kinds


class KinetoSurvey(Surveying):
    def _restart_at(self, text_bytes: int) -> None:
        super()._restart_at(text_bytes)
        self._stream: dict[tuple[str, str], int] = {}  # (process, thread) of device work -> number
        self._kinds = kind_ids()

    def is_range(self, event: Event) -> bool:
        return not is_instant(event)

    def add_rows(self, rows: Sequence[Event], start: Int64, dur: Int64) -> None:
        kinds = kinds_of(self._kinds, rows)
        work = of_kind(kinds, *DEVICE_WORK)
        # As in model/trace/order.py, implausible times are ignored.
        right = (dur >= 0) & (dur <= FAR) & (np.abs(start) < FAR) & ~(work & (start == 0) & (dur == 0))
        end = start + np.where(right, dur, 0)
        self.bounds.add(start[right], end[right])
        launches, works = np.flatnonzero((kinds == EventKind.RUNTIME) & right), np.flatnonzero(work & right)
        self.work.add_launches(_correlations(rows, launches), start[launches], end[launches])
        streams = np.array([self._stream_of(rows[i]) for i in works.tolist()], np.int32)
        self.work.add_work(_correlations(rows, works), start[works], end[works], streams)
        self.work.add_steps(rows, start, dur, right & of_kind(kinds, EventKind.ANNOTATION, EventKind.OPERATOR))

    def _stream_of(self, event: Event) -> int:
        return self._stream.setdefault((as_text(event.pid), as_text(event.tid)), len(self._stream))


def _correlations(rows: Sequence[Event], some: npt.NDArray[np.intp]) -> Int64:
    return int64s([(rows[i].args or NO_ARGS).correlation for i in some.tolist()])
