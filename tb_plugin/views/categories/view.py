"""Memory by category: peak, curve, and values at any time."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa

from tb_plugin.analysis.base import (
    Frame,
    Number,
    Params,
    Part,
    int_param,
)
from tb_plugin.analysis.memory_categories import MEANINGS, TITLES
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.lib.groupby import Int64
from tb_plugin.model.category_memory import CATEGORIES, Action, CategoryMemory
from tb_plugin.payloads import Breakdown, CoverageInfo, Figures, Metric, Payload, Slice, Sort
from tb_plugin.views.categories import VIEW
from tb_plugin.views.categories.curve import Top, category_peak, curve_of, moments_in, peak_of, span_of
from tb_plugin.views.categories.metrics import METRICS
from tb_plugin.views.categories.notices import answer_of, data_notices

# Columns of the curve unless the client requests another width.
WIDTH = 600


class Categories(DeclaredView, entry=VIEW):
    own = ("start_ns", "end_ns", "at_ns", "width")

    def part(self, memory: CategoryMemory, params: Params) -> Part:
        span = span_of(memory, params)
        times, rows = moments_in(memory, span)
        peak = peak_of(memory, times, rows)
        tops = [category_peak(memory, number, times, rows) for number in range(len(CATEGORIES))]
        requested = int_param(params, "at_ns")
        moment = peak.time_ns if requested is None else min(max(requested, 0), memory.end_ns)
        now, at_peak = (memory.levels(memory.rows_until(np.array([at])))[0] for at in (moment, peak.time_ns))
        when = "at the peak" if requested is None else "at the selected time"
        width = min(max(int_param(params, "width") or WIDTH, 50), 5000)
        found = _CategoryColumns(now, tops, _allocated(memory, times[0], span.end_ns))
        facts: dict[str, Number] = {
            "memory.categories.peak_bytes": peak.bytes,
            "memory.categories.peak_time_ns": peak.time_ns,
        }
        facts |= {
            f"memory.categories.{category}_bytes": int(at_peak[CATEGORIES.index(category)]) for category in TITLES
        }
        payloads: dict[str, Payload] = {
            "summary": _summary(memory, peak),
            "answer": answer_of(peak.time_ns, at_peak),
            "curve": curve_of(memory, span, width, [CATEGORIES[i] for i, top in enumerate(tops) if top.bytes]),
            "composition": _composition(now, when),
            "data_quality": data_notices(memory, at_peak),
        }
        frame = _frame(memory, found, when)
        coverage = CoverageInfo(window_ns=span.end_ns - span.start_ns, complete=memory.report.complete)
        return Part(coverage, facts, {frame.name: frame}, payloads, (*payloads, frame.name))


class _CategoryColumns(msgspec.Struct, frozen=True):
    now: Int64
    tops: list[Top]
    allocated: Int64 | None


def _allocated(memory: CategoryMemory, start_ns: int, end_ns: int) -> Int64 | None:
    if not memory.has_actions:
        return None
    new = (memory.action == Action.CREATE) & (memory.time_ns >= start_ns) & (memory.time_ns <= end_ns)
    found = np.zeros(len(CATEGORIES), np.int64)
    np.add.at(found, memory.category[new], memory.bytes[new])
    return found


def _summary(memory: CategoryMemory, peak: Top) -> Figures:
    figures = [
        METRICS.figure("categories_peak_bytes", peak.bytes),
        METRICS.figure("categories_peak_time_ns", peak.time_ns),
        METRICS.figure("categories_before_bytes", int(memory.before.sum())),
    ]
    return Figures("summary", "Memory", "", figures, "headline")


def _composition(now: Int64, when: str) -> Breakdown:
    parts = [
        Slice(Metric(f"{category}_bytes", title, "bytes", MEANINGS[category]), category, int(value))
        for category, title in TITLES.items()
        if (value := now[CATEGORIES.index(category)])
    ]
    return Breakdown("composition", f"Memory {when}", "", "bytes", int(now.sum()), parts, "bar")


def _frame(memory: CategoryMemory, found: _CategoryColumns, when: str) -> Frame:
    total = int(found.now.sum())
    order = sorted(TITLES, key=lambda category: -int(found.now[CATEGORIES.index(category)]))
    number = [CATEGORIES.index(category) for category in order]
    now = found.now[number]
    columns = {
        "tensor_category": pa.array([TITLES[category] for category in order], pa.large_string()),
        "category_bytes": pa.array(now),
        "category_share": pa.array([int(value) / total if total else None for value in now], pa.float64()),
        "category_peak_bytes": pa.array([found.tops[i].bytes for i in number], pa.int64()),
        "category_peak_time_ns": pa.array([found.tops[i].time_ns for i in number], pa.int64()),
    }
    if found.allocated is not None:
        columns["category_allocated_bytes"] = pa.array(found.allocated[number])
    seen = np.flatnonzero([found.tops[i].bytes > 0 for i in number])
    return Frame(
        name="memory_categories",
        title=f"Categories {when}",
        columns=METRICS.columns(*columns),
        data=pa.table(columns).take(seen),
        row_key=("tensor_category",),
        name_column="tensor_category",
        sort=Sort("category_bytes", True),
    )
