"""Sorts a chunk's events by what they are and hands each sort to its columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from operator import not_
from typing import Any

import numpy as np
import numpy.typing as npt

from tb_plugin.readers.kineto.cut import Cut
from tb_plugin.readers.kineto.events import ABSENT, COUNTER, Event
from tb_plugin.readers.kineto.extras import Arrows, Counters, Marks, Memory, Names
from tb_plugin.readers.kineto.interning import Interner
from tb_plugin.readers.kineto.issues import IssueLog
from tb_plugin.readers.kineto.rows import Rows
from tb_plugin.readers.kineto.times import from_digits, from_numbers, is_time
from tb_plugin.trace.schema import EventKind
from tb_plugin.trace.table import Window

Int64 = npt.NDArray[np.int64]

MEMORY_NAME = "[memory]"
INSTANT_CATEGORY = "cpu_instant_event"
_INSTANTS = ("i", "I", "R")
_ARROW_CATEGORIES = ("fwdbwd", "forward_backward")


class Collector:
    """Everything a trace holds, growing by chunks. ``add`` changes nothing when it raises NeedsDigits."""

    def __init__(self, log: IssueLog, window: Window | None = None) -> None:
        self.interner = Interner()
        self.rows = Rows(self.interner)
        self.memory = Memory(self.interner)
        self.counters = Counters(self.interner, log)
        self.arrows = Arrows(self.interner)
        self.names = Names()
        self.marks = Marks()
        self.seen = 0
        self.cut = None if window is None else Cut(window)
        self._log = log

    def add(self, events: Sequence[Event], digits: bool) -> None:
        """Take in events; ``digits`` says that their times are raw text. Raises NeedsDigits before any change."""
        is_row = [event.ph == "X" for event in events]
        rows: Sequence[Event] = events
        others: list[Event] = []
        if not all(is_row):
            rows = list(compress(events, is_row))
            others = list(compress(events, map(not_, is_row)))
        names = [event.name for event in rows]
        categories = [event.cat for event in rows]
        memory: Sequence[Event] = []
        if MEMORY_NAME in names or INSTANT_CATEGORY in categories:
            memory = [event for event in rows if event.name == MEMORY_NAME]
            rows = [event for event in rows if not is_instant(event)]
        kinds = {event.ph for event in others}  # most chunks hold one or two kinds of events: look only for those
        if not kinds.isdisjoint(_INSTANTS):
            instants = [event for event in others if event.name == MEMORY_NAME and event.ph in _INSTANTS]
            memory = [*memory, *instants]
        counters: Sequence[Event] = []
        if COUNTER in kinds:
            counters = [event for event in others if event.ph == COUNTER]
        arrows: Sequence[Event] = []
        if "s" in kinds or "f" in kinds:
            arrows = [event for event in others if event.cat in _ARROW_CATEGORIES and event.ph in ("s", "f")]
        marks: Sequence[Event] = []
        if "B" in kinds or "E" in kinds:
            marks = [event for event in others if event.ph in ("B", "E")]
        tally = Times(digits)
        rows, starts = tally.starts(rows)
        durations = tally.durations(rows)
        memory, memory_ns = tally.starts(memory)
        counters, counters_ns = tally.starts(counters)
        arrows, arrows_ns = tally.starts(arrows)
        marks, marks_ns = tally.starts(marks)
        # From here on nothing raises NeedsDigits.
        tally.report(self._log)
        self.seen += len(events)
        if self.cut is not None:
            rows, starts, durations = self.cut.rows(rows, starts, durations)
            memory, memory_ns = self.cut.moments(memory, memory_ns)
            counters, counters_ns = self.cut.moments(counters, counters_ns)
            arrows, arrows_ns = self.cut.arrows(arrows, arrows_ns)
        self.rows.add(rows, starts, durations)
        self.memory.add(memory, memory_ns)
        self.counters.add(counters, counters_ns)
        self.arrows.add(arrows, arrows_ns)
        self.marks.add(marks, marks_ns)
        if "M" in kinds:
            for event in others:
                if event.ph == "M":
                    self.names.add(event)

    def counts(self) -> dict[str, int]:
        """How many events of each kind came so far; see ReadState."""
        counts = dict(zip((kind.name.lower() for kind in EventKind), self.rows.by_kind.tolist(), strict=True))
        counts["memory"] = self.memory.count
        counts["counter"] = self.counters.count
        counts["outside"] = 0 if self.cut is None else self.cut.outside
        counts["other"] = self.seen - self.rows.count - sum(counts[kind] for kind in ("memory", "counter", "outside"))
        return {kind: count for kind, count in counts.items() if count}

    def close_marks(self) -> None:
        """Turn begin and end marks into rows; call once, when all events are in."""
        events: Sequence[Event]
        events, starts, durations, lonely = self.marks.take()
        if self.cut is not None:
            events, starts, durations = self.cut.rows(events, starts, durations)
        self.rows.add(events, starts, durations)
        if lonely:
            self._log.add("unmatched_begin", "dropped", count=lonely)


class Times:
    """Reads the times of one chunk and remembers what was wrong with them."""

    def __init__(self, digits: bool) -> None:
        self._absent = ABSENT if digits else None
        self._convert = from_digits if digits else from_numbers
        self._zero: Any = b"0" if digits else 0
        self._untimed = self._undurated = self._clamped = 0

    def starts(self, events: Sequence[Event]) -> tuple[Sequence[Event], Int64]:
        """Events that have a start, and their starts."""
        times = [event.ts for event in events]
        try:
            if self._absent in times:
                raise ValueError
            starts, clamped = self._convert(times)
        except (ValueError, TypeError):
            timed = [event for event in events if event.ts is not self._absent and is_time(event.ts)]
            self._untimed += len(events) - len(timed)
            events = timed
            starts, clamped = self._convert([event.ts for event in events])
        self._clamped += clamped
        return events, starts

    def durations(self, events: Sequence[Event]) -> Int64:
        """Durations, 0 where none is stated."""
        times = [event.dur for event in events]
        try:
            if self._absent in times:
                raise ValueError
            durations, clamped = self._convert(times)
        except (ValueError, TypeError):
            stated = [time is not self._absent and is_time(time) for time in times]
            self._undurated += stated.count(False)
            times = [time if is_stated else self._zero for time, is_stated in zip(times, stated, strict=True)]
            durations, clamped = self._convert(times)
        self._clamped += clamped
        return durations

    def report(self, log: IssueLog) -> None:
        """Tell the log. Decoded events know no byte offsets."""
        if self._untimed:
            log.add("missing_time", "dropped", count=self._untimed)
        if self._undurated:
            log.add("missing_duration", "note", count=self._undurated)
        if self._clamped:
            log.add("time_out_of_range", "note", count=self._clamped)


def is_instant(event: Event) -> bool:
    """Duration events that are none: PyTorch's Python exporter and one release of Kineto wrote instants as X."""
    return event.cat == INSTANT_CATEGORY or event.name == MEMORY_NAME
