"""Collectives of one rank, from its flight recorder."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from tb_plugin.analysis.base import Params, Part
from tb_plugin.analysis.flight_recorder.calls import calls_frame, calls_of, group_text, groups_frame
from tb_plugin.analysis.flight_recorder.headline import answer_notices
from tb_plugin.analysis.flight_recorder.metrics import METRICS
from tb_plugin.analysis.phrases import plural
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.model.flight_recorder import Flight
from tb_plugin.payloads import CoverageInfo, Figures, Link, Notice, Payload
from tb_plugin.views.collectives import VIEW


class Collectives(DeclaredView, entry=VIEW):
    def part(self, flight: Flight, params: Params) -> Part:
        calls, groups = calls_frame(flight), groups_frame(flight)
        unfinished = int(np.sum(~calls_of(flight)["call_finished"].to_numpy()))
        figures = [
            METRICS.figure("recorded_calls_count", len(flight)),
            METRICS.figure("unfinished_calls", unfinished),
            METRICS.figure("groups_count", groups.data.num_rows),
            METRICS.figure("overwritten_calls", flight.overwritten),
        ]
        payloads: dict[str, Payload] = {
            "answer": answer_notices([_answer(flight, unfinished)]),
            "summary": Figures("summary", "Flight recorder", "", figures, "headline"),
        }
        facts = {
            "flight.calls": len(flight),
            "flight.unfinished_calls": unfinished,
            "flight.groups": groups.data.num_rows,
            "flight.overwritten_calls": flight.overwritten,
        }
        frames = {calls.name: calls, groups.name: groups}
        coverage = CoverageInfo(complete=flight.report.complete)
        return Part(coverage, facts, frames, payloads, (*payloads, groups.name, calls.name))


def _answer(flight: Flight, unfinished: int) -> Notice:
    link = Link("ranks_collectives", {}, "Compare all ranks")
    figures = [METRICS.figure("recorded_calls_count", len(flight))]
    if not len(flight):
        return Notice(
            "flight_empty",
            "info",
            (
                "The flight recorder contains no call. Either no collective was called, or the buffer of the "
                "recorder is too small."
            ),
            "",
        )
    if not unfinished:
        what = plural(len(flight), "The recorded call is", "All {recorded_calls_count} recorded calls are")
        return Notice("flight_finished", "info", f"{what} finished on this rank.", "", figures, evidence=link)
    calls = calls_of(flight)
    first = calls.filter(pc.invert(calls["call_finished"])).slice(0, 1).to_pylist()[0]
    figures += [METRICS.figure("unfinished_calls", unfinished)]
    figures += [METRICS.figure(key, first[key]) for key in ("collective", "call_line")]
    number = "sequence" if first["sequence"] is not None else "p2p_number"
    figures += [METRICS.figure(number, first[number]), METRICS.figure("group", group_text(first))]
    text = "{unfinished_calls} of {recorded_calls_count} recorded calls are not finished: the first is {collective} "
    if unfinished == 1:
        text = "One of {recorded_calls_count} recorded calls is not finished: {collective} "
    text += f"number {{{number}}} of group {{group}}" + (", called in {call_line}" if first["call_line"] else "")
    return Notice("flight_unfinished", "high", f"{text}.", "", figures, evidence=link)
