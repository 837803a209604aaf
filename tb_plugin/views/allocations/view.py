"""Allocated memory of a device over a snapshot's history."""

from __future__ import annotations

import re

from tb_plugin.analysis.base import Number, Params, Part, int_param
from tb_plugin.analysis.snapshot.categories import category_bar
from tb_plugin.analysis.snapshot.curve import WIDTH, curve_of
from tb_plugin.analysis.snapshot.device_levels import SPAN, devices_of, levels_of, levels_of_device, moment_of, span_of
from tb_plugin.analysis.snapshot.steps import marks_of
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.model.snapshot.table import Snapshot
from tb_plugin.payloads import CoverageInfo, Figures, Payload
from tb_plugin.payloads.base import Figure, Metric
from tb_plugin.views.allocations import VIEW
from tb_plugin.views.allocations.findings import advice_of
from tb_plugin.views.allocations.notes import answer_of, data_notices, facts_of, moment_figures, settings_of, summary_of
from tb_plugin.views.allocations.tables import blocks_frame, ooms_frame, stacks_frame, steps_frame, steps_in


class Allocations(DeclaredView, entry=VIEW):
    def part_key(self, params: Params) -> tuple[object, ...]:
        return (*(params.get(key) for key in ("device", "at", *SPAN, "axis", "width")), *_filtered_blocks(params))

    def part(self, snapshot: Snapshot, params: Params) -> Part:
        device = levels_of_device(snapshot, params)
        first, last = span_of(device, params)
        facts: dict[str, Number] = {}
        for each in devices_of(snapshot):
            facts |= facts_of(each)
        levels = levels_of(device)
        requested = moment_of(device, params)
        at = levels.peak() if requested is None else requested
        width = min(max(int_param(params, "width") or WIDTH, 50), 5000)
        steps = marks_of(device)
        step_rows = steps_in(steps, first, last)
        payloads: dict[str, Payload] = {
            "answer": answer_of(device, levels, steps),
            "summary": summary_of(device, levels),
            "data_quality": data_notices(device, levels, len(step_rows)),
        }
        if device.count:
            payloads["curve"] = curve_of(device, levels, (first, last), width, by_time=params.get("axis") == "time")
        # Reports cover all devices.
        payloads["advice"] = advice_of(*([device] if params.get("device") else devices_of(snapshot)))
        payloads["devices"] = _devices(snapshot, facts)
        payloads["settings"] = settings_of(snapshot)
        when = (
            "after the selected event"
            if requested is not None
            else "at the peak"
            if device.count
            else "at the snapshot"
        )
        payloads["moment"] = moment_figures(device, levels, at, when)
        payloads |= category_bar(device, levels, at, when)
        frames = {
            "held_stacks": stacks_frame(device, at, when),
            "held_blocks": blocks_frame(device, first, last, _filtered_blocks(params)),
            "history_steps": steps_frame(levels, steps, step_rows),
            "oom_events": ooms_frame(device, levels),
        }
        return Part(CoverageInfo(complete=snapshot.report.complete), facts, frames, payloads, (*payloads, *frames))


def _filtered_blocks(params: Params) -> tuple[int, ...]:
    return tuple(int(value) for key, value in params.where if key == "block_row" and re.fullmatch("[0-9]{1,18}", value))


def _devices(snapshot: Snapshot, facts: dict[str, Number]) -> Figures:
    figures = [
        Figure(
            Metric(f"device.{device.name}", device.name, "bytes", "Largest allocated memory."),
            facts[f"memory.{device.name}.peak_allocated_bytes"],
        )
        for device in devices_of(snapshot)
    ]
    return Figures("devices", "Devices", "", figures)
