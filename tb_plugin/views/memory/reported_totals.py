"""Totals that the profiler reports, by allocator and by component."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import structs

from tb_plugin.analysis.allocator import HOST_TYPE
from tb_plugin.analysis.base import Frame, Number, Params, int_param
from tb_plugin.analysis.memory.metrics import METRICS
from tb_plugin.analysis.memory.tables import MemoryScene, hidden_of
from tb_plugin.analysis.memory.trace_devices import Device, name_in
from tb_plugin.analysis.memory.window import MemoryRange
from tb_plugin.analysis.snapshot.curve import detail
from tb_plugin.errors import BadRequest
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.intervals import union
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.extra_columns import RELEASE_WITHOUT_ALLOCATION, AllocatorTotals
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Figure, Figures, Line, Metric, Notice, Notices, Payload, Series, Sort
from tb_plugin.views.memory.outline import outline_of, values_of

WIDTH = 800
# Reported levels of an allocator, with the colour of their curves.
LEVELS = {"allocated": "kernel", "active": "slice1", "reserved": "memcpy"}


class Totals(msgspec.Struct, frozen=True, eq=False):
    """Totals of one allocator or one component on a device, sorted by time."""

    name: str
    device: str
    time_ns: Int64
    levels: Mapping[str, Int64]
    """Bytes for each key of LEVELS; -1 = not reported at that time."""

    def peak(self, key: str, window: MemoryRange) -> tuple[int | None, int | None]:
        """Returns the maximum in a window and the first time with this maximum; None if nothing is reported."""
        values = self.levels.get(key)
        if values is None:
            return None, None
        known = np.flatnonzero(values >= 0)
        time, values = self.time_ns[known], values[known]
        before = np.searchsorted(time, window.begins, side="left") - 1
        entering = before >= 0
        inside = np.flatnonzero(window.holds(time))
        every = np.concatenate((values[before[entering]], values[inside]))
        if not len(every):
            return None, None
        times = np.concatenate((window.begins[entering], time[inside]))
        most = int(every.max())
        return most, int(times[every == most].min())


@cached_by_argument
def totals_of(trace: TraceTable) -> tuple[Totals, ...]:
    return tuple(_totals(trace, trace.totals))


@cached_by_argument
def components_of(trace: TraceTable) -> tuple[Totals, ...]:
    return tuple(_totals(trace, trace.components))


def _totals(trace: TraceTable, of: AllocatorTotals) -> list[Totals]:
    key = (of.device_type.astype(np.int64) << 32) + of.device_id
    order = np.lexsort((np.arange(len(key)), of.time_ns, of.allocator, key))
    starts = np.flatnonzero(np.append(True, np.diff(key[order]) | np.diff(of.allocator[order]))[: len(order)])
    found = []
    for rows in np.split(order, starts[1:]) if len(order) else ():
        first = int(rows[0])
        allocator, kind, number = int(of.allocator[first]), int(of.device_type[first]), int(of.device_id[first])
        levels = {each: getattr(of, each)[rows] for each in LEVELS}
        found.append(
            Totals(
                trace.strings[allocator] if allocator != MISSING else "(no name)",
                name_in(trace, kind, MISSING if kind == HOST_TYPE else number),
                of.time_ns[rows],
                {each: values for each, values in levels.items() if (values != MISSING).any()},
            )
        )
    most = {id(one): max((int(v.max()) for v in one.levels.values()), default=0) for one in found}
    return sorted(found, key=lambda one: (one.device, -most[id(one)], one.name))


def _devices(every: Sequence[Totals]) -> list[str]:
    return sorted({one.device for one in every})


def totals_frame(window: MemoryRange, every: Sequence[Totals]) -> Frame:
    peaks = {key: [one.peak(key, window) for one in every] for key in LEVELS}
    data = {
        "allocator": pa.array([one.name for one in every], pa.large_string()),
        "device": pa.array([one.device for one in every], pa.string()),
    }
    for key in LEVELS:
        data[f"stated_peak_{key}_bytes"] = pa.array([value for value, _ in peaks[key]], pa.int64())
        data[f"stated_peak_{key}_at_ns"] = pa.array([when for _, when in peaks[key]], pa.int64())
    data["stated_samples"] = pa.array([int(window.holds(one.time_ns).sum()) for one in every], pa.int64())
    columns = METRICS.columns(*data, hidden=hidden_of(_devices(every)))
    return Frame(
        "memory_allocators", "Peaks by allocator", columns, pa.table(data), ("device", "allocator"), "allocator"
    )


def components_frame(every: Sequence[Totals], window: MemoryRange, *, zeros: bool) -> Frame:
    """Returns the peak of each component. Components that never used memory are included only if ``zeros``."""
    found = [(one, one.peak("reserved", window)) for one in every]
    found = [(one, peak) for one, peak in found if zeros or peak[0] != 0]
    found.sort(key=lambda pair: (pair[1][0] is None, -(pair[1][0] or 0)))
    rows = [one for one, _ in found]
    released = [int((one.levels["reserved"] == RELEASE_WITHOUT_ALLOCATION).sum()) if one.levels else 0 for one in rows]
    data = {
        "component": pa.array([one.name for one in rows], pa.large_string()),
        "device": pa.array([one.device for one in rows], pa.string()),
        "stated_peak_reserved_bytes": pa.array([peak[0] for _, peak in found], pa.int64()),
        "stated_peak_reserved_at_ns": pa.array([peak[1] for _, peak in found], pa.int64()),
        "stated_samples": pa.array([int(window.holds(one.time_ns).sum()) for one in rows], pa.int64()),
        "stated_release_samples": pa.array(released, pa.int64()),
    }
    hidden = (*hidden_of(_devices(every)), *(() if any(released) else ("stated_release_samples",)))
    columns, key = METRICS.columns(*data, hidden=hidden), ("device", "component")
    sort = Sort("stated_peak_reserved_bytes", True)
    return Frame("memory_components", "Memory by component", columns, pa.table(data), key, "component", sort)


def components_figures(every: Sequence[Totals], window: MemoryRange) -> Figures:
    peaks = [one.peak("reserved", window)[0] for one in every]
    only = sum(bool(one.levels) and bool((one.levels["reserved"] == RELEASE_WITHOUT_ALLOCATION).all()) for one in every)
    zero = sum(peak == 0 for peak in peaks)
    counts = {"components": len(every), "zero_components": zero, "release_components": only}
    return Figures("component_counts", "Components", "", METRICS.figures(counts))


def facts_of(every: Sequence[Totals], window: MemoryRange) -> dict[str, Number]:
    return {
        f"memory.{one.device}.allocator.{one.name}.peak_{key}_bytes": one.peak(key, window)[0]
        for one in every
        for key in one.levels
    }


def component_facts(components: Sequence[Totals], window: MemoryRange) -> dict[str, Number]:
    peaks = {one: one.peak("reserved", window)[0] for one in components}
    return {
        f"memory.{one.device}.component.{one.name}.peak_reserved_bytes": most
        for one, most in peaks.items()
        if most is not None and most > 0
    }


def peaks_figures(every: Sequence[Totals], window: MemoryRange) -> Figures:
    figures = []
    for one in every:
        key = "reserved" if "reserved" in one.levels else "allocated"
        about = METRICS[f"stated_peak_{key}_bytes"]
        figures.append(
            Figure(Metric(f"allocator.{one.name}", one.name, "bytes", about.definition, about.window),
                   one.peak(key, window)[0], key)
        )  # fmt: skip
    return Figures("allocators", "Allocators", every[0].device if every else "", figures)


def devices_figures(every: Sequence[Totals], window: MemoryRange) -> Figures:
    about = METRICS["stated_peak_reserved_bytes"]
    figures = []
    for device in _devices(every):
        peaks = [one.peak("reserved", window)[0] for one in every if one.device == device]
        most = max((peak for peak in peaks if peak is not None), default=None)
        figures.append(Figure(Metric(f"device.{device}", device, "bytes", about.definition, about.window), most))
    return Figures("allocator_devices", "Devices", "", figures)


def chosen_figures(every: Sequence[Totals], chosen: str, window: MemoryRange) -> Figures:
    """Returns the peaks of the allocator ``chosen``, by default the reserved peak of each allocator."""
    device = every[0].device if every else ""
    if not chosen:
        return structs.replace(peaks_figures(every, window), name="allocator_peaks", title="Peaks", subtitle=device)
    figures = []
    for one in every:
        for key in one.levels if one.name == chosen else ():
            most, when = one.peak(key, window)
            figures += [
                METRICS.figure(f"stated_peak_{key}_bytes", most),
                METRICS.figure(f"stated_peak_{key}_at_ns", when),
            ]
    return Figures("allocator_peaks", f"Peaks of {chosen}", device, figures)


def totals_curve(every: Sequence[Totals], chosen: str, window: MemoryRange, width: int) -> Series:
    """Returns the curves of an allocator, by default the reserved bytes of each. Raises BadRequest for an unknown one."""
    some = [one for one in every if not chosen or one.name == chosen]
    if not some:
        known = ", ".join(one.name for one in every)
        raise BadRequest(
            f"The trace has no totals of an allocator {chosen[:40]}.", "allocator", f"It has totals of: {known}."
        )
    lines = [
        (one, key)
        for one in some
        for key in LEVELS
        if key in one.levels and (bool(chosen) or key == "reserved" or "reserved" not in one.levels)
    ]
    time = np.concatenate([one.time_ns for one in some])
    owner = np.repeat(np.arange(len(some)), [len(one.time_ns) for one in some])
    place = np.concatenate([np.arange(len(one.time_ns)) for one in some])
    order = np.argsort(time, kind="stable")
    time, owner, place = time[order], owner[order], place[order]
    levels = [_latest(some.index(one), owner, place, one.levels[key]) for one, key in lines]
    inside = np.flatnonzero(window.holds(time))
    drawn_levels = [level[inside] for level in levels]
    kept = inside[detail(time[inside], drawn_levels, width, window.start_ns, window.end_ns)]
    drawn = outline_of(time, window, kept)
    curves = []
    for i, ((one, key), level) in enumerate(zip(lines, levels, strict=True)):
        values = np.append(level, MISSING)[drawn.at]
        colour = LEVELS[key] if chosen else f"slice{i}"
        curves.append(Line(_title(one, key, chosen), colour, values_of(values, drawn.recorded & (values >= 0))))
    title = f"{chosen} over time" if chosen else "Reserved per allocator"
    return Series(
        "allocator_curve", title, some[0].device, METRICS.metric("moment_ns"), drawn.time_ns.tolist(), curves, "lines"
    )


def _latest(mine: int, owner: Int64, place: Int64, values: Int64) -> Int64:
    """Returns the latest value of allocator ``mine`` after each row of the merged table (-1 before its first value)."""
    at = np.where((owner == mine) & (values[np.where(owner == mine, place, 0)] >= 0), np.arange(len(owner)), -1)
    last = np.maximum.accumulate(at) if len(at) else at
    return np.where(last < 0, MISSING, values[np.where(last < 0, 0, place[last])])


def _title(one: Totals, key: str, chosen: str) -> Metric:
    about = METRICS[f"stated_{key}_bytes"]
    return about if chosen else Metric(f"{one.name}.{key}", one.name, "bytes", about.definition, about.window)


class ReportedTotals(msgspec.Struct, frozen=True, eq=False):
    facts: Mapping[str, Number] = msgspec.field(default_factory=dict)
    payloads: Mapping[str, Payload] = msgspec.field(default_factory=dict)
    frames: Mapping[str, Frame] = msgspec.field(default_factory=dict)


def reported_devices(trace: TraceTable) -> set[str]:
    return {one.device for one in (*totals_of(trace), *components_of(trace))}


def reported_totals(trace: TraceTable, params: Params, window: MemoryRange) -> ReportedTotals:
    """Returns the reported totals of the requested device, by default of all. Raises BadRequest."""
    totals = _totals_of_device(totals_of(trace), params.get("device"))
    components = _totals_of_device(components_of(trace), params.get("device"))
    span = _span(components, params, window)
    payloads: dict[str, Payload] = {}
    frames = {}
    if totals:
        first = [one for one in totals if one.device == totals[0].device]
        width = min(max(int_param(params, "width") or WIDTH, 50), 5000)
        payloads["allocators"] = peaks_figures(first, window)
        payloads["allocator_devices"] = devices_figures(totals_of(trace), window)
        payloads["allocator_peaks"] = chosen_figures(first, params.get("allocator"), window)
        payloads["allocator_curve"] = totals_curve(first, params.get("allocator"), window, width)
        frames["memory_allocators"] = totals_frame(window, totals)
    if components:
        payloads["component_counts"] = components_figures(components, span)
        frames["memory_components"] = components_frame(components, span, zeros=bool(params.get("zeros")))
    return ReportedTotals({**facts_of(totals, window), **component_facts(components, span)}, payloads, frames)


def reported_notices(scene: MemoryScene, device: Device) -> list[Notice]:
    trace, blocks = scene.trace, device.blocks
    if not len(trace.reported_memory.name):
        return []
    event = device.record[blocks.allocation[blocks.allocation != MISSING]]
    named = event[trace.reported_memory.name[event] != MISSING]
    without_call = int((scene.owners.operator[named] == MISSING).sum())
    notices = []
    if len(named):
        which = "{blocks} of these blocks have" if without_call < len(named) else "These blocks have"
        text = (
            "The profiler reports the operator that allocated {allocations} blocks of {device}, but not the "
            "operator that released them. All releases are outside operators."
        )
        if without_call:
            text += f" {which} no recorded call of that operator, so its callers are unknown."
        figures = [METRICS.figure("allocations", len(named)), METRICS.figure("device", device.name)]
        if 0 < without_call < len(named):
            figures.append(METRICS.figure("blocks", without_call))
        notices.append(Notice("memory_named", "info", text, "", figures))
    older = blocks.size[blocks.allocation == MISSING]
    if len(older):
        text = (
            "{blocks} blocks of {device} ({block_bytes}) were allocated before the recording and released "
            "during the recording. These blocks have negative recorded sizes and count only as releases."
        )
        figures = METRICS.figures({"blocks": len(older), "device": device.name, "block_bytes": int(older.sum())})
        notices.append(Notice("memory_older", "info", text, "", figures))
    return notices


def without_blocks(trace: TraceTable) -> Notices:
    what = " and ".join(
        word for word, of in (("allocator totals", trace.totals), ("component totals", trace.components))
        if len(of.time_ns)
    )  # fmt: skip
    text = f"Only {what} are recorded, and no blocks. The allocating operators are unknown."
    notice = Notice(rule="memory_totals_only", severity="info", text=text, todo=trace.recorder.todo("view.memory"))
    return Notices("data_quality", "About these numbers", "data", [notice])


def _totals_of_device(every: Sequence[Totals], device: str) -> list[Totals]:
    return [one for one in every if not device or device == one.device or device.startswith(f"{one.device} ")]


def _span(components: Sequence[Totals], params: Params, window: MemoryRange) -> MemoryRange:
    if not components or params.steps is not None or params.get("start_ns") or params.get("end_ns"):
        return window
    times = np.concatenate([one.time_ns for one in components])
    start, end = int(times.min()), int(times.max())
    return MemoryRange(start, end, union(np.array([start]), np.array([end + 1])), window.is_end_recorded)
