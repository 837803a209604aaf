"""Windows of traces that are too large to open completely.

A trace file has no time index, and its events are grouped by type. In a first pass, the reader's ``survey``
determines times and sizes. In a second pass, the events of the chosen window are read.
"""

from __future__ import annotations

import re

import msgspec
import numpy as np
from msgspec.structs import replace

from tb_plugin.errors import BadRequest
from tb_plugin.lib.arrays import Int64
from tb_plugin.model.trace.order import overlaps_range
from tb_plugin.model.trace.report import ReadReport
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind, of_kind
from tb_plugin.model.trace.served_work import Served
from tb_plugin.model.trace.steps.windows import SINGLE_STEP_LABEL
from tb_plugin.model.trace.table import Coverage, FullTrace, RawTrace, Steps, Window

_TIMES = re.compile(r"([0-9]{1,18})ns(?:-([0-9]{1,18})ns)?")
_STEPS = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_SHOWN = 20


class WindowRequest(msgspec.Struct, frozen=True):
    """Labels of steps, or times since the start of the trace. Without an end, the window is as long as memory allows."""

    steps: tuple[str, str | None] | None = None
    times_ns: tuple[int, int | None] | None = None


def parse_window(text: str) -> WindowRequest:
    """Parses the text of a window: ``7``, ``7-9``, ``0ns``, ``0ns-500ns`` or "". Raises BadRequest."""
    if not text:
        return WindowRequest()
    if found := _STEPS.fullmatch(text):
        return WindowRequest(steps=(found[1], found[2]))
    if found := _TIMES.fullmatch(text):
        begin, end = int(found[1]), None if found[2] is None else int(found[2])
        if end is None or end > begin:
            return WindowRequest(times_ns=(begin, end))
    raise BadRequest(
        "The window is not valid.", "window", "Write steps (7 or 7-9) or times from the start of the trace (0ns-500ns)."
    )


class Survey(msgspec.Struct, frozen=True):
    """Result of a first pass over a whole file. Times are nanoseconds since the first event.

    ``lag_ns`` is the longest time from a launch to the end of the launched work. ``cell_ns`` contains the starts of
    consecutive time ranges. ``cell_bytes`` contains, for each range, the size in the file of the events that start
    in the range.
    """

    origin_ns: int
    """Time of the first event, on the clock of the file."""
    end_ns: int
    lag_ns: int
    cell_ns: tuple[int, ...]
    cell_bytes: tuple[int, ...]
    label: tuple[str, ...] = ()
    """Labels of the recorded steps. The next four fields are also about steps."""
    start_ns: tuple[int, ...] = ()
    step_end_ns: tuple[int, ...] = ()
    host_start_ns: tuple[int, ...] = ()
    host_end_ns: tuple[int, ...] = ()
    dropped: tuple[str, ...] = ()
    step_source: str = ""
    framework: str = ""
    served: tuple[tuple[int, ...], ...] = ()
    """Columns of ``Served``; empty if no such data was recorded."""
    first_work_ns: int = MISSING
    """Start of the first device work; -1 = none."""

    def steps_in(self, begin_ns: int, end_ns: int) -> Steps:
        starts, ends = np.array(self.host_start_ns, np.int64), np.array(self.step_end_ns, np.int64)
        inside = np.flatnonzero((starts >= begin_ns) & (ends <= end_ns))
        with_last = len(inside) > 0 and int(inside[-1]) == len(self.label) - 1
        return Steps(
            label=tuple(self.label[i] for i in inside),
            start_ns=np.array(self.start_ns, np.int64)[inside],
            end_ns=ends[inside],
            host_start_ns=starts[inside],
            host_end_ns=np.array(self.host_end_ns, np.int64)[inside],
            recorded=len(inside) > 0,
            dropped=self.dropped if with_last else (),
            source=self.step_source,
            framework=self.framework,
            served=Served.of(self.served).take(inside),
        )


def choose(survey: Survey, asked: WindowRequest, room_bytes: int, peak_memory_bytes: int, budget_bytes: int) -> Window:
    """Returns the longest window of at most ``room_bytes`` of text, of complete steps if one fits. Raises BadRequest."""
    if asked.times_ns is not None:
        begin, end = asked.times_ns
        if not 0 <= begin <= survey.end_ns:
            raise BadRequest("The window lies outside the trace.", "window", f"It lasts from 0ns to {survey.end_ns}ns.")
        end = _fitting(survey, begin, end, room_bytes)
    elif survey.label:
        begin, end = _whole_steps(survey, asked, room_bytes)
    elif asked.steps is not None:
        raise BadRequest("The trace has no steps.", "window", "Use times from its start, such as 0ns-500ns.")
    else:
        begin, end = 0, _fitting(survey, 0, None, room_bytes)
    whole = FullTrace(survey.end_ns, survey.label, peak_memory_bytes, budget_bytes, survey.first_work_ns)
    return Window(survey.origin_ns, begin, end, survey.lag_ns, survey.steps_in(begin, end), whole)


