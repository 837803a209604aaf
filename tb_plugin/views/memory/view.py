"""Allocated and reserved memory, block lifetimes, and memory at the peak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import structs
from msgspec.structs import replace

from tb_plugin.analysis.base import Frame, Number, Params, Part, answer_view, int_param
from tb_plugin.analysis.driver_calls import DriverCalls, driver_calls, step_time
from tb_plugin.analysis.memory.categories import category_bar
from tb_plugin.analysis.memory.metrics import METRICS
from tb_plugin.analysis.memory.origins import Origins, origins_of
from tb_plugin.analysis.memory.owners import Owners, owners_of
from tb_plugin.analysis.memory.tables import MemoryScene, operator_frame, outermost_frame
from tb_plugin.analysis.memory.trace_devices import Device, allocators_of
from tb_plugin.analysis.memory.window import MemoryRange, Peak, peak_of, window_of
from tb_plugin.analysis.out_of_memory import Failures, failures_of, marks_of, sentence_of
from tb_plugin.analysis.selection import select_rows
from tb_plugin.analysis.snapshot.curve import detail
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.errors import BadRequest
from tb_plugin.lib.intervals import intersect
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Breakdown, CoverageInfo, Figures, Line, Notice, Notices, Payload, Series, Table, View
from tb_plugin.sql.statements import with_sql
from tb_plugin.views.memory import VIEW, summary
from tb_plugin.views.memory.block_rows import block_frame, every_block
from tb_plugin.views.memory.findings import findings_of
from tb_plugin.views.memory.live_blocks import live_at, live_frame
from tb_plugin.views.memory.outline import outline_of, values_of
from tb_plugin.views.memory.reported_totals import reported_devices, reported_notices, reported_totals, without_blocks
from tb_plugin.views.memory.shapes import Varying, shape_frame, varying_shapes
from tb_plugin.views.memory.surviving_blocks import StepBlocks, step_blocks, step_frame

# Columns of the curve unless the client requests another width.
WIDTH = 800
_WINDOW = ("device", "start_ns", "end_ns")


class Memory(DeclaredView, entry=VIEW):
    selects = "steps"
    own = (*_WINDOW, "at_ns", "width", "allocator", "zeros")

    def part(self, trace: TraceTable, params: Params) -> Part:
        requested = tuple((key, params.get(key)) for key in _WINDOW)
        seen = _prepare(trace, Params(steps=params.steps, extra=requested))
        scene, every, devices = seen.scene, seen.every, seen.devices
        peaks = seen.peaks
        facts: dict[str, Number] = {}
        for device, peak in zip(devices, peaks, strict=True):
            facts |= summary.facts_of(device, scene.window, peak) if not device.allocator else {}
        moment = int_param(params, "at_ns")
        at = [p.at if moment is None else d.at(moment) for d, p in zip(devices, peaks, strict=True)]
        live = [live_at(scene, device, position) for device, position in zip(devices, at, strict=True)]
        when = "at the peak" if moment is None else "at the selected time"
        payloads: dict[str, Payload] = {}
        if devices:
            width = min(max(int_param(params, "width") or WIDTH, 50), 5000)
            payloads["summary"] = summary.summary_of(scene, devices[0], peaks[0])
            payloads["curve"] = _curve_of(devices[0], scene.window, width)
            failures = _failures(trace, seen)
            says: list[Notice] = []
            if len(failures.row):
                payloads["out_of_memory"] = marks_of(trace, failures)
                text, figures = sentence_of(trace, failures)
                says.append(Notice("memory_ran_out", "high", text, "", figures))
            if devices[0].bytes.any():  # otherwise only levels are recorded
                payloads |= summary.live_bars(scene, devices[0], live[0], when)
                payloads |= category_bar(scene, devices[0], at[0], when)
                first = summary.answer_of(
                    devices[0],
                    peaks[0],
                    moment,
                    {key: bar for key, bar in payloads.items() if isinstance(bar, Breakdown)},
                )
                says += [first] if first else []
                payloads["block_states"] = summary.states_bar(devices[0], seen.frames["memory_events"].data)
            payloads["answer"] = Notices("answer", "Answer", "answer", says)
            payloads["driver_calls"] = summary.driver_figures(seen.calls)
            payloads["advice"] = findings_of(scene, devices, peaks, seen.steps, seen.shapes, seen.calls, failures)
            notes = summary.data_notices(trace, devices[0], scene.window)
            all_notices = (*notes.notices, *reported_notices(scene, devices[0]))
            payloads["data_quality"] = structs.replace(notes, notices=list(all_notices))
            payloads["devices"] = summary.devices_figures(every, [peak_of(d, scene.window) for d in every])
        frames = {**seen.frames, "memory_peak": live_frame(scene, live, when)}
        stated = reported_totals(trace, params, scene.window)
        facts |= stated.facts
        payloads |= stated.payloads
        if stated.frames and not devices:
            payloads["data_quality"] = without_blocks(trace)
        frames |= stated.frames
        changing = ["memory_shapes"] if frames["memory_shapes"].data.num_rows else []
        # Without recorded blocks these tables would be empty.
        is_bare = all(map(summary.lacks_events, devices)) and (devices or stated.frames)
        tables = [] if is_bare else ["memory_operators", *changing]
        return Part(seen.coverage, facts, frames, payloads, (*payloads, *tables, *stated.frames))

    def answer(self, parts: Sequence[Part], params: Params) -> View | Table:
        first = parts[0].payloads.get("summary")
        if params.table is None and isinstance(first, Figures):
            # Curve and table of a page are about the same device.
            params = replace(params, where=(*params.where, ("device", first.title)))
        return answer_view(self, parts[0], params)


def _failures(trace: TraceTable, seen: _Prepared) -> Failures:
    charted = {device.name for device in seen.every} - {seen.devices[0].name}
    failures = failures_of(trace)
    has_own_curve = np.array([name in charted for name in failures.device], np.bool_)
    return failures.of(seen.scene.window.holds(trace.start_ns[failures.row]) & ~has_own_curve)


class _Prepared(msgspec.Struct, frozen=True, eq=False):
    coverage: CoverageInfo
    scene: MemoryScene
    every: list[Device]
    devices: list[Device]
    peaks: list[Peak]
    frames: Mapping[str, Frame]
    steps: list[StepBlocks]
    shapes: list[Varying | None]
    calls: DriverCalls


@cached_by_argument
def _records(trace: TraceTable) -> tuple[Owners, Origins, list[Device], pa.Table]:
    owners, devices = owners_of(trace), allocators_of(trace)
    origins = origins_of(trace, owners)
    return owners, origins, devices, every_block(trace, owners, origins, devices)


@cached_by_argument
def _prepare(trace: TraceTable, params: Params) -> _Prepared:
    owners, origins, every, blocks = _records(trace)
    devices = _select_devices(trace, every, params.get("device"))
    scene = MemoryScene(trace, owners, origins, window_of(trace, params))
    peaks = [peak_of(device, scene.window) for device in devices]
    steps = [step_blocks(scene, device) for device in devices]
    frames = {
        "memory_operators": operator_frame(scene, devices),
        "memory_operators_outermost": outermost_frame(scene, devices),
        "memory_events": block_frame(scene.window, origins, blocks, devices),
        "memory_steps": step_frame(scene, devices, steps),
    }
    if trace.coverage.full is None and not any(params.get(key) for key in _WINDOW):
        frames = with_sql(frames, params)
    times = intersect(step_time(trace.steps), scene.window.parts)
    calls = driver_calls(trace, times)
    is_only_device = sum(not device.is_host for device in every) == 1
    shapes = [varying_shapes(scene, device, times, is_only_device and not device.is_host) for device in devices]
    frames["memory_shapes"] = shape_frame(trace, devices, shapes)
    return _Prepared(
        coverage=select_rows(trace, params.steps).coverage,
        scene=scene,
        every=every,
        devices=devices,
        peaks=peaks,
        frames=frames,
        steps=steps,
        shapes=shapes,
        calls=calls,
    )


def _select_devices(trace: TraceTable, devices: list[Device], name: str) -> list[Device]:
    if not name:
        return devices
    found = [device for device in devices if device.name == name]
    if not found and name not in (stated := reported_devices(trace)):
        known = ", ".join(sorted({device.name for device in devices} | stated)) or "none"
        raise BadRequest(
            f"The trace has no memory events of {name[:40]}.", "device", f"It has memory events of: {known}."
        )
    return found


def _curve_of(device: Device, window: MemoryRange, width: int) -> Series:
    inside = np.flatnonzero(window.holds(device.time_ns))
    levels = (device.allocated[inside], device.reserved[inside])
    drawn = outline_of(
        device.time_ns, window, inside[detail(device.time_ns[inside], levels, width, window.start_ns, window.end_ns)]
    )
    at = drawn.at
    level = METRICS.metric("allocated_bytes" if device.has_totals else "change_bytes")
    lines = [Line(level, "kernel", values_of(np.append(device.allocated, device.before)[at], drawn.recorded))]
    if (device.reserved > 0).any():
        reserved = device.reserved[np.maximum(at, 0)]  # unknown before the first event: draw the level after it
        known = drawn.recorded & (reserved != MISSING)
        lines.append(Line(METRICS.metric("reserved_bytes"), "memcpy", values_of(reserved, known)))
    x = drawn.time_ns.tolist()
    return Series("curve", "Memory over time", device.name, METRICS.metric("moment_ns"), x, lines, "lines")
