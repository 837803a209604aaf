"""Serving: what a server's steps did, how fast tokens come, and what lies between steps that decode."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tb_plugin.analysis.base import NO_BORROWED_NUMBERS, Missing, Params, Part, Scope, Traits, answer_view
from tb_plugin.analysis.selection import chosen_steps, select_rows
from tb_plugin.analysis.served_steps import is_served
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Notices, Payload, Table, View
from tb_plugin.views.serving.pictures import classes, scatters, times
from tb_plugin.views.serving.served_selection import taken
from tb_plugin.views.serving.summary import answer_of, facts, headline
from tb_plugin.views.serving.tables import by_class, by_mode, by_step


class Serving:
    """The view of a server's steps."""

    id = "serving"
    title = "Serving"
    model = TraceTable
    traits = Traits(
        "Summary",
        hidden=True,
        whole="It is about steps: choose those of a mode.",
        tables=("serving_steps", "serving_modes", "serving_classes"),
    )
    scope: Scope = "profile"
    borrows = NO_BORROWED_NUMBERS

    def missing(self, trace: TraceTable) -> Missing | None:
        """Needs steps of which it is known what a server did in them."""
        if is_served(trace):
            return None
        return Missing("No step says what a server did in it.", trace.recorder.todo("view.serving"))

    def part_key(self, params: Params) -> tuple[object, ...]:
        """Depends on the chosen steps, and on whether the figures are about all of them."""
        return (params.steps, params.get("steady") == "all")

    def part(self, trace: TraceTable, params: Params) -> Part:
        """Returns figures, pictures and tables. Raises BadRequest for unknown steps."""
        coverage = select_rows(trace, params.steps).coverage
        if not is_served(trace):
            return Part(coverage)
        steps = np.array(chosen_steps(trace, params.steps), np.int64)
        found = taken(trace, steps, everything=params.steps is not None or params.get("steady") == "all")
        frames = {frame.name: frame for frame in (by_step(found), by_mode(found), by_class(found))}
        payloads: dict[str, Payload] = {
            "summary": headline(found),
            "answer": Notices("answer", "Serving", "answer", answer_of(found)),
            "times": times(found),
            "classes": classes(found),
            **scatters(found),
        }
        layout = (*payloads, "serving_modes", "serving_steps", "serving_classes")
        return Part(coverage, facts(found), frames, payloads, layout)

    def answer(self, parts: Sequence[Part], params: Params) -> View | Table:
        """Returns the page or one of its tables."""
        return answer_view(self, parts[0], params)
