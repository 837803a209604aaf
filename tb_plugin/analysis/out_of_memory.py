"""Failed memory requests in traces."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.advice import read_more, todo_of
from tb_plugin.analysis.allocator import HOST_TYPE
from tb_plugin.analysis.code_lines import code_lines
from tb_plugin.analysis.metrics import CHOSEN_WINDOW, FULL_TRACE, SHARED
from tb_plugin.analysis.selection import select_rows
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.extra_columns import ALLOCATED, DEVICE_NUMBER, DEVICE_TYPE, REQUESTED, RESERVED
from tb_plugin.model.trace.schema import MISSING, OUT_OF_MEMORY, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Figure, Line, Notice, Series

METRICS = SHARED.defining(
    {
        (FULL_TRACE, "bytes"): {
            "failed_bytes": ("Requested", "Bytes of the failed request."),
            "failed_allocated_bytes": ("In use", "Allocated bytes at the failed request."),
        },
        (FULL_TRACE, "ns"): {"failed_at_ns": ("Out of memory at", "Time of the failed request, since trace start.")},
        (FULL_TRACE, "code"): {"failed_line": ("Python line", "Python line of the failed request.")},
        (CHOSEN_WINDOW, "count"): {"failed_requests": ("Failed requests", "Failed allocation requests.")},
    }
)


class Failures(msgspec.Struct, frozen=True, eq=False):
    """Failed memory requests, sorted by time. Sizes are in bytes; -1 = unknown."""

    row: Int64
    requested: Int64
    allocated: Int64
    """Bytes allocated when the request failed, if necessary those after the device's previous event."""
    reserved: Int64
    device: tuple[str, ...]
    is_host: npt.NDArray[np.bool_]

    def of(self, chosen: npt.NDArray[np.bool_]) -> Failures:
        device = tuple(name for name, keep in zip(self.device, chosen.tolist(), strict=True) if keep)
        row, requested, allocated, reserved = (
            column[chosen] for column in (self.row, self.requested, self.allocated, self.reserved)
        )
        return Failures(row, requested, allocated, reserved, device, self.is_host[chosen])

    @property
    def cause(self) -> str:
        """Returns why the first request failed: ``cpu``, ``pieces`` (fragmentation), ``one`` (too large) or ``full``."""
        requested, allocated, reserved = (int(each[0]) for each in (self.requested, self.allocated, self.reserved))
        if self.is_host[0]:
            return "cpu"
        if requested == MISSING or allocated == MISSING:
            return "full"
        if reserved - allocated >= requested:
            return "pieces"
        return "one" if requested > allocated else "full"


@cached_by_argument
def failures_of(trace: TraceTable) -> Failures:
    named = trace.strings.where(lambda text: text == OUT_OF_MEMORY)[trace.name]
    row = np.flatnonzero((trace.kind == EventKind.INSTANT) & named)
    requested, allocated, reserved, kind, number = (
        _recorded(trace, key, row) for key in (REQUESTED, ALLOCATED, RESERVED, DEVICE_TYPE, DEVICE_NUMBER)
    )
    is_host = kind == HOST_TYPE
    if not len(row):
        return Failures(row, requested, allocated, reserved, (), is_host)
    from tb_plugin.analysis.memory.trace_devices import devices_of, name_in

    device = tuple(
        "" if each == MISSING else name_in(trace, each, MISSING if each == HOST_TYPE else at)
        for each, at in zip(kind.tolist(), number.tolist(), strict=True)
    )
    for one in devices_of(trace):
        unknown = np.flatnonzero((allocated == MISSING) & np.array([name == one.name for name in device]))
        if one.has_totals and len(one.record):
            place = one.each_at(trace.start_ns[row[unknown]])
            allocated[unknown] = np.where(place >= 0, one.allocated[place], one.before)
    return Failures(row, requested, allocated, reserved, device, is_host)


def _recorded(trace: TraceTable, key: str, row: Int64) -> Int64:
    """Returns the non-negative integer that each row records under ``key`` (-1 = missing)."""
    column = next((each for each in trace.others if each.key == key and not each.is_text), None)
    if column is None:
        return np.full(len(row), MISSING, np.int64)
    value, known = column.at(row)
    found: Int64 = np.where(known & (value >= 0), value, MISSING).astype(np.int64)
    return found


def chosen_failures(trace: TraceTable, steps: tuple[str, ...] | None) -> Failures:
    """Returns the failed requests in the steps with these labels; all failed requests if ``steps`` is None."""
    every = failures_of(trace)
    return every if steps is None else every.of(select_rows(trace, steps).rows[every.row])


def sentence_of(trace: TraceTable, failures: Failures) -> tuple[str, list[Figure]]:
    row, device = int(failures.row[0]), failures.device[0]
    requested, allocated = int(failures.requested[0]), int(failures.allocated[0])
    operator = int(trace.operator[row])
    line = line_of(trace, row)
    figures = [METRICS.figure("failed_at_ns", int(trace.start_ns[row]))]
    size = "a request failed" if requested == MISSING else "{failed_bytes} requested"
    text = f"Out of memory at {{failed_at_ns}}: {size}"
    if requested != MISSING:
        figures.append(METRICS.figure("failed_bytes", requested))
    by = " by " if requested != MISSING else " in "
    if line is not None:
        text += by + "{failed_line}"
        figures.append(METRICS.figure("failed_line", line))
    if operator != MISSING:
        text += " ({operator})" if line is not None else by + "{operator}"
        figures.append(METRICS.figure("operator", trace.strings[int(trace.name[operator])]))
    where = " on {device}" if device else ""
    if allocated != MISSING:
        text += f"; {{failed_allocated_bytes}} were in use{where}"
        figures.append(METRICS.figure("failed_allocated_bytes", allocated))
    else:
        text += where
    if device:
        figures.append(METRICS.figure("device", device))
    text += "."
    if len(failures.row) > 1:
        text += " {failed_requests} requests failed in total."
        figures.append(METRICS.figure("failed_requests", len(failures.row)))
    return text, figures


def notice_of(trace: TraceTable, failures: Failures) -> Notice:
    text, figures = sentence_of(trace, failures)
    advice = f"out_of_memory.{failures.cause}"
    return Notice(
        rule="out_of_memory",
        severity="high",
        text=text,
        todo=todo_of(trace, advice),
        figures=figures,
        why="At this time, the program fails unless it catches the error.",
        confidence="high",
        references=read_more(trace, advice),
    )


def line_of(trace: TraceTable, row: int) -> str | None:
    """Returns the Python line of a memory request, or of the forward operator of its backward operator."""
    lines = code_lines(trace)
    operator = int(trace.operator[row])
    forward = int(trace.forward[operator]) if operator != MISSING else MISSING
    line = next((int(lines.of[each]) for each in (row, forward) if lines.of[each] != MISSING), MISSING)
    text: str | None = lines.texts[line].as_py() if line != MISSING else None
    return text


def marks_of(trace: TraceTable, failures: Failures) -> Series:
    values = [None if size == MISSING else size for size in failures.requested.tolist()]
    x: list[int | float | str] = trace.start_ns[failures.row].tolist()
    metric = METRICS.metric("failed_bytes")
    at = METRICS.metric("failed_at_ns")
    return Series("out_of_memory", "Out of memory", "", at, x, [Line(metric, "other", values)], "lines")
