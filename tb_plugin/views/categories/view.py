"""Memory by category: peak, curve, and values at any time."""

from __future__ import annotations

from collections.abc import Sequence

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
from tb_plugin.lib.arrays import Int64
from tb_plugin.model.category_memory import CATEGORIES, Action, CategoryMemory
from tb_plugin.payloads import Breakdown, CoverageInfo, Figures, Metric, Notice, Notices, Payload, Slice, Sort
from tb_plugin.views.categories import VIEW
from tb_plugin.views.categories.curve import Top, category_peak, curve_of, moments_in, peak_of, span_of
from tb_plugin.views.categories.metrics import METRICS

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
        frame = _frame(now, tops, _allocated(memory, times[0], span.end_ns), when)
        coverage = CoverageInfo(window_ns=span.end_ns - span.start_ns, complete=memory.report.complete)
        return Part(coverage, facts, {frame.name: frame}, payloads, (*payloads, frame.name))


def _allocated(memory: CategoryMemory, start_ns: int, end_ns: int) -> Int64 | None:
    if not memory.has_actions:
        return None
    new = (memory.action == Action.CREATE) & (memory.time_ns >= start_ns) & (memory.time_ns <= end_ns)
    found = np.zeros(len(CATEGORIES), np.int64)
    np.add.at(found, memory.category[new], memory.bytes[new])
    return found


def _summary(memory: CategoryMemory, peak: Top) -> Figures:
    values = {"categories_peak_bytes": peak.bytes, "categories_peak_time_ns": peak.time_ns}
    figures = METRICS.figures({**values, "categories_before_bytes": int(memory.before.sum())})
    return Figures("summary", "Memory", "", figures, "headline")


def _composition(now: Int64, when: str) -> Breakdown:
    parts = [
        Slice(Metric(f"{category}_bytes", title, "bytes", MEANINGS[category]), category, int(value))
        for category, title in TITLES.items()
        if (value := now[CATEGORIES.index(category)])
    ]
    return Breakdown("composition", f"Memory {when}", "", "bytes", int(now.sum()), parts, "bar")


def _frame(at_time: Int64, tops: Sequence[Top], allocated: Int64 | None, when: str) -> Frame:
    total = int(at_time.sum())
    order = sorted(TITLES, key=lambda category: -int(at_time[CATEGORIES.index(category)]))
    number = [CATEGORIES.index(category) for category in order]
    now = at_time[number]
    columns = {
        "tensor_category": pa.array([TITLES[category] for category in order], pa.large_string()),
        "category_bytes": pa.array(now),
        "category_share": pa.array([int(value) / total if total else None for value in now], pa.float64()),
        "category_peak_bytes": pa.array([tops[i].bytes for i in number], pa.int64()),
        "category_peak_time_ns": pa.array([tops[i].time_ns for i in number], pa.int64()),
    }
    if allocated is not None:
        columns["category_allocated_bytes"] = pa.array(allocated[number])
    seen = np.flatnonzero([tops[i].bytes > 0 for i in number])
    data, sort = pa.table(columns).take(seen), Sort("category_bytes", True)
    key = "tensor_category"
    return Frame("memory_categories", f"Categories {when}", METRICS.columns(*columns), data, (key,), key, sort)


# Categories named in the sentence, each with at least ``LEAST`` of the peak.
MAX_LISTED = 3
LEAST = 0.05
MUCH_UNKNOWN = 0.2


def answer_of(peak_ns: int, at_peak: Int64) -> Notices:
    total = int(at_peak.sum())
    order = sorted(TITLES, key=lambda category: -int(at_peak[CATEGORIES.index(category)]))
    sizes = {category: int(at_peak[CATEGORIES.index(category)]) for category in order}
    named = [
        each for each in order[:MAX_LISTED] if sizes[each] > 0 and (sizes[each] >= LEAST * total or each == order[0])
    ]
    if not named:
        return Notices("answer", "Answer", "answer", [])
    texts = [f"{TITLES[each].lower()} ({{{each}_bytes}})" for each in named]
    rest = sum(size for each, size in sizes.items() if each not in named)
    texts += ["other categories ({rest_bytes})"] if rest else []
    listed = texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
    figures = [
        METRICS.figure("categories_peak_time_ns", peak_ns),
        METRICS.figure("categories_peak_bytes", total),
        *(METRICS.figure(f"{each}_bytes", sizes[each]) for each in named),
        *([METRICS.figure("rest_bytes", rest)] if rest else []),
    ]
    text = f"Memory peaks at {{categories_peak_time_ns}} with {{categories_peak_bytes}}: {listed}."
    return Notices("answer", "Answer", "answer", [Notice("categories_peak", "info", text, "", figures)])


def data_notices(memory: CategoryMemory, at_peak: Int64) -> Notices:
    found = []
    if missing := int(memory.missing.sum()):
        text = (
            "{category_missing_bytes} were released without a recorded allocation. This memory is counted as "
            "allocated before the recording, so the memory levels may be too high."
        )
        figures = [METRICS.figure("category_missing_bytes", missing)]
        found.append(Notice("categories_unmatched", "low", text, "", figures))
    if before := int(memory.before.sum()) - missing:
        text = (
            "{categories_before_bytes} were allocated before the recording, so their allocation time and "
            "operator are unknown. Memory from before the recording is not counted if no operator used it "
            "during the recording."
        )
        found.append(Notice("categories_before", "info", text, "", [METRICS.figure("categories_before_bytes", before)]))
    total, unknown = int(at_peak.sum()), int(at_peak[CATEGORIES.index("unknown")])
    if total and unknown > MUCH_UNKNOWN * total:
        text = "{category_share} of the peak has no category."
        todo = (
            "Record whole training steps, including backward pass and optimizer. Categories are derived from "
            "how tensors depend on gradients."
        )
        figures = [METRICS.figure("category_share", unknown / total)]
        found.append(Notice("categories_unknown", "low", text, todo, figures, "category_share", MUCH_UNKNOWN))
    if not memory.has_actions:
        text = (
            "The file contains one memory level per microsecond. Peaks shorter than a microsecond and the "
            "sum of all allocations are missing."
        )
        todo = "Export to a file name that ends in .raw.json.gz to record every allocation."
        found.append(Notice("categories_levels", "info", text, todo))
    return Notices("data_quality", "About these numbers", "data", found)
