"""Key numbers, bars and notices of a device."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Number
from tb_plugin.analysis.donuts import SLICES
from tb_plugin.analysis.driver_calls import DriverCalls
from tb_plugin.analysis.memory.metrics import METRICS
from tb_plugin.analysis.memory.reserved import room_of
from tb_plugin.analysis.memory.tables import BEFORE, LOST, MemoryScene, module_names
from tb_plugin.analysis.memory.trace_devices import Device
from tb_plugin.analysis.memory.window import MemoryRange, Peak, reserved_peak_of
from tb_plugin.analysis.phrases import plural
from tb_plugin.lib.tables import sum_by_text
from tb_plugin.model.snapshot.table import NEVER
from tb_plugin.model.trace.schema import MISSING, NO_OPERATOR
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Breakdown, Figure, Figures, Link, Metric, Notice, Notices, Slice
from tb_plugin.views.memory.live_blocks import Live

# Labels for memory without a known owner, by column.
_NO_OWNER = {
    "module": "no module", "allocation_frame": "no Python line", "allocation_phase": "no phase"
}  # fmt: skip


def peak_names(scene: MemoryScene, device: Device, peak: Peak) -> tuple[str, str]:
    """Returns the operators of the allocation that led to the peak, and its module ("" = none)."""
    if peak.from_before:
        return BEFORE if peak.at < 0 else "(before the window)", ""
    event = device.record[[peak.at]]
    name = scene.owners.names(scene.trace, event)[0]
    module = module_names(scene.trace, scene.owners.modules(scene.trace, event))[0].as_py()
    if name == MISSING:
        return NO_OPERATOR, module or ""
    inner, outer = (scene.trace.strings[int(each)] for each in (name, scene.owners.outermost(scene.trace, event)[0]))
    return (inner if outer == inner else f"{inner} in {outer}"), module or ""


def counts_of(device: Device, window: MemoryRange) -> tuple[int, int]:
    inside = window.holds(device.time_ns)
    blocks = device.blocks
    kept = (blocks.allocation != MISSING) & (blocks.freed == NEVER) & blocks.is_certain
    kept[kept] = inside[blocks.allocation[kept]]
    return int((inside & (device.bytes > 0)).sum()), int(blocks.size[kept].sum())


def facts_of(device: Device, window: MemoryRange, peak: Peak) -> Mapping[str, Number]:
    allocations, unreleased = counts_of(device, window)
    reserved = reserved_peak_of(device, window)
    facts: dict[str, Number] = {
        "peak_allocated_bytes": peak.value if device.has_totals else None,
        "peak_reserved_bytes": reserved.value if reserved else None,
        "peak_time_ns": peak.time_ns if device.has_totals else None,
        "allocations": allocations,
        "unreleased_bytes": unreleased if device.has_addresses and window.is_end_recorded else None,
    }
    return {f"memory.{device.name}.{key}": value for key, value in facts.items()}


def lacks_events(device: Device) -> bool:
    """Returns whether the trace contains memory levels of the device but no allocations."""
    return device.has_totals and not device.bytes.any()


def summary_of(scene: MemoryScene, device: Device, peak: Peak) -> Figures:
    facts = {key.rpartition(".")[2]: value for key, value in facts_of(device, scene.window, peak).items()}
    if lacks_events(device):
        whose = "machine" if device.is_host else "device"
        figures = [
            METRICS.figure("in_use_bytes", facts["peak_allocated_bytes"], note="by all programs"),
            METRICS.figure("peak_time_ns", facts["peak_time_ns"]),
        ]
        return Figures("summary", device.name, f"whole {whose}, all programs", figures, "headline")
    name, module = peak_names(scene, device, peak)
    entering = int(device.each_at(scene.window.begins[:1] - 1)[0])
    figures = [
        METRICS.figure(
            "peak_allocated_bytes", facts["peak_allocated_bytes"], note=f"by {name}" if device.has_totals else ""
        ),
    ]
    times = [METRICS.figure("peak_time_ns", facts["peak_time_ns"])]
    reserved = reserved_peak_of(device, scene.window)
    if reserved and (device.reserved > 0).any():
        there = int(device.reserved[peak.at]) if peak.at >= 0 else MISSING
        share = 1 - peak.value / there if there > 0 and device.has_totals else None
        figures += [
            METRICS.figure("peak_reserved_bytes", reserved.value),
            METRICS.figure("fragmentation", share),
        ]
        times.append(METRICS.figure("peak_reserved_time_ns", reserved.time_ns))
    room = room_of(scene.trace, device, scene.window)
    figures += [
        *([METRICS.figure("room_bytes", room[1])] if room else []),
        METRICS.figure("live_before_bytes", device.level(entering) if device.has_totals else None),
        METRICS.figure("unreleased_bytes", facts["unreleased_bytes"]),
        METRICS.figure("allocations", facts["allocations"]),
        *times,
    ]
    return Figures("summary", device.name, module, figures, "headline")


def answer_of(device: Device, peak: Peak, moment: int | None, bars: Mapping[str, Breakdown]) -> Notice | None:
    """Returns what the peak consists of, or the memory at the selected time. None without recorded blocks."""
    if not device.has_totals:
        figures = METRICS.figures({"change_bytes": peak.value, "peak_time_ns": peak.time_ns})
        text = (
            f"Memory of {device.name} rises by up to {{change_bytes}} (at {{peak_time_ns}}). Totals are not recorded."
        )
        return Notice("memory_answer", "info", text, "", figures)
    bar = bars.get("live_categories") or bars.get("live_outermost")
    if bar is None or not bar.total:
        return None
    if moment is None:
        text = f"The memory peak of {device.name} is {{peak_allocated_bytes}}, at {{peak_time_ns}}"
        figures = METRICS.figures({"peak_allocated_bytes": bar.total, "peak_time_ns": peak.time_ns})
    else:
        text = f"At {{moment_ns}}, {{allocated_bytes}} of {device.name} are allocated"
        figures = METRICS.figures({"moment_ns": moment, "allocated_bytes": bar.total})
    phrases = []
    for part, key in zip(sorted(bar.parts, key=lambda each: -each.value)[:2], ("part", "next_part"), strict=False):
        if part.value * 10 >= bar.total:
            phrases.append(f"{{{key}}} {{{key}_bytes}} ({{{key}_ratio}})")
            name = part.metric.title.lower() if bar.name == "live_categories" else part.metric.title
            name = f"memory from {name}" if part.metric.key == "outside" else name
            values = {key: name, f"{key}_bytes": part.value, f"{key}_ratio": part.value / bar.total}
            figures += METRICS.figures(values)
    text += f". Largest {plural(len(phrases), 'part')}: {' and '.join(phrases)}." if phrases else "."
    return Notice("memory_answer", "info", text, "", figures)


def live_bars(scene: MemoryScene, device: Device, live: Live, when: str) -> dict[str, Breakdown]:
    """Returns bars of live memory by operator, and if known by module, Python line and phase."""
    outermost = _bar("live_outermost", f"Live {when} by top-level operator", "outermost_operator", device, live)
    bars = {
        "live_operators": _bar("live_operators", f"Live {when} by operator", "name", device, live),
        "live_outermost": outermost,
    }
    known = {
        "module": ("live_modules", (scene.owners.module != MISSING).any()),
        "allocation_frame": ("live_frames", scene.origins.frame.is_recorded),
        "allocation_phase": ("live_phases", scene.origins.phase.is_recorded),
    }
    for key, (name, there) in known.items():
        if there:
            bars[name] = _bar(name, f"Live {when} by {_NO_OWNER[key].removeprefix('no ')}", key, device, live)
    return bars


def _bar(name: str, title: str, key: str, device: Device, live: Live) -> Breakdown:
    sums = sum_by_text(live.table, key, "live_bytes")
    rows = sorted(sums.items(), key=lambda item: (-item[1], item[0] or ""))
    definition = METRICS["live_bytes"]
    nobody = live.table.filter(pc.is_in(live.table["name"], pa.array([BEFORE, LOST], pa.large_string()))).to_pylist()
    outside = sum(row["live_bytes"] for row in nobody)
    parts, left = [], live.total - outside
    named = [(text, value) for text, value in rows if text not in (None, BEFORE, LOST)]
    for i, (text, value) in enumerate(named[:SLICES]):
        link = Link("memory", {"group": "memory_peak", "where": f"{key}:{text}"}, text)
        parts.append(Slice(Metric(text, text, "bytes", definition.definition), f"slice{i}", value, link))
        left -= value
    if left:
        none = _NO_OWNER.get(key, NO_OPERATOR.strip("()"))
        text = f"{len(named) - SLICES} others" if len(named) > SLICES else none
        parts.append(Slice(Metric("rest", text, "bytes", "All other rows."), "rest", left))
    if outside:
        about = METRICS["live_before_bytes"].definition if outside > 0 else "Recorded total minus the rows above."
        text = nobody[0]["name"].strip("()")
        parts.append(Slice(Metric("outside", text, "bytes", about), "idle", outside))
    return Breakdown(name, title, device.name, "bytes", live.total, parts, "bar")


def states_bar(device: Device, blocks: pa.Table) -> Breakdown:
    states = blocks["block_state"].filter(pc.equal(blocks["device"], device.name))
    counts = [(row["values"], row["counts"]) for row in pc.value_counts(states.combine_chunks()).to_pylist()]
    about = METRICS["block_state"].definition
    parts = [
        Slice(
            Metric(state, state, "count", about),
            f"slice{i}",
            count,
            Link("memory", {"group": "memory_events", "where": f"block_state:{state}"}, state),
        )
        for i, (state, count) in enumerate(sorted(counts, key=lambda pair: (-pair[1], pair[0])))
    ]
    return Breakdown("block_states", "Blocks by state", device.name, "count", len(states), parts, "bar")


def devices_figures(devices: list[Device], peaks: list[Peak]) -> Figures:
    about = METRICS["peak_allocated_bytes"]
    figures = [
        Figure(Metric(f"device.{d.name}", d.name, "bytes", about.definition, about.window),
               p.value if d.has_totals else None)
        for d, p in zip(devices, peaks, strict=True)
    ]  # fmt: skip
    return Figures("devices", "Devices", "", figures)


def driver_figures(calls: DriverCalls) -> Figures:
    keys = ["malloc_calls", "malloc_ns", "free_calls", "free_ns"]
    if calls.setup_calls:
        keys += ["setup_calls", "setup_ns"]
    where = "inside steps" if calls.recorded else "while recording"
    return Figures("driver_calls", f"Driver calls {where}", "", [METRICS.figure(k, getattr(calls, k)) for k in keys])


def data_notices(trace: TraceTable, device: Device, window: MemoryRange) -> Notices:
    notices = []
    start = trace.steps.host_start_ns
    skipped_steps = int(((start >= window.start_ns) & (start < window.end_ns) & ~window.holds(start)).sum())
    if skipped_steps and trace.steps.recorded:
        text = "Visible steps that are not selected: {affected}. The curve and all numbers exclude these steps."
        figures = [METRICS.figure("affected", skipped_steps, "Steps")]
        notices.append(Notice("steps_apart", "info", text, "", figures))
    lost = {
        "totals": "the curve shows the change since the first event",
        "addresses": "allocations cannot be matched with releases",
    }
    missing = [key for key, known in zip(lost, (device.has_totals, device.has_addresses), strict=True) if not known]
    if lacks_events(device):
        whose = "the machine" if device.is_host else "the device"
        text = f"For {device.name} the trace contains no allocations, only levels: memory in use on {whose} by all programs."
        notices.append(Notice("memory_levels_only", "info", text, trace.recorder.todo("memory_levels_only")))
    elif missing:
        text = f"The memory events of {device.name} contain no {' and no '.join(missing)}: "
        text += f"{', and '.join(lost[key] for key in missing)}."
        notices.append(Notice("memory_incomplete", "info", text, trace.recorder.todo("memory_incomplete")))
    return Notices("data_quality", "About these numbers", "data", notices)
