"""Selection of Kineto events for a time window."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tb_plugin.devices import kind_of, kind_of_event, needs_name
from tb_plugin.formats._chrome.events import ChromeEvent
from tb_plugin.formats._chrome.interning import Ids, as_text
from tb_plugin.formats._chrome.window_cut import Cut
from tb_plugin.lib.arrays import Bool, UInt8
from tb_plugin.model.trace.schema import DEVICE_WORK, EventKind, of_kind
from tb_plugin.model.trace.table import Window

_BY_NAME = 255  # used instead of an EventKind if the event's name decides


def cut_of(window: Window) -> Cut:
    """Returns a Cut that selects the events of a window."""
    ids = kind_ids()

    def near(events: Sequence[ChromeEvent]) -> tuple[Bool, Bool]:
        kinds = kinds_of(ids, events)
        return kinds == EventKind.RUNTIME, of_kind(kinds, *DEVICE_WORK)

    return Cut(window, near)


def kind_ids() -> Ids:
    """Returns a mapping from category to EventKind. 255 means that the kind depends on the name of the event."""
    return Ids(lambda category: _BY_NAME if needs_name(category or "") else int(kind_of(category or "")))


def kinds_of(ids: Ids, events: Sequence[ChromeEvent]) -> UInt8:
    """Returns the EventKind of each event. ``ids`` come from ``kind_ids``."""
    kinds = np.array([ids[event.cat] for event in events], np.uint8)
    for i in np.flatnonzero(kinds == _BY_NAME).tolist():
        kinds[i] = kind_of_event(events[i].cat or "", as_text(events[i].name or ""))
    return kinds
