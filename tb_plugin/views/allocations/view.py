"""Allocations: how much a device held over the history of a snapshot, and what it held at any moment."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tb_plugin.analysis.base import (
    Number,
    Params,
    Part,
    answer_view,
    int_param,
)
from tb_plugin.analysis.snapshot.categories import category_bar
from tb_plugin.analysis.snapshot.curve import WIDTH, curve_of
from tb_plugin.analysis.snapshot.device_levels import devices_of, levels_of, levels_of_device, moment_of, span_of
from tb_plugin.analysis.snapshot.history_steps import marks_of
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.model.snapshot.table import Snapshot
from tb_plugin.payloads import CoverageInfo, Figures, Payload, Table, View
from tb_plugin.payloads.base import Figure, Metric
from tb_plugin.views.allocations import VIEW
from tb_plugin.views.allocations.findings import advice_of
from tb_plugin.views.allocations.notes import answer_of, data_notices
from tb_plugin.views.allocations.summary import facts_of, moment_figures, settings_of, summary_of
from tb_plugin.views.allocations.tables import blocks_frame, ooms_frame, stacks_frame, steps_frame, steps_in

OWN = ("device", "at", "from", "to", "from_ns", "to_ns", "axis", "width")


class Allocations(DeclaredView, entry=VIEW):
    """The first view of a snapshot."""

    def part_key(self, params: Params) -> tuple[object, ...]:
        """Depends on the device, the moment, the part of the history, how it is drawn, and blocks that are named."""
        return (*(params.get(key) for key in OWN), *_named(params))

    def part(self, snapshot: Snapshot, params: Params) -> Part:
        """Facts of all devices; curve and tables of one. Raises BadRequest."""
        held = levels_of_device(snapshot, params)
        first, last = span_of(held, params)
        facts: dict[str, Number] = {}
        for each in devices_of(snapshot):
            facts |= facts_of(each)
        levels = levels_of(held)
        asked = moment_of(held, params)
        at = levels.peak() if asked is None else asked
        width = min(max(int_param(params, "width") or WIDTH, 50), 5000)
        steps = marks_of(held)
        shown = steps_in(steps, first, last)
        payloads: dict[str, Payload] = {
            "answer": answer_of(held, levels, steps),
            "summary": summary_of(held, levels),
            "data_quality": data_notices(held, levels, len(shown)),
        }
        if held.count:
            payloads["curve"] = curve_of(held, levels, (first, last), width, by_time=params.get("axis") == "time")
        # Reports choose no device: a finding on any of them is one on the profile.
        payloads["advice"] = advice_of(*([held] if params.get("device") else devices_of(snapshot)))
        payloads["devices"] = _devices(snapshot, facts)
        payloads["settings"] = settings_of(snapshot)
        when = "at the chosen moment" if asked is not None else "at the peak" if held.count else "at the snapshot"
        payloads["moment"] = moment_figures(held, levels, at, when)
        payloads |= category_bar(held, levels, at, when)
        frames = {
            "held_stacks": stacks_frame(held, at, when),
            "held_blocks": blocks_frame(held, first, last, _named(params)),
            "history_steps": steps_frame(held, levels, steps, shown),
            "oom_events": ooms_frame(held, levels),
        }
        return Part(CoverageInfo(complete=snapshot.report.complete), facts, frames, payloads, (*payloads, *frames))

    def answer(self, parts: Sequence[Part], params: Params) -> View | Table:
        """Returns the page of one device, or one of its tables."""
        return answer_view(self, parts[0], params)


def _named(params: Params) -> tuple[int, ...]:
    """Rows of blocks that a filter names: they are listed however small they are."""
    return tuple(int(value) for key, value in params.where if key == "block_row" and re.fullmatch("[0-9]{1,18}", value))


def _devices(snapshot: Snapshot, facts: dict[str, Number]) -> Figures:
    """Which devices there are, each with its peak: what a picker offers."""
    figures = [
        Figure(
            Metric(f"device.{held.name}", held.name, "bytes", "Largest allocated memory."),
            facts[f"memory.{held.name}.peak_allocated_bytes"],
        )
        for held in devices_of(snapshot)
    ]
    return Figures("devices", "Devices", "", figures)
