"""What of the memory page stands on totals that a profile states itself; nothing where it states none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tb_plugin.analyses.base import Frame, Number, Params, whole_number
from tb_plugin.analyses.device_memory.window import MemoryRange
from tb_plugin.analyses.memory.totals import (
    Totals,
    chosen_figures,
    component_facts,
    components_figures,
    components_frame,
    components_of,
    facts_of,
    peaks_figures,
    totals_curve,
    totals_frame,
    totals_of,
)
from tb_plugin.payloads import Payload
from tb_plugin.trace.intervals import union
from tb_plugin.trace.table import TraceTable

WIDTH = 800


@dataclass(frozen=True, eq=False)
class Stated:
    """Facts, payloads and tables of totals that a profile states."""

    facts: Mapping[str, Number] = field(default_factory=dict)
    payloads: Mapping[str, Payload] = field(default_factory=dict)
    frames: Mapping[str, Frame] = field(default_factory=dict)


def stated_devices(trace: TraceTable) -> set[str]:
    """Returns the names of the devices of which totals are stated."""
    return {one.device for one in (*totals_of(trace), *components_of(trace))}


def stated_of(trace: TraceTable, params: Params, window: MemoryRange) -> Stated:
    """Returns the totals of all devices (or of the one asked for), and the curves of one. Raises BadRequest."""
    totals = _chosen(totals_of(trace), params.get("device"))
    components = _chosen(components_of(trace), params.get("device"))
    span = _span(components, params, window)
    payloads: dict[str, Payload] = {}
    frames = {}
    if totals:
        first = [one for one in totals if one.device == totals[0].device]
        width = min(max(whole_number(params, "width") or WIDTH, 50), 5000)
        payloads["allocators"] = peaks_figures(first, window)
        payloads["allocator_peaks"] = chosen_figures(first, params.get("allocator"), window)
        payloads["allocator_curve"] = totals_curve(first, params.get("allocator"), window, width)
        frames["memory_allocators"] = totals_frame(window, totals)
    if components:
        payloads["component_counts"] = components_figures(components, span)
        frames["memory_components"] = components_frame(components, span, zeros=bool(params.get("zeros")))
    return Stated({**facts_of(totals, window), **component_facts(components, span)}, payloads, frames)


def _chosen(every: Sequence[Totals], device: str) -> list[Totals]:
    """Those of a device; blocks of another allocator of it are about the device as well."""
    return [one for one in every if not device or device == one.device or device.startswith(f"{one.device} ")]


def _span(components: Sequence[Totals], params: Params, window: MemoryRange) -> MemoryRange:
    """All of their time unless a part was asked for: a sampler may begin before everything else."""
    if not components or params.steps is not None or params.get("start_ns") or params.get("end_ns"):
        return window
    times = np.concatenate([one.time_ns for one in components])
    start, end = int(times.min()), int(times.max())
    return MemoryRange(start, end, union(np.array([start]), np.array([end + 1])), window.is_end_known)
