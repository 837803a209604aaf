"""Device time per step, computed from kernels or reported by the profiler."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame, Number
from tb_plugin.analysis.busy_intervals import covered_work
from tb_plugin.analysis.device_facts import facts_of
from tb_plugin.analysis.metrics import SHARED, STEP, define
from tb_plugin.analysis.reported_steps import missing_computation, reported_steps
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.intervals import Ranges, intersect, join, measure_within, subtract, union
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.lib.tables import sorted_by
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import Steps, TraceTable
from tb_plugin.payloads import Breakdown, Column, Slice

Times = Mapping[str, Int64]

MEAN = "mean per step"
# Maximum number of devices with reported steps.
MOST_DEVICES = 64
METRICS = SHARED.adding(
    define(
        STEP,
        "ns",
        {
            "step_preparing_ns": ("Preparing", "Time from step start to the first kernel."),
            "step_free_ns": ("Idle", "Time without kernels between the first and last kernel."),
            "step_finishing_ns": ("Finishing", "Time from last kernel end to step end."),
            "step_exposed_rest_ns": ("Exposed, not receiving", "Exposed communication minus bubble."),
            "step_receiving_ns": ("Bubble", "Exposed communication time in receive calls."),
        },
    ),
    define(
        "the step, as reported by the profile",
        "ns",
        {
            "stated_computing_ns": ("Compute", "Reported time of compute kernels."),
            "stated_exposed_ns": ("Exposed communication", "Reported communication not overlapped by compute."),
            "stated_overlapped_ns": ("Overlap", "Reported communication overlapped by compute."),
            "stated_communication_ns": ("Communication", "Reported communication time."),
            "stated_free_ns": ("Free", "Reported time without compute or communication."),
            "stated_stage_ns": ("Stage", "Reported time from first to last work, minus bubble."),
            "stated_bubble_ns": ("Bubble", "Reported time in receive calls."),
            "stated_exposed_without_receive_ns": (
                "Exposed, not receiving",
                "Reported exposed communication minus bubble.",
            ),
            "stated_preparing_ns": ("Preparing", "Reported time from host step start to first device work."),
            "stated_difference_ns": (
                "Inconsistency",
                "Compute plus exposed communication plus free, minus stage and bubble.",
            ),
        },
    ),
)
# Parts of a step on a device, with their colors.
PARTS = (
    ("step_preparing_ns", "wait"),
    ("compute_alone_ns", "compute"),
    ("overlap_ns", "overlap"),
    ("exposed_communication_ns", "communication"),
    ("step_free_ns", "idle"),
    ("step_finishing_ns", "rest"),
)
# Parts of exposed communication if the profiler reports receive time.
_EXPOSED_PARTS = (("step_exposed_rest_ns", "communication"), ("step_receiving_ns", "transfer_in"))
_STATED_PARTS = (
    ("compute_alone_ns", "compute"),
    ("overlap_ns", "overlap"),
    ("exposed_communication_ns", "communication"),
    ("step_free_ns", "idle"),
)
_COLUMNS = ("step_total_ns", "compute_ns", *(key for key, _ in PARTS), "step_receiving_ns")


def device_steps(trace: TraceTable, device: int, steps: Steps) -> Times | None:
    """Returns the times of a device in each step, which add up exactly; None without kernels or steps."""
    kernels = _kernels(trace, device)
    if kernels is None or not len(steps.label):
        return None
    start, end = steps.start_ns, steps.end_ns
    first, last = _bounds(join(kernels.compute, kernels.communication), start, end)
    both = intersect(kernels.compute, kernels.communication)
    alone = subtract(kernels.communication, kernels.compute)
    compute, overlap, exposed = (measure_within(each, start, end) for each in (kernels.compute, both, alone))
    return {
        "step_total_ns": end - start,
        "compute_ns": compute,
        "step_preparing_ns": first - start,
        "compute_alone_ns": compute - overlap,
        "overlap_ns": overlap,
        "exposed_communication_ns": exposed,
        "step_free_ns": last - first - compute - exposed,
        "step_finishing_ns": end - last,
        "step_receiving_ns": measure_within(intersect(kernels.receiving, alone), start, end),
    }


class _Kernels(msgspec.Struct, frozen=True, eq=False):
    compute: Ranges
    communication: Ranges
    receiving: Ranges


@cached_by_argument
def _kernels(trace: TraceTable, device: int) -> _Kernels | None:
    rows = covered_work(trace)
    rows = rows[(trace.device[rows] == device) & (trace.kind[rows] == EventKind.KERNEL)]
    if not len(rows):
        return None
    facts = facts_of(trace)
    pattern = re.compile(facts.receiving) if facts and facts.receiving else None
    receives = trace.strings.where(lambda text: bool(pattern and pattern.search(text)))[trace.name[rows]]
    talks = trace.is_collective[rows]

    def when(chosen: npt.NDArray[np.bool_]) -> Ranges:
        return union(trace.start_ns[rows[chosen]], trace.ends(rows[chosen]))

    return _Kernels(when(~talks), when(talks), when(talks & receives))


def _bounds(busy: Ranges, start: Int64, end: Int64) -> tuple[Int64, Int64]:
    after = np.searchsorted(busy.end, start, side="right")
    before = np.searchsorted(busy.start, end, side="left") - 1
    none = after > before
    first = np.append(busy.start, 0)[after]
    last = np.append(busy.end, 0)[before]
    return np.where(none, end, np.maximum(first, start)), np.where(none, end, np.minimum(last, end))


def _bar(device: str, title: str, subtitle: str, total: float, values: Sequence[tuple[str, str, float]]) -> Breakdown:
    parts = [Slice(METRICS.metric(key, window=MEAN), category, value) for key, category, value in values]
    return Breakdown(f"device_steps_{device}", title, f"device {device}{subtitle}", "ns", total, parts, "bar")


def _steps_bar(device: str, times: Times, title: str) -> Breakdown:
    means = {key: float(values.mean()) for key, values in times.items()}
    means["step_exposed_rest_ns"] = means["exposed_communication_ns"] - means["step_receiving_ns"]
    shown = list(PARTS)
    if means["step_receiving_ns"]:
        at = [key for key, _ in PARTS].index("exposed_communication_ns")
        shown[at : at + 1] = _EXPOSED_PARTS
    values = [(key, category, means[key]) for key, category in shown]
    subtitle = ", its kernels on all streams; the parts sum exactly"
    return _bar(device, title, subtitle, means["step_total_ns"], values)


def _reported_bar(device: str, mean: Mapping[str, float]) -> Breakdown | None:
    if not {"computing_ns", "exposed_ns", "free_ns"} <= mean.keys():
        return None
    both = min(mean.get("overlapped_ns", 0.0), mean["computing_ns"])
    times = (mean["computing_ns"] - both, both, mean["exposed_ns"], mean["free_ns"])
    values = [(key, category, time) for (key, category), time in zip(_STATED_PARTS, times, strict=True)]
    title = "Device time per step, reported by the profiler"
    return _bar(device, title, "; some kernels are not recorded", sum(times), values)


def reported_means(trace: TraceTable, table: pa.Table) -> dict[str, dict[str, float]]:
    """Returns the means of reported values over steps by device id. Rows without a device belong to device 0."""
    keys = _times_in(table)
    default_device = trace.devices[0].id if len(trace.devices) == 1 else "0"
    rows = sorted_by(
        table.group_by("device").aggregate([(key, "mean") for key in keys]), [("device", "ascending")]
    ).slice(0, MOST_DEVICES)
    return {
        default_device if row["device"] is None else str(row["device"]): {
            key: row[f"{key}_mean"] for key in keys if row[f"{key}_mean"] is not None
        }
        for row in rows.to_pylist()
    }


def _times_in(table: pa.Table) -> list[str]:
    return [name for name in table.column_names if name.endswith("_ns")]


def steps_frame(found: Mapping[str, Times], labels: Sequence[str]) -> Frame:
    data = {
        "device": pa.array([device for device in found for _ in labels], pa.string()),
        "step": pa.array([*labels] * len(found), pa.string()),
        **{key: pa.array(np.concatenate([times[key] for times in found.values()])) for key in _COLUMNS},
    }
    # Without overlapped time: the bar contains it.
    columns = [Column(METRICS.metric(key, window=STEP), hidden=key == "compute_alone_ns") for key in data]
    return Frame("steps_of_devices", "Steps on the device", columns, pa.table(data), ("device", "step"), "step")


def reported_frame(table: pa.Table) -> Frame:
    data = {
        "device": pc.cast(table["device"], pa.string()),
        "step": table["step"],
        **{f"stated_{name}": table[name] for name in _times_in(table)},
    }
    stated = pc.add(pc.add(table["computing_ns"], table["exposed_ns"]), table["free_ns"])
    data["stated_difference_ns"] = pc.subtract(stated, pc.add(table["stage_ns"], table["bubble_ns"]))
    shown = pa.table(data)
    columns = [Column(METRICS.metric(key)) for key in data]
    return Frame("stated_steps", "Steps reported by the profiler", columns, shown, ("device", "step"), "step")


class OfDevices(msgspec.Struct, frozen=True):
    bars: Mapping[str, Breakdown]
    frames: Mapping[str, Frame]
    facts: dict[str, Number]


def steps_of_devices(trace: TraceTable, steps: Steps, chosen: Sequence[str] | None) -> OfDevices:
    """Returns the device times in steps: from kernels if recorded, otherwise as reported by the profiler."""
    reported = reported_steps(trace, chosen)
    found: dict[str, Times] = {}
    if missing_computation(trace) is None:
        for i, device in enumerate(trace.devices):
            if (len(reported) or device.facts is not None) and (each := device_steps(trace, i, steps)) is not None:
                found[device.id] = each
    title = "Device time per step" if steps.recorded else "Device time of the recording"
    if steps.recorded and len(steps.label) > 1:
        title += f", mean of {len(steps.label)} steps"
    means = reported_means(trace, reported) if len(reported) else {}
    bars = {device: _steps_bar(device, times, title) for device, times in found.items()}
    rest = {device: mean for device, mean in means.items() if device not in bars}
    bars |= {device: bar for device, mean in rest.items() if (bar := _reported_bar(device, mean)) is not None}
    if not bars and not len(reported):
        return OfDevices({}, {}, {})
    frames = [*([steps_frame(found, steps.label)] if found else []), reported_frame(reported)]
    facts: dict[str, Number] = {
        f"device.{device}.step.{key.removeprefix('step_').removesuffix('_ns')}_mean_ns": float(times[key].mean())
        for device, times in found.items()
        for key in _COLUMNS
    }
    facts |= {
        f"device.{device}.stated.{key.removesuffix('_ns')}_mean_ns": mean
        for device, values in means.items()
        for key, mean in values.items()
    }
    return OfDevices(bars, {frame.name: frame for frame in frames}, facts)
