"""Notices about memory by category: the peak and missing data."""

from __future__ import annotations

from tb_plugin.analysis.memory_categories import TITLES
from tb_plugin.lib.groupby import Int64
from tb_plugin.model.category_memory import CATEGORIES, CategoryMemory
from tb_plugin.payloads import Notice, Notices
from tb_plugin.views.categories.metrics import METRICS

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
