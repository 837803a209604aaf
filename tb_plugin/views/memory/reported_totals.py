"""Payloads from allocator totals that the profiler reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from tb_plugin.analysis.base import Frame, Number, Params, int_param
from tb_plugin.analysis.memory.metrics import METRICS
from tb_plugin.analysis.memory.tables import Scene
from tb_plugin.analysis.memory.trace_devices import Device
from tb_plugin.analysis.memory.window import MemoryRange
from tb_plugin.lib.intervals import union
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Notice, Notices, Payload
from tb_plugin.views.memory.total_curves import (
    Totals,
    chosen_figures,
    component_facts,
    components_figures,
    components_frame,
    components_of,
    devices_figures,
    facts_of,
    peaks_figures,
    totals_curve,
    totals_frame,
    totals_of,
)

WIDTH = 800


class ReportedTotals(msgspec.Struct, frozen=True, eq=False):
    facts: Mapping[str, Number] = msgspec.field(default_factory=dict)
    payloads: Mapping[str, Payload] = msgspec.field(default_factory=dict)
    frames: Mapping[str, Frame] = msgspec.field(default_factory=dict)


def reported_devices(trace: TraceTable) -> set[str]:
    return {one.device for one in (*totals_of(trace), *components_of(trace))}


def reported_totals(trace: TraceTable, params: Params, window: MemoryRange) -> ReportedTotals:
    """Returns the reported totals of the requested device, by default of all. Raises BadRequest."""
    totals = _totals_of_device(totals_of(trace), params.get("device"))
    components = _totals_of_device(components_of(trace), params.get("device"))
    span = _span(components, params, window)
    payloads: dict[str, Payload] = {}
    frames = {}
    if totals:
        first = [one for one in totals if one.device == totals[0].device]
        width = min(max(int_param(params, "width") or WIDTH, 50), 5000)
        payloads["allocators"] = peaks_figures(first, window)
        payloads["allocator_devices"] = devices_figures(totals_of(trace), window)
        payloads["allocator_peaks"] = chosen_figures(first, params.get("allocator"), window)
        payloads["allocator_curve"] = totals_curve(first, params.get("allocator"), window, width)
        frames["memory_allocators"] = totals_frame(window, totals)
    if components:
        payloads["component_counts"] = components_figures(components, span)
        frames["memory_components"] = components_frame(components, span, zeros=bool(params.get("zeros")))
    return ReportedTotals({**facts_of(totals, window), **component_facts(components, span)}, payloads, frames)


def reported_notices(scene: Scene, device: Device) -> list[Notice]:
    trace, blocks = scene.trace, device.blocks
    if not len(trace.reported_memory.name):
        return []
    event = device.record[blocks.allocation[blocks.allocation != MISSING]]
    named = event[trace.reported_memory.name[event] != MISSING]
    without_call = int((scene.owners.operator[named] == MISSING).sum())
    notices = []
    if len(named):
        which = "{blocks} of these blocks have" if without_call < len(named) else "These blocks have"
        text = (
            "The profiler reports the operator that allocated {allocations} blocks of {device}, but not the "
            "operator that released them. All releases are outside operators."
        )
        if without_call:
            text += f" {which} no recorded call of that name, so the operators around it are unknown."
        figures = [METRICS.figure("allocations", len(named)), METRICS.figure("device", device.name)]
        if 0 < without_call < len(named):
            figures.append(METRICS.figure("blocks", without_call))
        notices.append(Notice("memory_named", "info", text, "", figures))
    older = blocks.size[blocks.allocation == MISSING]
    if len(older):
        text = (
            "{blocks} blocks of {device} ({block_bytes}) were allocated before the recording and released "
            "during the recording. These blocks have negative recorded sizes and count only as releases."
        )
        figures = METRICS.figures({"blocks": len(older), "device": device.name, "block_bytes": int(older.sum())})
        notices.append(Notice("memory_older", "info", text, "", figures))
    return notices


def without_blocks(trace: TraceTable) -> Notices:
    what = " and ".join(
        word for word, of in (("allocator totals", trace.totals), ("component totals", trace.components))
        if len(of.time_ns)
    )  # fmt: skip
    text = f"Only {what} are recorded, and no blocks. The allocating operators are unknown."
    notice = Notice(rule="memory_totals_only", severity="info", text=text, todo=trace.recorder.todo("view.memory"))
    return Notices("data_quality", "About these numbers", "data", [notice])


def _totals_of_device(every: Sequence[Totals], device: str) -> list[Totals]:
    return [one for one in every if not device or device == one.device or device.startswith(f"{one.device} ")]


def _span(components: Sequence[Totals], params: Params, window: MemoryRange) -> MemoryRange:
    """Returns the requested time range, by default that of all totals: a sampler may start before all other events."""
    if not components or params.steps is not None or params.get("start_ns") or params.get("end_ns"):
        return window
    times = np.concatenate([one.time_ns for one in components])
    start, end = int(times.min()), int(times.max())
    return MemoryRange(start, end, union(np.array([start]), np.array([end + 1])), window.is_end_recorded)
