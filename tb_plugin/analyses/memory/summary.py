"""The figures of a device, the driver's share, what was live as bars, and what follows from it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from tb_plugin.analyses.base import Number
from tb_plugin.analyses.donuts import SLICES
from tb_plugin.analyses.memory.curve import Peak
from tb_plugin.analyses.memory.records import Device
from tb_plugin.analyses.memory.tables import BEFORE, Live, Scene, module_names
from tb_plugin.analyses.memory.window import Window
from tb_plugin.analyses.metrics import METRICS, figure
from tb_plugin.payloads import Breakdown, Figure, Figures, Link, Metric, Notice, Notices, Part
from tb_plugin.trace.intervals import covered_before, union
from tb_plugin.trace.schema import MISSING, NO_OPERATOR, EventKind
from tb_plugin.trace.table import TraceTable

DRIVER = re.compile(r"[a-z]+(Malloc|Free|Mem(Create|Map|Unmap|Release|Free))(Async|FromPoolAsync|Managed)?(_v\d+)?$"
                    r"|zeMem(Alloc\w+|Free)$|ur(USM\w+Alloc|USMFree)$")  # fmt: skip
"""Runtime and driver calls that get or give back memory of a device: cudaMalloc, hipFree, cuMemMap, zeMemAllocDevice."""
RELEASES = re.compile("Free|Unmap|Release")
OFTEN = 0.05


@dataclass(frozen=True)
class DriverCalls:
    """Calls of the driver for memory inside the steps."""

    malloc_calls: int
    malloc_ns: int
    free_calls: int
    free_ns: int
    steps_ns: int


def driver_calls(trace: TraceTable, window: Window) -> DriverCalls:
    """Calls that begin inside a profiler step (of those chosen)."""
    steps = union(trace.steps.host_start_ns, trace.steps.host_end_ns)
    start = trace.start_ns
    gets = trace.strings.where(lambda name: bool(DRIVER.match(name)) and not RELEASES.search(name))
    frees = trace.strings.where(lambda name: bool(DRIVER.match(name)) and bool(RELEASES.search(name)))
    rows = np.flatnonzero((trace.kind == EventKind.RUNTIME) & (gets | frees)[trace.name])
    inside = covered_before(steps, start[rows] + 1) > covered_before(steps, start[rows])
    rows = rows[inside & window.holds(start[rows])]
    got, freed = rows[gets[trace.name[rows]]], rows[frees[trace.name[rows]]]
    own = window.holds(trace.steps.host_start_ns)
    total = int((trace.steps.host_end_ns - trace.steps.host_start_ns)[own].sum())
    return DriverCalls(len(got), int(trace.dur_ns[got].sum()), len(freed), int(trace.dur_ns[freed].sum()), total)


def peak_names(scene: Scene, device: Device, peak: Peak) -> tuple[str, str]:
    """The operator that led to the peak, and its module ("" = none)."""
    if peak.from_before:
        return BEFORE if peak.at < 0 else "(before the window)", ""
    event = device.record[[peak.at]]
    name = scene.owners.names(scene.trace, event)[0]
    module = module_names(scene, scene.owners.modules(scene.trace, event))[0].as_py()
    return (NO_OPERATOR if name == MISSING else scene.trace.strings[int(name)]), module or ""


def counts_of(device: Device, window: Window) -> tuple[int, int]:
    """Allocations in the window, and bytes that they got and that were never given back."""
    inside = window.holds(device.time_ns)
    blocks = device.blocks
    kept = (blocks.allocation != MISSING) & (blocks.release == MISSING)
    kept[kept] = inside[blocks.allocation[kept]]
    return int((inside & (device.bytes > 0)).sum()), int(blocks.bytes[kept].sum())


def facts_of(device: Device, window: Window, peak: Peak) -> Mapping[str, Number]:
    """The device's lines of the report."""
    allocations, unreleased = counts_of(device, window)
    reserved = device.reserved[window.holds(device.time_ns) & (device.reserved != MISSING)]
    facts: dict[str, Number] = {
        "peak_allocated_bytes": peak.allocated if device.has_totals else None,
        "peak_reserved_bytes": int(reserved.max()) if len(reserved) else None,
        "peak_time_ns": peak.time_ns if device.has_totals else None,
        "allocations": allocations,
        "unreleased_bytes": unreleased if device.has_addresses else None,
    }
    return {f"memory.{device.name}.{key}": value for key, value in facts.items()}


