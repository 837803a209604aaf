"""One pass over ``trace_view.json``."""

from __future__ import annotations

from collections.abc import Sequence

from tb_plugin.formats._chrome.generic.events import Event
from tb_plugin.formats._chrome.generic.rows import Collected
from tb_plugin.formats._chrome.parse import no_events
from tb_plugin.formats.ascend.timeline import IN_PAIRS
from tb_plugin.formats.ascend.windows import cut_of
from tb_plugin.formats.base import ReadState
from tb_plugin.formats.issues import IssueLog
from tb_plugin.model.trace.table import Window


class Events:
    """Receives the events of the trace view during one pass."""

    def __init__(self, log: IssueLog, window: Window | None = None) -> None:
        self.log = log
        self._window = window
        self.restart()
        self._has_phases = False

    def take(self, events: Sequence[Event], digits: bool, text_bytes: int) -> None:
        self.collected.add(events, digits)
        self._has_phases = self._has_phases or any(event.ph for event in events)

    def restart(self) -> None:
        self.collected = Collected(self.log, IN_PAIRS, None if self._window is None else cut_of(self._window))

    def state(self, fraction: float) -> ReadState:
        seen = self.collected.event_count
        return ReadState(fraction, seen, {"other": seen} if seen else {})

    def check(self, is_bare_list: bool) -> None:
        if not self._has_phases and (is_bare_list or self.collected.event_count):
            raise no_events()
