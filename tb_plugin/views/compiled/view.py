"""Compiled code: regions, graph breaks and compilation."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.base import Frame, Number, Params, Part
from tb_plugin.analysis.compiled.compiling import compilations_of, guards_of
from tb_plugin.analysis.compiled.graph_breaks import breaks_of
from tb_plugin.analysis.compiled.regions import regions_of
from tb_plugin.analysis.selection import Selection, select_rows, steps_of
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Figures, Payload
from tb_plugin.views.compiled import VIEW
from tb_plugin.views.compiled.metrics import METRICS
from tb_plugin.views.compiled.tables import breaks_frame, kernels_frame, regions_frame, steps_frame

_FIGURES = (
    "compile_ns",
    "compilations",
    "recompilations",
    "guard_failures",
    "graph_breaks",
    "compiled_regions",
    "calls",
    "guard_ns",
    "wrapper_ns",
)


class CompiledAnalysis(DeclaredView, entry=VIEW):
    selects = "events"

    def part(self, trace: TraceTable, params: Params) -> Part:
        selection = select_rows(trace, *params.chosen)
        builders = (regions_frame, breaks_frame, kernels_frame)
        frames = {frame.name: frame for frame in (make(trace, selection) for make in builders)}
        frames["compiled_steps"] = steps_frame(trace, params.steps)
        numbers = _numbers(trace, selection)
        wrapper = sum(frames["regions"].data["wrapper_ns"].to_pylist())
        notes = {"compile_ns": _share(trace, params, frames["compiled_steps"])}
        values = {**numbers, "wrapper_ns": wrapper}
        figures = [METRICS.figure(key, values[key], note=notes.get(key, "")) for key in _FIGURES]
        payloads: dict[str, Payload] = {"summary": Figures("summary", "Compiled code", "", figures)}
        shown = [
            name
            for name in ("graph_breaks", "regions", "generated_kernels", "compiled_steps")
            if frames[name].data.num_rows
        ]
        return Part(
            coverage=selection.coverage,
            facts={f"compiled.{key.removeprefix('compiled_')}": value for key, value in numbers.items()},
            frames=frames,
            payloads=payloads,
            layout=(*payloads, *shown),
        )


def _share(trace: TraceTable, params: Params, by_step: Frame) -> str:
    steps = steps_of(trace, params.steps)
    compiling = sum(by_step.data["compiling_in_step_ns"].to_pylist())
    host = int((steps.host_end_ns - steps.host_start_ns).sum())
    return f"{100 * compiling / host:.1f} % of the steps" if compiling and host else ""


def _numbers(trace: TraceTable, selection: Selection) -> dict[str, Number]:
    regions, compilations, guards, broken = (
        regions_of(trace),
        compilations_of(trace),
        guards_of(trace),
        breaks_of(trace),
    )
    calls = regions.row[selection.rows[regions.row]]
    compiled = selection.rows[compilations.row]
    checked = selection.rows[guards.row]
    breaks = selection.rows[regions.row[broken.call]]
    named = np.unique(compilations.region[compiled & (compilations.region != MISSING)])
    return {
        "compiled_regions": len(np.unique(trace.name[calls])),
        "calls": len(calls),
        "compile_ns": int(trace.dur_ns[compilations.row[compiled]].sum()),
        "compilations": int(compiled.sum()),
        "recompilations": int(compilations.repeats()[named].sum()),
        "graph_breaks": len(np.unique(broken.function[breaks])),
        "guard_failures": int((guards.compilation[checked] != MISSING).sum()),
        "guard_ns": int(trace.dur_ns[guards.row[checked]].sum()),
    }