def _whole_steps(survey: Survey, asked: WindowRequest, room_bytes: int) -> tuple[int, int]:
    first, last = asked.steps or (survey.label[0], None)
    low, high = _position(survey, first), _position(survey, last or survey.label[-1])
    if high < low:
        raise BadRequest(f"Step {last} comes before step {first}.", "window", "Name the first step first.")
    begin, ends = survey.host_start_ns[low], np.array(survey.step_end_ns[low : high + 1], np.int64)
    fits = np.flatnonzero(_text_bytes(survey, begin, ends) <= room_bytes)
    end = int(ends[fits[-1]]) if len(fits) else _fitting(survey, begin, int(ends[0]), room_bytes)
    return begin, end


def _position(survey: Survey, label: str) -> int:
    if label in survey.label:
        return survey.label.index(label)
    known = ", ".join(survey.label[:_SHOWN]) + (", ..." if len(survey.label) > _SHOWN else "")
    raise BadRequest(f"The trace has no step {label}.", "window", f"It has: {known}.")


def _fitting(survey: Survey, begin: int, end: int | None, room_bytes: int) -> int:
    cells = np.array(survey.cell_ns, np.int64)
    # A window excludes its end, but must include the last event.
    latest = survey.end_ns + 1 if end is None else min(end, survey.end_ns + 1)
    ends = np.append(cells[(cells > begin) & (cells < latest)], latest)
    fits = np.flatnonzero(_text_bytes(survey, begin, ends) <= room_bytes)
    return max(int(ends[fits[-1] if len(fits) else 0]), begin + 1)


def _text_bytes(survey: Survey, begin: int, ends: Int64) -> Int64:
    before = np.concatenate(([0], np.cumsum(survey.cell_bytes, dtype=np.int64)))
    cells = np.array(survey.cell_ns, np.int64)
    # The range that contains the begin counts completely.
    first = max(0, int(np.searchsorted(cells, begin, side="right")) - 1)
    total: Int64 = before[np.searchsorted(cells, ends, side="left")] - before[first]
    return total


def rows_inside(raw: RawTrace, kept: Int64) -> tuple[Int64, int]:
    """Returns the rows that overlap the window, with their launches and launched work, and the number of others."""
    window = raw.window
    if window is None:
        return kept, 0
    start, kind, correlation = raw.start_ns[kept], raw.kind[kept], raw.correlation[kept]
    begin, end = window.origin_ns + window.begin_ns, window.origin_ns + window.end_ns
    touched = overlaps_range(start, start + raw.dur_ns[kept], begin, end)
    call, work = kind == EventKind.RUNTIME, of_kind(kind, *DEVICE_WORK)
    wanted = call & np.isin(correlation, correlation[touched & work])
    wanted |= work & np.isin(correlation, correlation[touched & call])
    chosen = touched | wanted & (correlation > 0)
    return kept[chosen], int((~chosen).sum())


def steps_of(window: Window) -> Steps:
    """Returns the steps that lie completely inside the window. If there are none, returns the window as one step."""
    if window.steps.recorded:
        return window.steps
    begin, end = np.array([window.begin_ns], np.int64), np.array([_end(window)], np.int64)
    return Steps((SINGLE_STEP_LABEL,), begin, end, begin, end, recorded=False)


def _end(window: Window) -> int:
    return min(window.end_ns, window.full.end_ns)


def without_outside(report: ReadReport, outside: int) -> ReadReport:
    return replace(report, events_loaded=report.events_loaded - outside, events_outside=report.events_outside + outside)


def coverage(end_ns: int, report: ReadReport, window: Window | None) -> Coverage:
    if window is None:
        return Coverage(start_ns=0, end_ns=end_ns, fraction_read=1.0, complete=report.complete)
    fraction = report.events_loaded / max(1, report.events_loaded + report.events_outside)
    return Coverage(window.begin_ns, _end(window), fraction, complete=False, full=window.full)
