"""Counters, names, and separate begin and end events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec.structs import asdict, replace

from tb_plugin.formats._chrome.columns import Column, float64s
from tb_plugin.formats._chrome.events import ChromeEvent
from tb_plugin.formats._chrome.interning import Interner, as_text
from tb_plugin.formats._chrome.pairing import matched_ends, unfinished_durations
from tb_plugin.formats.issues import IssueLog
from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.model.trace.table import CounterEvents

Key = tuple[str, str]


class Counters:
    def __init__(self, interner: Interner, log: IssueLog) -> None:
        self.count = 0  # events with at least one value
        self._interner = interner
        self._log = log
        self._columns = {
            "time_ns": Column(np.int64),
            "value": Column(np.float64),
            **{name: Column(np.int32) for name in ("event", "name", "series", "pid", "tid")},
        }

    def add(self, events: Sequence[ChromeEvent], series_of_events: Sequence[dict[str, Any]], time_ns: Int64) -> None:
        """Appends counter events with their series. Infinite and NaN values are skipped and counted."""
        if not events:
            return
        event_index = np.repeat(np.arange(len(events)), [len(series) for series in series_of_events])
        values = float64s([value for series in series_of_events for value in series.values()])
        good = ~np.isnan(values)
        has_value = np.bincount(event_index[good], minlength=len(events)) > 0
        columns, names, keys = self._columns, self._interner.names, self._interner.keys
        series = names.of([key for each in series_of_events for key in each])[good]
        number = self.count + np.cumsum(has_value) - 1
        name = names.of([_counter_name(event) for event in events])
        pid, tid = keys.of([event.pid for event in events]), keys.of([event.tid for event in events])
        columns["value"].add(values[good])
        columns["series"].add(series)
        for key, column in (("time_ns", time_ns), ("event", number), ("name", name), ("pid", pid), ("tid", tid)):
            columns[key].add(column[event_index[good]])
        self.count += int(has_value.sum())
        if not has_value.all():
            self._log.add("bad_counter", "dropped", count=int((~has_value).sum()))
        if (bad_values := int((~good & has_value[event_index]).sum())) > 0:
            self._log.add("bad_counter_value", "note", count=bad_values)

    def take(self) -> CounterEvents:
        return CounterEvents(**{name: column.take() for name, column in self._columns.items()})

    def take_piece(self) -> tuple[int, CounterEvents]:
        count, self.count = self.count, 0
        return count, self.take()

    def merge(self, piece: tuple[int, CounterEvents], ids: Int32) -> None:
        count, events = piece
        for key, column in asdict(events).items():
            if key == "event":
                column = column + np.int32(self.count)
            self._columns[key].add(ids[column] if key in ("name", "series", "pid", "tid") else column)
        self.count += count


def _counter_name(event: ChromeEvent) -> str:
    """Returns the name of a counter, including its id. Counters with different ids thus have different names."""
    return (event.name or "") if event.id is None else f"{event.name or ''}[{as_text(event.id)}]"


class Names:
    """Names and labels of processes and threads, from metadata events. A later event replaces an earlier one."""

    def __init__(self) -> None:
        self._processes: dict[str, str] = {}
        self._labels: dict[str, str] = {}
        self._threads: dict[Key, str] = {}
        self.process_order: dict[str, int] = {}  # pid -> sort index, smallest first
        self.thread_order: dict[Key, int] = {}  # (pid, tid) -> sort index within the process

    def add(self, event: ChromeEvent, name: Any, labels: Any, sort_index: Any = None) -> None:
        pid = "" if event.pid is None else as_text(event.pid)
        if event.name == "process_name" and name is not None:
            self._processes[pid] = as_text(name)
        elif event.name == "process_labels" and labels is not None:
            self._labels[pid] = as_text(labels)
        elif event.name == "thread_name" and name is not None:
            self._threads[pid, "" if event.tid is None else as_text(event.tid)] = as_text(name)
        elif event.name == "process_sort_index" and _is_place(sort_index):
            self.process_order[pid] = int(sort_index)
        elif event.name == "thread_sort_index" and _is_place(sort_index):
            self.thread_order[pid, "" if event.tid is None else as_text(event.tid)] = int(sort_index)

    def merge(self, later: Names) -> None:
        self._processes |= later._processes
        self._labels |= later._labels
        self._threads |= later._threads
        self.process_order |= later.process_order
        self.thread_order |= later.thread_order

    def processes(self) -> dict[str, str]:
        """Returns process names by process id. Labels follow the name in parentheses."""
        names = dict(self._processes)
        for pid, label in self._labels.items():
            names[pid] = f"{names[pid]} ({label})" if pid in names else label
        return names

    def threads(self) -> dict[Key, str]:
        return self._threads


def _is_place(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) < 2**53


class Marks:
    """Begin and end events. ``detached`` copies arguments out of the buffer; ``merged`` combines those of both events."""

    def __init__(self, detached: Callable[[Any], Any], merged: Callable[[Any, Any], Any], log: IssueLog) -> None:
        self._log = log
        self._detached = detached
        self._merged = merged
        self._marks: list[ChromeEvent] = []
        self._time = Column(np.int64)

    def __len__(self) -> int:
        return len(self._marks)

    def add(self, events: Sequence[ChromeEvent], time_ns: Int64) -> None:
        self._time.add(time_ns)
        for event in events:
            args = self._detached(event.args)
            self._marks.append(ChromeEvent(event.ph, event.cat, event.name, event.pid, event.tid, args=args))

    def take(self, last_ns: Callable[[], int]) -> tuple[list[ChromeEvent], Int64, Int64]:
        """Returns ranges, their starts, and their durations in nanoseconds. Matched ranges come before unfinished
        ranges.

        Unfinished ranges last until the end of the trace. ``last_ns()`` returns the last time of all other events.
        An end event without an open range is skipped. Unfinished ranges and skipped events are logged.
        """
        marks, time = self._marks, self._time.take()
        threads: dict[Key, int] = {}
        thread = [threads.setdefault((as_text(mark.pid), as_text(mark.tid)), len(threads)) for mark in marks]
        opens = np.array([mark.ph == "B" for mark in marks], np.bool_)
        begins, ends = matched_ends(np.array(thread, np.int64), time, opens)
        order = np.argsort(begins)
        begins, ends = begins[order], ends[order]
        rows = []
        for begun, ended in zip(begins.tolist(), ends.tolist(), strict=True):
            first, last = marks[begun], marks[ended]
            args = self._merged(first.args, last.args)
            rows.append(ChromeEvent("X", first.cat, first.name or last.name, first.pid, first.tid, args=args))
        opens[begins] = False
        unfinished = np.flatnonzero(opens)
        rows += [replace(marks[i], ph="X") for i in unfinished.tolist()]
        until = max(last_ns(), int(time.max())) if len(unfinished) else 0
        if len(unfinished):
            self._log.add("unfinished_range", "note", count=len(unfinished))
        if unmatched := len(marks) - 2 * len(begins) - len(unfinished):
            self._log.add("unmatched_end", "dropped", count=unmatched)
        lasted = unfinished_durations(np.array(thread, np.int64)[unfinished], time[unfinished], until)
        durations = np.concatenate((time[ends] - time[begins], lasted))
        return rows, np.concatenate((time[begins], time[unfinished])), durations
