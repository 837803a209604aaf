"""Curve and peaks of memory by category."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from tb_plugin.analysis.base import Params, int_param
from tb_plugin.analysis.memory_categories import TITLES
from tb_plugin.analysis.snapshot.curve import detail
from tb_plugin.errors import BadRequest
from tb_plugin.lib.arrays import Int64
from tb_plugin.model.category_memory import CATEGORIES, CategoryMemory, categories_of, moments_of
from tb_plugin.payloads import Line, Series
from tb_plugin.views.categories.metrics import METRICS

STACKED = [CATEGORIES.index(category) for category in TITLES]
"""Indices into ``CATEGORIES``, from the bottom of the stack to the top."""


class Span(msgspec.Struct, frozen=True):
    start_ns: int
    end_ns: int


class Top(msgspec.Struct, frozen=True):
    time_ns: int
    bytes: int


def span_of(memory: CategoryMemory, params: Params) -> Span:
    last = memory.end_ns
    start, end = (int_param(params, key) for key in ("start_ns", "end_ns"))
    start = 0 if start is None else min(max(start, 0), last)
    end = last if end is None else min(max(end, 0), last)
    if end < start:
        raise BadRequest("The window ends before it starts.", "end_ns", f"start_ns={start}, end_ns={end}.")
    return Span(start, end)


def moments_in(memory: CategoryMemory, span: Span) -> tuple[Int64, Int64]:
    """Returns the start of the window and the times of changes in it, and the number of changes up to each time."""
    moments = moments_of(memory)
    times = memory.time_ns[moments]
    inside = moments[(times > span.start_ns) & (times <= span.end_ns)]
    rows = np.concatenate((memory.rows_until(np.array([span.start_ns])), inside + 1))
    return np.concatenate(([span.start_ns], memory.time_ns[inside])), rows


def stacked_bytes(memory: CategoryMemory) -> Iterator[Int64]:
    """Yields the upper edge of each stacked category, from the bottom up, after 0, 1, 2, ... changes."""
    rank = np.empty(len(CATEGORIES), np.int8)
    rank[STACKED] = np.arange(len(CATEGORIES))
    order = rank[memory.category]
    for upto in range(len(CATEGORIES)):
        start = memory.before[STACKED[: upto + 1]].sum()
        yield np.concatenate(([start], start + np.cumsum(np.where(order <= upto, memory.bytes, 0))))


def peak_of(memory: CategoryMemory, times: Int64, rows: Int64) -> Top:
    total = np.concatenate(([0], np.cumsum(memory.bytes)))[rows] + memory.before.sum()
    best = int(np.argmax(total))
    return Top(int(times[best]), int(total[best]))


def category_peak(memory: CategoryMemory, category: int, times: Int64, rows: Int64) -> Top:
    place, level = categories_of(memory)[category]
    at = np.searchsorted(place, rows, side="left")
    values = np.concatenate(([memory.before[category]], level))[at]
    best = int(np.argmax(values))
    return Top(int(times[best]), int(values[best]))


def curve_of(memory: CategoryMemory, span: Span, width: int, displayed: Sequence[str]) -> Series:
    """Returns the bytes of the displayed categories over the window, at screen resolution."""
    times, rows = moments_in(memory, span)
    kept = detail(times, (height[rows] for height in stacked_bytes(memory)), width, span.start_ns, span.end_ns)
    times, rows = times[kept], rows[kept]
    if times[-1] < span.end_ns:
        times, rows = np.append(times, span.end_ns), np.append(rows, rows[-1])
    levels = memory.levels(rows)
    lines = [
        Line(METRICS.metric(f"{category}_bytes"), category, levels[:, CATEGORIES.index(category)].tolist())
        for category in TITLES
        if category in displayed
    ]
    x = METRICS.metric("categories_time_ns")
    return Series("curve", "Memory by category over time", "", x, times.tolist(), lines, "stacked_area")
