"""Memory flow: where tensors lay in memory and from when to when, how much was in use, and what was there at any moment."""

from __future__ import annotations

from collections.abc import Sequence

from tb_plugin.analysis.base import (
    NO_BORROWED_NUMBERS,
    Missing,
    Number,
    Params,
    Part,
    Scope,
    Traits,
    answer_view,
    int_param,
)
from tb_plugin.analysis.snapshot.curve import WIDTH
from tb_plugin.model.memory_flow.table import MemoryFlow, levels_of
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import CoverageInfo, Figures, Payload, Table, View
from tb_plugin.views.memory_flow.metrics import METRICS
from tb_plugin.views.memory_flow.notices import answer_of, data_notices
from tb_plugin.views.memory_flow.picture import curve_of, map_of, part_of
from tb_plugin.views.memory_flow.tables import all_tensors_frame, producers_frame, tensors_frame

OWN = ("start_ns", "end_ns", "low", "high", "at_ns", "width")


class MemoryFlowAnalysis:
    """The view of tensors over addresses and time."""

    id = "memory_flow"
    title = "Memory flow"
    model = MemoryFlow
    traits = Traits("Memory", whole="A memory flow has no phases.", tables=("tensors_at", "flow_producers"))
    scope: Scope = "profile"
    borrows = NO_BORROWED_NUMBERS

    def missing(self, flow: MemoryFlow) -> Missing | None:
        """Returns None: it is always there."""
        return None

    def part_key(self, params: Params) -> tuple[object, ...]:
        """Depends on the part that is looked at, the moment and the width."""
        return tuple(params.get(key) for key in OWN)

    def part(self, flow: MemoryFlow, params: Params) -> Part:
        """Returns picture, curve, figures and tables. Raises BadRequest."""
        part = part_of(flow, params)
        levels = levels_of(flow)
        peak_ns = int(levels.time_ns[levels.peak]) if levels.peak != MISSING else 0
        peak = int(levels.used[levels.peak]) if levels.peak != MISSING else 0
        asked = int_param(params, "at_ns")
        moment = peak_ns if asked is None else min(max(asked, flow.first_ns), flow.last_ns)
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
            "answer": answer_of(flow),
            "summary": Figures("summary", "Memory flow", "", figures, "headline"),
            "curve": curve_of(flow, part, width),
            "flow": map_of(flow, part),
            "moment": Figures(
                "moment",
                "At the peak" if asked is None else "At the chosen moment",
                "",
                [
                    METRICS.figure("flow_moment_ns", moment),
                    METRICS.figure("flow_moment_used_bytes", used),
                    METRICS.figure("flow_moment_shared_bytes", sizes - used),
                    METRICS.figure("flow_moment_tensors", len(alive)),
                ],
            ),
            "data_quality": data_notices(flow),
        }
        when = "at the peak" if asked is None else "at the chosen moment"
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
        """Returns the page or one of its tables."""
        return answer_view(self, parts[0], params)
