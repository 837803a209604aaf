"""Compiled code: regions, graph breaks and compilation."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.base import Frame, Number, Params, Part
from tb_plugin.analysis.compiled.compiling import compilations_of, guards_of, recompilations_of
from tb_plugin.analysis.compiled.graph_breaks import breaks_of
from tb_plugin.analysis.compiled.regions import regions_of
from tb_plugin.analysis.host_calls import HostCalls, sums_of
from tb_plugin.analysis.phrases import plural
from tb_plugin.analysis.selection import Selection, select_rows, steps_of
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.analysis.work_answers import answer, device_word
from tb_plugin.lib.groupby import group
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Figures, Notices, Payload
from tb_plugin.views.compiled import VIEW
from tb_plugin.views.compiled.metrics import METRICS
from tb_plugin.views.compiled.tables import breaks_frame, kernels_frame, region_calls, regions_frame, steps_frame

# Most important first, because the page shows the first ones.
_FIGURES = (
    "compile_ns",
    "recompilations",
    "graph_breaks",
    "guard_ns",
    "wrapper_ns",
    "compilations",
    "guard_failures",
    "compiled_regions",
    "calls",
)
# The CPU limits compiled code if it takes this many times longer than the device.
_BOUND = 1.2


class CompiledAnalysis(DeclaredView, entry=VIEW):
    selects = "events"

    def part(self, trace: TraceTable, params: Params) -> Part:
        selection = select_rows(trace, *params.chosen)
        regions = region_calls(trace, selection)
        tables = (
            regions_frame(trace, selection, regions),
            breaks_frame(trace, selection),
            kernels_frame(trace, selection),
        )
        frames = {frame.name: frame for frame in tables}
        frames["compiled_steps"] = steps_frame(trace, params.steps)
        numbers = _numbers(trace, selection)
        wrapper = sum(frames["regions"].data["wrapper_ns"].to_pylist())
        notes = {"compile_ns": _share(trace, params, frames["compiled_steps"])}
        values = {**numbers, "wrapper_ns": wrapper}
        figures = [METRICS.figure(key, values[key], note=notes.get(key, "")) for key in _FIGURES if values[key]]
        first = _answer(trace, regions)
        payloads: dict[str, Payload] = {
            **({"answer": first} if first else {}),
            "summary": Figures("summary", "Compiled code", "", figures),
        }
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


def _answer(trace: TraceTable, regions: HostCalls) -> Notices | None:
    """Returns the CPU and device time of compiled code. Regions inside regions count once."""
    if not len(regions.row):
        return None
    sums = sums_of(regions, group(np.zeros(len(regions.row), np.int64)))
    host, device, calls = (int(sums[key][0]) for key in ("host_total_ns", "device_total_ns", "calls"))
    word = device_word(trace)
    text = "Compiled code takes {compiled_host_ns} of CPU time"
    text += f" and {{compiled_device_ns}} of {word} time" if device else ""
    text += f" in {{compiled_calls}} {plural(calls, 'call')}."
    if device and host > _BOUND * device:
        text += f" The CPU takes longer than the {word}, so the CPU limits compiled code."
    values = {"compiled_host_ns": host, "compiled_device_ns": device, "compiled_calls": calls}
    return answer("compiled_answer", text, METRICS.figures(values))


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
    again = recompilations_of(trace)
    return {
        "compiled_regions": len(np.unique(trace.name[calls])),
        "calls": len(calls),
        "compile_ns": int(trace.dur_ns[compilations.row[compiled]].sum()),
        "compilations": int(compiled.sum()),
        "recompilations": len(np.unique(compilations.region[again[compiled[again]]])),
        "graph_breaks": len(np.unique(broken.function[breaks])),
        "guard_failures": int((guards.compilation[checked] != MISSING).sum()),
        "guard_ns": int(trace.dur_ns[guards.row[checked]].sum()),
    }
