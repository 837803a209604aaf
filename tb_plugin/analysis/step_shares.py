"""Step time by category, as an exact partition."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from tb_plugin.analysis.blocking_calls import awaits_thread
from tb_plugin.analysis.communication import exposed_ranges
from tb_plugin.analysis.launches.unrecorded_work import any_unrecorded
from tb_plugin.analysis.range_patterns import DATALOADER
from tb_plugin.analysis.selection import steps_of
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.intervals import Ranges, first_in, join, measure_within, union
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable

# In order of priority: a moment counts for the first active category.
CATEGORIES = ("kernel", "memcpy", "memset", "unrecorded", "communication", "runtime", "dataloader", "cpu", "other")
# A device runs unrecorded work, and none runs recorded work: it has no rows.
UNRECORDED = "unrecorded"

_KINDS = {"memcpy": EventKind.MEMCPY, "memset": EventKind.MEMSET, "runtime": EventKind.RUNTIME}
STEP = re.compile(r"ProfilerStep#")


class StepShares(msgspec.Struct, frozen=True, eq=False):
    """Time by category and step. The categories of each step add up to ``total``."""

    label: tuple[str, ...]
    parts: dict[str, Int64]
    total: Int64

    @property
    def categories(self) -> list[str]:
        """Returns the categories. The category of unrecorded work is included only if there is such work."""
        return [each for each in CATEGORIES if each != UNRECORDED or self.parts[each].any()]

    def mean(self, category: str) -> float | None:
        """Returns the unrounded mean of a category over the steps, None if there are no steps."""
        return float(self.parts[category].mean()) if len(self.total) else None


@cached_by_argument
def shares(trace: TraceTable) -> Mapping[str, Ranges]:
    """Returns the time ranges of each category on any thread or device.

    While several categories are active, the time is attributed to the first of them in ``CATEGORIES``. ``other``
    has no time ranges, because it is the remaining time of the step.
    """
    later = awaits_thread(trace)  # the awaited thread's activity comes first
    active = _active(trace, later)
    named = CATEGORIES[:-1]
    *first, waiting = first_in(*(active[category] for category in named), _covered(trace, later))
    found = dict(zip(named, first, strict=True))
    return found | {"runtime": join(found["runtime"], waiting)}


def _active(trace: TraceTable, later: Bool) -> dict[str, Ranges]:
    """Returns the time ranges in which each category is active, excluding the calls in ``later``."""
    named = (each for each in CATEGORIES[:-1] if each != UNRECORDED)
    when = {category: _covered(trace, active_rows(trace, category) & ~later) for category in named}
    return when | {"communication": exposed_ranges(trace), UNRECORDED: any_unrecorded(trace)}


def active_rows(trace: TraceTable, category: str) -> Bool:
    """Returns a mask of the events in a category: all collectives for ``communication``, none for ``other``."""
    kernels = of_kind(trace.kind, EventKind.KERNEL)
    if category == "kernel":
        return kernels & ~trace.is_collective
    if category == "communication":
        on_device = kernels & trace.is_collective
        return on_device if on_device.any() else trace.is_collective
    if category in _KINDS:
        return of_kind(trace.kind, _KINDS[category])
    loads = trace.strings.where(lambda text: DATALOADER.match(text) is not None)
    step = trace.strings.where(lambda text: STEP.match(text) is not None)
    wanted = (loads if category == "dataloader" else ~loads) & ~step
    chosen: Bool = wanted[trace.name] & of_kind(trace.kind, EventKind.OPERATOR, EventKind.ANNOTATION)
    return chosen


def _covered(trace: TraceTable, rows: Bool) -> Ranges:
    return union(trace.start_ns[rows], trace.ends(rows))


@cached_by_argument
def break_down(trace: TraceTable, chosen: tuple[str, ...] | None) -> StepShares:
    """Returns the time by category in these steps (None = all). Raises BadRequest for unknown steps."""
    steps = steps_of(trace, chosen)
    start, end = steps.start_ns, steps.end_ns
    total = end - start
    left = total.copy()
    parts: dict[str, Int64] = {}
    for category, ranges in shares(trace).items():
        parts[category] = measure_within(ranges, start, end)
        left = left - parts[category]
    parts["other"] = left
    return StepShares(steps.label, parts, total)
