"""Steps of an inference server, and the rate of generated tokens."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.base import Params, Part
from tb_plugin.analysis.selection import chosen_steps, select_rows
from tb_plugin.analysis.served_steps import is_served
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Notices, Payload
from tb_plugin.views.serving import VIEW
from tb_plugin.views.serving.summary import (
    answer_of,
    facts,
    headline_figures,
    kernel_classes_by_mode,
    step_time_scatters,
    time_by_mode,
)
from tb_plugin.views.serving.tables import by_class, by_mode, by_step, select_served


class Serving(DeclaredView, entry=VIEW):
    def part_key(self, params: Params) -> tuple[object, ...]:
        return (params.steps, params.get("steady") == "all")

    def part(self, trace: TraceTable, params: Params) -> Part:
        coverage = select_rows(trace, params.steps).coverage
        if not is_served(trace):
            return Part(coverage)
        steps = np.array(chosen_steps(trace, params.steps), np.int64)
        found = select_served(trace, steps, everything=params.steps is not None or params.get("steady") == "all")
        frames = {frame.name: frame for frame in (by_step(found), by_mode(found), by_class(found))}
        payloads: dict[str, Payload] = {
            "summary": headline_figures(found),
            "answer": Notices("answer", "Serving", "answer", answer_of(found)),
            **time_by_mode(found),
            **kernel_classes_by_mode(found),
            **step_time_scatters(found),
        }
        layout = (*payloads, "serving_modes", "serving_steps", "serving_classes")
        return Part(coverage, facts(found), frames, payloads, layout)