def summary_of(scene: Scene, device: Device, peak: Peak) -> Figures:
    """The headline of a device."""
    facts = {key.rpartition(".")[2]: value for key, value in facts_of(device, scene.window, peak).items()}
    name, module = peak_names(scene, device, peak)
    inside = np.flatnonzero(scene.window.holds(device.time_ns))
    entering = device.at(scene.window.start_ns - 1)
    figures = [
        figure("peak_allocated_bytes", facts["peak_allocated_bytes"], note=f"by {name}" if device.has_totals else ""),
        figure("peak_time_ns", facts["peak_time_ns"]),
    ]
    if (device.reserved > 0).any():
        highest = inside[np.argmax(device.reserved[inside])] if len(inside) else entering
        when = int(device.time_ns[highest]) if len(inside) else None
        share = 1 - peak.allocated / peak.reserved if peak.reserved and device.has_totals else None
        figures += [
            figure("peak_reserved_bytes", facts["peak_reserved_bytes"]),
            figure("peak_reserved_time_ns", when),
            figure("fragmentation", share),
        ]
    figures += [
        figure("allocations", facts["allocations"]),
        figure("unreleased_bytes", facts["unreleased_bytes"]),
        figure("live_before_bytes", device.level(entering) if device.has_totals else None),
    ]
    return Figures("summary", device.name, module, figures, "headline")


def live_bars(scene: Scene, device: Device, live: Live, when: str) -> dict[str, Breakdown]:
    """What was live by operator and, when modules were recorded, by module; each sums to the total."""
    bars = {"live_operators": _bar("live_operators", f"Live {when} by operator", "name", device, live)}
    if (scene.owners.module != MISSING).any():
        bars["live_modules"] = _bar("live_modules", f"Live {when} by module", "module", device, live)
    return bars


def _bar(name: str, title: str, key: str, device: Device, live: Live) -> Breakdown:
    sums = live.table.group_by(key).aggregate([("live_bytes", "sum")])
    sums = sums.sort_by([("live_bytes_sum", "descending"), (key, "ascending")])
    rows = [(row[key], row["live_bytes_sum"]) for row in sums.to_pylist()]
    definition = METRICS["live_bytes"]
    before = sum(v for v in live.table.filter(pc.equal(live.table["name"], BEFORE))["live_bytes"].to_pylist())
    parts, left = [], live.total - before
    named = [(text, value) for text, value in rows if text not in (None, BEFORE) and value > 0]
    for i, (text, value) in enumerate(named[:SLICES]):
        link = Link("memory", {"group": "memory_peak", "where": f"{key}:{text}"}, text)
        parts.append(Part(Metric(text, text, "bytes", definition.definition), f"slice{i}", value, link))
        left -= value
    if left:
        text = f"{len(named) - SLICES} others" if len(named) > SLICES else "no module"
        parts.append(Part(Metric("rest", text, "bytes", "All others."), "rest", left))
    if before:
        about = METRICS["live_before_bytes"].definition
        parts.append(Part(Metric("before", "before the trace", "bytes", about), "idle", before))
    return Breakdown(name, title, device.name, "bytes", live.total, parts, "bar")


def devices_figures(devices: list[Device], peaks: list[Peak]) -> Figures:
    """Which devices there are, each with its peak: what a picker offers."""
    about = METRICS["peak_allocated_bytes"]
    figures = [
        Figure(Metric(f"device.{d.name}", d.name, "bytes", about.definition, about.window),
               p.allocated if d.has_totals else None)
        for d, p in zip(devices, peaks, strict=True)
    ]  # fmt: skip
    return Figures("devices", "Devices", "", figures)


def driver_figures(calls: DriverCalls) -> Figures:
    """How often the allocator asked the driver."""
    keys = ("malloc_calls", "malloc_ns", "free_calls", "free_ns")
    return Figures("driver_calls", "Driver calls inside steps", "", [figure(k, getattr(calls, k)) for k in keys])


def advice_of(device: Device, calls: DriverCalls) -> Notices:
    """What to do about it, and what the trace leaves out."""
    notices = []
    if calls.malloc_calls and not device.is_host:
        share = (calls.malloc_ns + calls.free_ns) / calls.steps_ns if calls.steps_ns else 0.0
        notices.append(
            Notice(
                rule="driver_memory_calls",
                severity="medium" if share > OFTEN else "low",
                text="Inside steps the allocator asked the driver for memory {malloc_calls} times ({malloc_ns}) and "
                "gave some back {free_calls} times ({free_ns}): {driver_memory_ratio} of the steps.",
                todo="The reserved curve should be flat. Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, keep "
                "shapes constant, or warm up with the largest input.",
                figures=[
                    *(figure(k, getattr(calls, k)) for k in ("malloc_calls", "malloc_ns", "free_calls", "free_ns")),
                    figure("driver_memory_ratio", share),
                ],
                measure="driver_memory_ratio",
                threshold=OFTEN,
            )
        )
    if not (device.has_totals and device.has_addresses):
        missing = [text for text, there in (("totals", device.has_totals), ("addresses", device.has_addresses))
                   if not there]  # fmt: skip
        notices.append(
            Notice(
                rule="memory_incomplete",
                severity="info",
                text=f"The memory events of {device.name} hold no {' and no '.join(missing)}: the curve shows the "
                "change since the first event, and allocations cannot be matched with releases.",
                todo="PyTorch 1.10 and newer record both.",
            )
        )
    return Notices("advice", "Notes", "training", notices)
