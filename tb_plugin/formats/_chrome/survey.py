"""Time bounds, steps and text density of traces too large to load.

A survey stores the steps, three numbers per launch, four numbers per device event, and the size of the text in up
to MAX_CELLS time ranges. Launches and their device events show when each step ends on the device. Each dialect
defines which events are launches, device work and steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.formats._chrome.columns import Column, int64s
from tb_plugin.formats._chrome.events import ChromeEvent, Times
from tb_plugin.formats._chrome.interning import as_text
from tb_plugin.formats._chrome.parse import no_events
from tb_plugin.formats.base import ReadState
from tb_plugin.formats.issues import IssueLog
from tb_plugin.lib.arrays import Bool, Float64, Int32, Int64
from tb_plugin.model.trace.links import first_with_key
from tb_plugin.model.trace.order import LONG
from tb_plugin.model.trace.recorder import StepPattern
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.steps.annotations import (
    Marks,
    inside,
    iterations,
    marking,
    match_annotations,
    steps_of_marks,
)
from tb_plugin.model.trace.steps.windows import STEP_NAME, DeviceWork, find_steps
from tb_plugin.model.trace.table import Steps
from tb_plugin.model.trace.window import Survey

MAX_CELLS = 16_384
_MIN_SHIFT = 10  # initial bin width: 2**10 ns
DURATIONS = ("X", "B", "E")  # phases of ranges, and of their begin and end events
_STEP = "ProfilerStep#"


class Surveying:
    has_arrows: bool = False  # whether ``add_arrows`` is called

    def __init__(self, patterns: tuple[StepPattern, ...] = ()) -> None:
        self.log = IssueLog()
        self._patterns = patterns
        self._restart_at(0)

    def restart(self) -> None:
        self._restart_at(self._text_bytes)

    def _restart_at(self, text_bytes: int) -> None:
        self._text_bytes = text_bytes
        self._events = 0
        self._has_phases = False
        self._cells = Cells()
        self.bounds = Bounds()
        self.work = LinkedWork(self._patterns)

    def take(self, events: Sequence[Any], digits: bool, text_bytes: int) -> None:
        # Events that name processes and threads are excluded: their time is the time of the export.
        timed, starts = Times(digits).starts([event for event in events if event.ph != "M"])
        is_row = np.array([event.ph in DURATIONS and self.is_range(event) for event in timed], np.bool_)
        rows = timed if is_row.all() else [event for event, chosen in zip(timed, is_row, strict=True) if chosen]
        durations = Times(digits).durations(rows)
        # From here on nothing raises NeedsDigits.
        self._events += len(events)
        self._has_phases = self._has_phases or any(event.ph for event in events)
        self._cells.add(starts, text_bytes - self._text_bytes)
        self._text_bytes = text_bytes
        self.add_names(events)
        self.add_rows(rows, starts[is_row], durations)
        if self.has_arrows:
            ends = [i for i, event in enumerate(timed) if event.ph in ("s", "f")]
            self.add_arrows([timed[i] for i in ends], starts[ends])

    def is_range(self, event: Any) -> bool:
        """Returns False for an instant that was written as a range."""
        return True

    def add_names(self, events: Sequence[Any]) -> None: ...

    def add_rows(self, rows: Sequence[Any], start: Int64, dur: Int64) -> None:
        """Adds the ranges of one chunk. Each dialect implements this method."""
        raise NotImplementedError

    def add_arrows(self, ends: Sequence[Any], start: Int64) -> None:
        """Adds the starts and ends of arrows in one chunk. Does nothing by default."""

    def linked(self) -> LinkedWork:
        return self.work

    def state(self, fraction: float) -> ReadState:
        return ReadState(fraction, self._events, {})

    def check(self, is_bare_list: bool) -> None:
        if not self._has_phases and (is_bare_list or self._events):
            raise no_events()

    def finish(self) -> Survey:
        cells, cell_bytes, median = self._cells.take()
        origin, end = self.bounds.take(median)
        linked = self.linked()
        steps, lag = linked.steps()
        times = (steps.start_ns, steps.end_ns, steps.host_start_ns, steps.host_end_ns)
        start, step_end, host_start, host_end = (tuple((column - origin).tolist()) for column in times)
        inside = (cells + self._cells.width > origin) & (cells <= end)
        return Survey(
            origin_ns=origin,
            end_ns=end - origin,
            lag_ns=lag,
            cell_ns=tuple((cells[inside] - origin).tolist()),
            cell_bytes=tuple(cell_bytes[inside].tolist()),
            label=steps.label,
            start_ns=start,
            step_end_ns=step_end,
            host_start_ns=host_start,
            host_end_ns=host_end,
            dropped=steps.dropped,
            step_source=steps.source,
            framework=steps.framework,
            served=steps.served.columns(),
            first_work_ns=MISSING if linked.first_ns is None else linked.first_ns - origin,
        )


class LinkedWork:
    """Launches and device work with their correlation ids, and annotated steps."""

    def __init__(self, patterns: tuple[StepPattern, ...] = ()) -> None:
        self._patterns = patterns
        self._marks = {name: Column(np.int64) for name in ("thread", "start", "end", "name")}
        self.first_ns: int | None = None  # file time of the first work, None without work
        self._threads: dict[tuple[str, str], int] = {}
        self._names: dict[str, int] = {}
        self._launches = {name: Column(np.int64) for name in ("correlation", "start", "end")}
        self._work = {name: Column(np.int64) for name in ("correlation", "start", "end")}
        self._streams = Column(np.int32)
        self._requested = Column(np.int64)
        self._steps: dict[tuple[str, str], list[tuple[int, int, str]]] = defaultdict(list)

    def add_launches(self, correlation: Int64, start: Int64, end: Int64) -> None:
        for name, column in (("correlation", correlation), ("start", start), ("end", end)):
            self._launches[name].add(column)

    def add_work(
        self, correlation: Int64, start: Int64, end: Int64, stream: Int32, requested: Int64 | None = None
    ) -> None:
        """Adds device work. ``requested``: time of the request, -1 = of the launch; in all calls or in none."""
        for name, column in (("correlation", correlation), ("start", start), ("end", end)):
            self._work[name].add(column)
        self._streams.add(stream)
        if len(start):
            first = int(start.min())
            self.first_ns = first if self.first_ns is None else min(first, self.first_ns)
        if requested is not None:
            self._requested.add(requested)

    def add_steps(self, rows: Sequence[ChromeEvent], start: Int64, dur: Int64, good: Bool) -> None:
        for i in [i for i, event in enumerate(rows) if event.name and event.name.startswith(_STEP)]:
            event = rows[i]
            found = STEP_NAME.match(event.name or "")
            if found and good[i]:
                thread = (as_text(event.pid), as_text(event.tid))
                self._steps[thread].append((int(start[i]), -int(dur[i]), found.group(1)))
        self._add_marks(rows, start, dur, np.flatnonzero(good))

    def _add_marks(self, rows: Sequence[ChromeEvent], start: Int64, dur: Int64, good: npt.NDArray[np.intp]) -> None:
        if not self._patterns:
            return
        # There are few distinct names, so each is checked once.
        texts = pa.array([rows[i].name or "" for i in good.tolist()], pa.large_string()).dictionary_encode()
        at = good[marking(texts.dictionary, self._patterns)[texts.indices.to_numpy()]]
        some = [rows[i] for i in at.tolist()]
        threads, names = self._threads, self._names
        columns = {
            "thread": int64s([threads.setdefault((as_text(e.pid), as_text(e.tid)), len(threads)) for e in some]),
            "start": start[at],
            "end": start[at] + dur[at],
            "name": int64s([names.setdefault(e.name or "", len(names)) for e in some]),
        }
        for name, column in columns.items():
            self._marks[name].add(column)

    def _marked(self) -> Marks | None:
        if not self._names:
            return None
        columns = {name: column.take() for name, column in self._marks.items()}
        first, served = match_annotations(pa.array(self._names, pa.large_string()), self._patterns)
        of = columns["name"]
        return iterations(Marks(columns["thread"], columns["start"], columns["end"], first[of], served.take(of)))

    def steps(self) -> tuple[Steps, int]:
        """Returns the steps as ``assemble`` would, and the longest time from a launch to the end of its work."""
        launches = {name: column.take() for name, column in self._launches.items()}
        order = np.argsort(launches["start"], kind="stable")
        launch_start, launch_end = launches["start"][order], launches["end"][order]
        work = {name: column.take() for name, column in self._work.items()}
        key = launches["correlation"][order]
        launch = first_with_key(key, np.arange(len(key)), work["correlation"])
        linked = launch != MISSING
        lag = (work["end"][linked] - launch_start[launch[linked]]).max(initial=0)
        begun = np.full(len(launch), MISSING, np.int64)
        done = begun.copy()
        begun[linked], done[linked] = launch_start[launch[linked]], launch_end[launch[linked]]
        if len(requested := self._requested.take()):
            begun, done = (np.where(requested != MISSING, requested, each) for each in (begun, done))
        device_work = DeviceWork(work["start"], work["end"], begun, done, work["correlation"], self._streams.take())
        marks = self._marked()
        if not self._steps:
            return (Steps() if marks is None else steps_of_marks(marks, device_work, self._patterns)), int(lag)
        # Several threads may annotate the same steps: use the thread with the most steps, then the earliest.
        threads = list(self._steps.values())
        max_steps = max(map(len, threads))
        steps = sorted(min(found for found in threads if len(found) == max_steps))
        starts = np.array([start for start, _, _ in steps], np.int64)
        ends = starts - np.array([negative for _, negative, _ in steps], np.int64)
        labels = [label for _, _, label in steps]
        served = None if marks is None else inside(marks, starts, ends)
        return find_steps(labels, starts, ends, device_work, served=served), int(lag)


class Cells:
    """Histogram over time of text size and number of events. Bins become wider as the covered time grows."""

    def __init__(self) -> None:
        self._shift = _MIN_SHIFT
        self._cells: Int64 = np.empty(0, np.int64)
        self._bytes: Float64 = np.empty(0)
        self._events: Float64 = np.empty(0)

    @property
    def width(self) -> int:
        return 1 << self._shift

    def add(self, start: Int64, text_bytes: int) -> None:
        """Adds the events of a chunk. Each event gets an equal share of ``text_bytes``."""
        if not len(start):
            return
        cells, counts = np.unique(start >> self._shift, return_counts=True)
        share = counts * (text_bytes / len(start))
        every = np.concatenate((self._cells, cells))
        self._merge(
            every, np.concatenate((self._bytes, share)), np.concatenate((self._events, counts.astype(np.float64)))
        )
        while len(self._cells) > MAX_CELLS:
            self._shift += 1
            self._merge(self._cells >> 1, self._bytes, self._events)

    def take(self) -> tuple[Int64, Int64, int]:
        """Returns bin starts by time, bytes of text per bin, and the median event start."""
        begins = self._cells << self._shift
        cumulative = np.cumsum(self._events)
        median = int(begins[np.searchsorted(cumulative, cumulative[-1] / 2)]) if len(cumulative) else 0
        return begins, self._bytes.astype(np.int64), median

    def _merge(self, cells: Int64, text: Float64, events: Float64) -> None:
        self._cells, which = np.unique(cells, return_inverse=True)
        self._bytes = np.bincount(which, text).astype(np.float64)
        self._events = np.bincount(which, events).astype(np.float64)


class Bounds:
    """First start and last end of all rows. Times <= 0 are collected separately, because they may be invalid."""

    def __init__(self) -> None:
        self._first: dict[bool, int] = {}
        self._last: dict[bool, int] = {}

    def add(self, start: Int64, end: Int64) -> None:
        for positive in (True, False):
            chosen = (start > 0) == positive
            if chosen.any():
                first, last = int(start[chosen].min()), int(end[chosen].max())
                self._first[positive] = min(first, self._first.get(positive, first))
                self._last[positive] = max(last, self._last.get(positive, last))

    def take(self, median: int) -> tuple[int, int]:
        """Returns the first start and the last end, in file times. ``median``: median start of all events."""
        sides = [side for side in self._first if side or median <= LONG]
        return min((self._first[s] for s in sides), default=0), max((self._last[s] for s in sides), default=0)
