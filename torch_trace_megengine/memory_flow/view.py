"""Tensors over address and time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tb_plugin.analysis.base import (
    Number,
    Params,
    Part,
    answer_view,
    int_param,
)
from tb_plugin.analysis.phrases import plural
from tb_plugin.analysis.snapshot.curve import WIDTH
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import CoverageInfo, Figures, Notice, Notices, Payload, Table, View
from torch_trace_megengine.memory_flow import VIEW
from torch_trace_megengine.memory_flow.metrics import METRICS
from torch_trace_megengine.memory_flow.model import MemoryFlow, levels_of
from torch_trace_megengine.memory_flow.picture import curve_of, map_of, part_of
from torch_trace_megengine.memory_flow.tables import all_tensors_frame, producers_frame, tensors_frame, used_by
from torch_trace_megengine.memory_flow.tensor_names import NO_NAME, origins_of

OWN = ("start_ns", "end_ns", "low", "high", "at_ns", "width")


class MemoryFlowAnalysis(DeclaredView, entry=VIEW):
    def part_key(self, params: Params) -> tuple[object, ...]:
        return tuple(params.get(key) for key in OWN)

    def part(self, flow: MemoryFlow, params: Params) -> Part:
        part = part_of(flow, params)
        levels = levels_of(flow)
        peak_ns = int(levels.time_ns[levels.peak]) if levels.peak != MISSING else 0
        peak = int(levels.used[levels.peak]) if levels.peak != MISSING else 0
        requested = int_param(params, "at_ns")
        moment = peak_ns if requested is None else min(max(requested, flow.first_ns), flow.last_ns)
        alive = flow.alive_at(moment)
        width = min(max(int_param(params, "width") or WIDTH, 50), 5000)
        unreleased = int((~flow.is_released).sum())
        at_peak = len(flow.alive_at(peak_ns))
        facts: dict[str, Number] = {
            "memory_flow.peak_bytes": peak,
            "memory_flow.peak_time_ns": peak_ns,
            "memory_flow.peak_tensors": at_peak,
            "memory_flow.tensors": len(flow),
            "memory_flow.unreleased": unreleased,
        }
        figures = [
            METRICS.figure("flow_peak_bytes", peak),
            METRICS.figure("flow_peak_time_ns", peak_ns),
            METRICS.figure("flow_peak_tensors", at_peak),
            METRICS.figure("flow_tensors", len(flow)),
            METRICS.figure("flow_unreleased", unreleased),
        ]
        then = levels.at(moment)
        used, sizes = (int(part[then]) if then >= 0 else 0 for part in (levels.used, levels.tensors))
        payloads: dict[str, Payload] = {
            "answer": _answer_of(flow),
            "summary": Figures("summary", "Memory flow", "", figures, "headline"),
            "curve": curve_of(flow, part, width),
            "flow": map_of(flow, part),
            "moment": Figures(
                "moment",
                "At the peak" if requested is None else "At the selected time",
                "",
                [
                    METRICS.figure("flow_moment_ns", moment),
                    METRICS.figure("flow_moment_used_bytes", used),
                    METRICS.figure("flow_moment_shared_bytes", sizes - used),
                    METRICS.figure("flow_moment_tensors", len(alive)),
                ],
            ),
            "data_quality": _data_notices(flow),
        }
        when = "at the peak" if requested is None else "at the selected time"
        frames = {
            frame.name: frame
            for frame in (
                tensors_frame(flow, alive, "tensors_at", f"Tensors {when}"),
                producers_frame(flow, alive),
                all_tensors_frame(flow),
            )
        }
        coverage = CoverageInfo(window_ns=part.end_ns - part.start_ns, complete=flow.report.complete)
        return Part(coverage, facts, frames, payloads, (*payloads, *frames))

    def answer(self, parts: Sequence[Part], params: Params) -> View | Table:
        return answer_view(self, parts[0], params)


def _answer_of(flow: MemoryFlow) -> Notices:
    levels = levels_of(flow)
    if levels.peak == MISSING or not levels.used[levels.peak]:
        return Notices("answer", "Answer", "answer", [])
    at = int(levels.time_ns[levels.peak])
    alive = flow.alive_at(at)
    origins = origins_of(flow)
    by = used_by(flow, alive, origins.producer[alive], len(origins.producers))
    named = np.array([name != NO_NAME for name in origins.producers])
    most, unnamed = int(np.where(named, by, -1).argmax()), int(by[~named].sum())
    parts = ["{producer_moment_bytes} made by {tensor_producer}"] if named[most] and by[most] else []
    parts += ["{unnamed_bytes} in unnamed tensors"] if unnamed else []
    text = "Memory use peaks at {flow_peak_time_ns}: {flow_peak_bytes} in {flow_peak_tensors} "
    text += f"{plural(len(alive), 'tensor')}, of which {' and '.join(parts)}."
    figures = [
        METRICS.figure("flow_peak_time_ns", at),
        METRICS.figure("flow_peak_bytes", int(levels.used[levels.peak])),
        METRICS.figure("flow_peak_tensors", len(alive)),
        METRICS.figure("producer_moment_bytes", int(by[most])),
        METRICS.figure("tensor_producer", origins.producers[most]),
        METRICS.figure("unnamed_bytes", unnamed),
    ]
    return Notices("answer", "Answer", "answer", [Notice("flow_peak", "info", text, "", figures)])


def _data_notices(flow: MemoryFlow) -> Notices:
    notices = []
    levels = levels_of(flow)
    if unreleased := int((~flow.is_released).sum()):
        notices.append(
            Notice(
                "flow_not_released",
                "info",
                f"{{flow_unreleased}} {plural(unreleased, 'tensor was', 'tensors were')} not released during recording; "
                "the chart draws them to its end.",
                "",
                [METRICS.figure("flow_unreleased", unreleased)],
            )
        )
    if not levels.is_exact:
        text = (
            "There are too many pieces to compute shared memory. Memory in use is the sum of tensor sizes, "
            "which is too high if tensors are views of other tensors."
        )
        notices.append(Notice("flow_not_exact", "low", text, ""))
    elif (levels.used != levels.tensors).any():
        shared = int((levels.tensors - levels.used).max())
        text = "Tensors share up to {flow_most_shared_bytes} of memory at the same time, for example as views. "
        text += "Memory in use counts shared bytes once."
        notices.append(Notice("flow_shared", "info", text, "", [METRICS.figure("flow_most_shared_bytes", shared)]))
    return Notices("data_quality", "About these numbers", "data", notices)
