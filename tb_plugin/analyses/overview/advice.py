"""Recommendations: rules over the figures of a training. Each says its threshold and leads to its evidence."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.communication import BACKEND, COMMUNICATION_SHARE, SEND_LESS
from tb_plugin.analyses.driver_calls import DriverCalls, driver_notice
from tb_plugin.analyses.grouping import Forest, sum_by
from tb_plugin.analyses.matrix_unit import matrix_time, matrix_units
from tb_plugin.analyses.names import DATA_PARALLEL, DISTRIBUTED_DATA_PARALLEL
from tb_plugin.analyses.overview.device_time import DeviceRatios
from tb_plugin.analyses.overview.metrics import METRICS
from tb_plugin.analyses.overview.steps import StepShares
from tb_plugin.analyses.severity import severity_of
from tb_plugin.analyses.wording import references_of
from tb_plugin.payloads import Figure, Link, Notice
from tb_plugin.trace.memo import remembered
from tb_plugin.trace.numbering import places_of
from tb_plugin.trace.schema import MISSING, EventKind, MatrixUse
from tb_plugin.trace.table import TraceTable

Int64 = npt.NDArray[np.int64]

DATALOADER_SHARE = 0.05
LOW_UTILIZATION = 0.5
BUSY = 0.9
"""From here on a device that no rule complains of is well used."""
MEMORY_SHARE = 0.9
MATRIX_SHARE = 0.1
"""Below this share of the kernel time even kernels that took no time at all would hardly change a step."""


@dataclass(frozen=True, eq=False)
class Situation:
    """What the rules look at."""

    trace: TraceTable
    breakdown: StepShares
    ratios: dict[str, DeviceRatios]
    """By device id, devices with kernels only."""
    driver: DriverCalls
    """Inside the chosen steps."""
    kernels: Int64
    """Rows of the kernels of the chosen steps."""


def recommendations(situation: Situation) -> list[Notice]:
    """Returns the notices of all rules that apply, in the order of the rules."""
    rules = (
        _data_loading,
        _data_parallel,
        _distributed_backend,
        _communication,
        _low_utilization,
        _matrix_units,
        _memory_limit,
        _driver_calls,
    )
    found = [notice for rule in rules if (notice := rule(situation)) is not None]
    return found or [notice for notice in (_idle_device(situation),) if notice is not None]


def _share(breakdown: StepShares, category: str) -> tuple[float, float, float]:
    """Mean of a category, mean of the step, and their ratio (0 for empty steps)."""
    part = breakdown.mean(category) or 0.0
    total = float(breakdown.total.mean()) if len(breakdown.total) else 0.0
    return part, total, part / total if total else 0.0


def _data_loading(s: Situation) -> Notice | None:
    part, total, share = _share(s.breakdown, "dataloader")
    if share <= DATALOADER_SHARE:
        return None
    return Notice(
        rule="data_loading",
        severity=severity_of(share),
        text="Waiting for input takes {dataloader_mean_ns} of each {step_time_mean_ns} step.",
        todo=s.trace.recorder.todo("data_loading"),
        figures=[
            METRICS.figure("waiting_for_input", share),
            METRICS.figure("dataloader_mean_ns", part),
            METRICS.figure("step_time_mean_ns", total),
        ],
        measure="waiting_for_input",
        threshold=DATALOADER_SHARE,
        evidence=Link("timeline", {}, "Show in timeline"),
        references=references_of(s.trace.recorder, "data_loading"),
    )


def _data_parallel(s: Situation) -> Notice | None:
    devices = np.unique(s.trace.device[s.trace.device != MISSING])
    if len(devices) < 2 or s.trace.strings.find(DATA_PARALLEL) == MISSING:
        return None
    return Notice(
        rule="data_parallel",
        severity="medium",
        text="One process drives {affected} devices with copies of the model.",
        todo=s.trace.recorder.todo("data_parallel"),
        figures=[METRICS.figure("affected", len(devices), "Devices")],
        references=references_of(s.trace.recorder, "data_parallel"),
    )


def _distributed_backend(s: Situation) -> Notice | None:
    """Fires only where another backend was seen at work (the old plugin also fired when no collective was seen)."""
    capable = [device for device in s.trace.devices if device.collective_backend]
    if s.trace.strings.find(DISTRIBUTED_DATA_PARALLEL) == MISSING or not capable:
        return None
    best = {device.collective_backend for device in capable}
    on_device = bool((s.trace.is_collective & (s.trace.kind == EventKind.KERNEL)).any())
    seen = _backends_at_work(s.trace)
    if not seen or on_device or best & (seen | set(_recorded_backends(s.trace))):
        return None
    return Notice(
        rule="distributed_backend",
        severity="medium",
        text="Processes communicate through {others} on {affected} devices for which {backend} is made.",
        todo=s.trace.recorder.todo("distributed_backend"),
        figures=[
            METRICS.figure("affected", len(capable), "Devices"),
            METRICS.figure("backend", ", ".join(sorted(best))),
            METRICS.figure("others", ", ".join(sorted(seen))),
        ],
        references=references_of(s.trace.recorder, "distributed_backend"),
    )


def _backends_at_work(trace: TraceTable) -> set[str]:
    """Backends of process groups that are seen in names of collectives on the host."""
    names = np.unique(trace.name[trace.is_collective & (trace.kind != EventKind.KERNEL)]).tolist()
    found = [BACKEND.match(trace.strings[name]) for name in names]
    return {match.group(1).lower() for match in found if match}


def _recorded_backends(trace: TraceTable) -> list[str]:
    """Backends that the file states: one, or several by device as in ``cpu:gloo,cuda:nccl``."""
    info = trace.metadata.get("distributedInfo")
    stated = str(info.get("backend", "")) if isinstance(info, dict) else ""
    return re.split(r"[:,]", stated.lower())


def _communication(s: Situation) -> Notice | None:
    part, total, share = _share(s.breakdown, "communication")
    if share <= COMMUNICATION_SHARE:
        return None
    return Notice(
        rule="communication",
        severity=severity_of(share),
        text="Communication that nothing hides takes {communication_ns} of each {step_time_mean_ns} step. This trace alone "
        "does not tell how much of it is waiting for others.",
        todo="See in Distributed, with the traces of all ranks, whether this one waits or moves data. If it waits, look at "
        f"the rank that arrives last: sending less would not help. If data moves: {SEND_LESS}",
        figures=[
            METRICS.figure("communication_exposed", share),
            METRICS.figure("communication_ns", part),
            METRICS.figure("step_time_mean_ns", total),
        ],
        measure="communication_exposed",
        threshold=COMMUNICATION_SHARE,
        evidence=Link("distributed", {}, "Show waiting and transfer"),
        references=references_of(s.trace.recorder, "communication"),
    )


def _low_utilization(s: Situation) -> Notice | None:
    low = {
        d: r.utilization for d, r in s.ratios.items() if r.utilization is not None and r.utilization < LOW_UTILIZATION
    }
    if not low:
        return None
    worst, window = min(low, key=lambda device: low[device] or 0.0), _window(s)
    return Notice(
        rule="low_utilization",
        severity="medium",
        text=f"{{affected}} of the devices run kernels less than half of {window}; device {{device}} only {{utilization}}."
        if len(low) > 1
        else f"Device {{device}} runs kernels only {{utilization}} of {window}.",
        todo=s.trace.recorder.todo("low_utilization"),
        figures=[
            METRICS.figure("utilization", low[worst]),
            METRICS.figure("device", worst),
            METRICS.figure("affected", len(low), "Devices"),
        ],
        measure="utilization",
        threshold=LOW_UTILIZATION,
        evidence=Link("timeline", {}, "Show in timeline"),
        references=references_of(s.trace.recorder, "low_utilization"),
    )


def _window(s: Situation) -> str:
    return "the steps" if s.trace.steps.recorded else "the recording"


def _idle_device(s: Situation) -> Notice | None:
    """Where no rule knows a cause, yet a device idles: silence would read as praise."""
    known = {d: r.utilization for d, r in s.ratios.items() if r.utilization is not None and r.utilization < BUSY}
    if not known:
        return None
    worst = min(known, key=lambda device: known[device])
    return Notice(
        rule="idle_device",
        severity="low",
        text=f"No rule found a cause, yet device {{device}} runs kernels only {{utilization}} of {_window(s)}.",
        todo="Look at the gaps of its streams on the timeline: they say what the host did meanwhile.",
        figures=[METRICS.figure("utilization", known[worst]), METRICS.figure("device", worst)],
        measure="utilization",
        threshold=BUSY,
        evidence=Link("timeline", {}, "Show in timeline"),
    )


def _matrix_units(s: Situation) -> Notice | None:
    units, time = matrix_units(s.trace, s.kernels), matrix_time(s.trace, s.kernels)
    eligible = matrix_eligible(s.trace)
    if not units or time.used_ns or eligible.unused_ratio < MATRIX_SHARE:
        return None
    figures = [
        METRICS.figure("matrix_eligible_ratio", eligible.ratio, f"Eligible for {units}"),
        METRICS.figure("matrix_used_ratio", time.used_ratio, f"On {units}"),
    ]
    if time.unknown_ns:
        figures.append(METRICS.figure("matrix_unknown_ratio", time.unknown_ratio, f"Unknown use of {units}"))
    return Notice(
        rule="matrix_units",
        severity=severity_of(eligible.ratio),
        text=f"{{matrix_eligible_ratio}} of the kernel time comes from operators that could use {units}, and no kernel "
        "is known to.",
        todo=_lower_precision(s),
        figures=figures,
        measure="matrix_eligible_ratio",
        threshold=MATRIX_SHARE,
        evidence=Link("operators", {"sort": "device_self_ns"}, "Show operators"),
        references=references_of(s.trace.recorder, "matrix_units"),
    )


def _lower_precision(s: Situation) -> str:
    """What to do so that matrix units are used: formats that all devices that ran kernels have."""
    used = [set(s.trace.devices[int(i)].precisions) for i in np.unique(s.trace.device[s.kernels]) if i != MISSING]
    has = set.intersection(*used) if used else set()
    half = next((f".{name}" for name in ("bf16", "fp16") if name in has), "")
    cases = [f"matrix_units{half}", *(["matrix_units.tf32"] if "tf32" in has else [])]
    return " ".join(filter(None, map(s.trace.recorder.todo, cases)))


@dataclass(frozen=True)
class MatrixEligible:
    """Shares of the kernel time that operators launched, 0..1 (0 without kernels)."""

    ratio: float
    """Share of the innermost operators that could use matrix units."""
    unused_ratio: float
    """Share of these in kernels that are known to use none."""


@remembered
def matrix_eligible(trace: TraceTable) -> MatrixEligible:
    """Returns the kernel time of the innermost eligible operators over that of all operators, of the whole trace."""
    operators = np.flatnonzero(trace.kind == EventKind.OPERATOR)
    position = places_of(operators, len(trace))
    kernels = np.flatnonzero(trace.kind == EventKind.KERNEL)
    plain = np.where(trace.uses_matrix_unit[kernels] == MatrixUse.NO, trace.dur_ns[kernels], 0)
    owner = position[trace.operator[kernels]]
    own, without = (sum_by(owner, dur, len(operators)) for dur in (trace.dur_ns[kernels], plain))
    total = own.sum()
    if not total:
        return MatrixEligible(0.0, 0.0)
    eligible = trace.matrix_eligible[operators]
    innermost = eligible & ~Forest(position[trace.operator[operators]]).any_below(eligible)
    return MatrixEligible(float(own[innermost].sum() / total), float(without[innermost].sum() / total))


def _memory_limit(s: Situation) -> Notice | None:
    memory = s.trace.memory
    worst: tuple[float, int, int, str] | None = None
    for device in s.trace.devices:
        if not device.memory_bytes or device.ordinal is None:
            continue
        # Device type 0 is the host, whose allocations say nothing about a device.
        own = (memory.device_type != 0) & (memory.device_id == device.ordinal)
        peak = int(memory.total_allocated[own].max(initial=0))
        share = peak / device.memory_bytes
        if share > MEMORY_SHARE and (worst is None or share > worst[0]):
            worst = (share, peak, device.memory_bytes, device.id)
    if worst is None:
        return None
    figures: list[Figure] = [
        METRICS.figure("memory_peak_ratio", worst[0]),
        METRICS.figure("memory_peak_bytes", worst[1]),
        METRICS.figure("memory_bytes", worst[2]),
        METRICS.figure("device", worst[3]),
    ]
    return Notice(
        rule="memory_limit",
        severity="high",
        text="Device {device} had {memory_peak_bytes} of its {memory_bytes} allocated.",
        todo=s.trace.recorder.todo("memory_limit"),
        figures=figures,
        measure="memory_peak_ratio",
        threshold=MEMORY_SHARE,
        references=references_of(s.trace.recorder, "memory_limit"),
    )


def _driver_calls(s: Situation) -> Notice | None:
    """What the memory view says as well; it is there to see if the allocator's events were recorded."""
    seen = len(s.trace.memory.time_ns) > 0
    return driver_notice(
        s.driver,
        s.trace.recorder,
        Link("memory", {}, "Show memory") if seen else Link("timeline", {}, "Show in timeline"),
    )
