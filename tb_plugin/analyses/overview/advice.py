"""Recommendations: rules over the figures of a training. Each says its threshold and leads to its evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.communication import COMMUNICATION_SHARE, SEND_LESS
from tb_plugin.analyses.driver_calls import DriverCalls, driver_notice
from tb_plugin.analyses.grouping import Forest, sum_by
from tb_plugin.analyses.matrix_unit import matrix_time, matrix_units
from tb_plugin.analyses.overview.device_time import DeviceRatios
from tb_plugin.analyses.overview.metrics import METRICS
from tb_plugin.analyses.overview.steps import Breakdown
from tb_plugin.analyses.severity import severity_of
from tb_plugin.payloads import Figure, Link, Notice, Reference
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
NCCL_CAPABILITY = 3.5

_TUTORIALS = "https://docs.pytorch.org/tutorials"


@dataclass(frozen=True, eq=False)
class Situation:
    """What the rules look at."""

    trace: TraceTable
    breakdown: Breakdown
    ratios: dict[str, DeviceRatios]
    """By device id, devices with kernels only."""
    driver: DriverCalls
    """Inside the chosen steps."""
    kernels: Int64
    """Rows of the kernels of the chosen steps."""


def recommendations(situation: Situation) -> list[Notice]:
    """The notices of all rules that apply, in the order of the rules."""
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


def _share(breakdown: Breakdown, category: str) -> tuple[float, float, float]:
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
        todo="Give the DataLoader worker processes (num_workers) and pinned memory, so that the next batch is ready "
        "when the step ends.",
        figures=[
            METRICS.figure("waiting_for_input", share),
            METRICS.figure("dataloader_mean_ns", part),
            METRICS.figure("step_time_mean_ns", total),
        ],
        measure="waiting_for_input",
        threshold=DATALOADER_SHARE,
        evidence=Link("timeline", {}, "Show in timeline"),
        references=[
            Reference("PyTorch: data loading", "https://docs.pytorch.org/docs/stable/data.html"),
            Reference("PyTorch: tuning guide", f"{_TUTORIALS}/recipes/recipes/tuning_guide.html"),
        ],
    )


def _data_parallel(s: Situation) -> Notice | None:
    devices = np.unique(s.trace.device[s.trace.device != MISSING])
    if len(devices) < 2 or s.trace.strings.find("DataParallel.forward") == MISSING:
        return None
    return Notice(
        rule="data_parallel",
        severity="medium",
        text="DataParallel drives {affected} devices from one process.",
        todo="Use DistributedDataParallel: one process a device avoids the interpreter lock and the copies of the model.",
        figures=[METRICS.figure("affected", len(devices), "Devices")],
        references=[Reference("PyTorch: DDP", f"{_TUTORIALS}/intermediate/ddp_tutorial.html")],
    )


def _distributed_backend(s: Situation) -> Notice | None:
    """Fires only where another backend was seen at work (the old plugin also fired when no collective was seen)."""
    names = s.trace.strings
    seen = {backend for backend in ("nccl", "gloo", "mpi") if names.where(_collective_of(backend))[s.trace.name].any()}
    capable = [d for d in s.trace.devices if d.capability and float(d.capability) >= NCCL_CAPABILITY]
    uses_ddp = names.find("DistributedDataParallel.forward") != MISSING
    if not uses_ddp or not capable or not seen or "nccl" in seen or "nccl" in _backend(s.trace):
        return None
    return Notice(
        rule="distributed_backend",
        severity="medium",
        text="DistributedDataParallel communicates without NCCL on {affected} NVIDIA devices.",
        todo='Initialise the process group with backend="nccl", the fastest backend for this hardware.',
        figures=[METRICS.figure("affected", len(capable), "Devices")],
        references=[Reference("PyTorch: backends", "https://docs.pytorch.org/docs/stable/distributed.html")],
    )


def _collective_of(backend: str) -> Callable[[str], bool]:
    return lambda text: text.lower().startswith((f"{backend}:", f"{backend}dev", f"{backend}kernel"))


def _backend(trace: TraceTable) -> str:
    info = trace.metadata.get("distributedInfo")
    return str(info.get("backend", "")) if isinstance(info, dict) else ""


def _communication(s: Situation) -> Notice | None:
    part, total, share = _share(s.breakdown, "communication")
    if share <= COMMUNICATION_SHARE:
        return None
    return Notice(
        rule="communication",
        severity=severity_of(share),
        text="Communication that nothing hides takes {communication_ns} of each {step_time_mean_ns} step. One worker alone "
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
        references=[
            Reference("PyTorch: DDP communication hooks", "https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html"),
            Reference("Large-batch training (LAMB)", "https://arxiv.org/abs/1904.00962"),
        ],
    )


def _low_utilization(s: Situation) -> Notice | None:
    low = {
        d: r.utilization for d, r in s.ratios.items() if r.utilization is not None and r.utilization < LOW_UTILIZATION
    }
    if not low:
        return None
    worst = min(low, key=lambda device: low[device] or 0.0)
    return Notice(
        rule="low_utilization",
        severity="medium",
        text="{affected} of the devices run kernels less than half of the step window; device {device} only {utilization}."
        if len(low) > 1
        else "Device {device} runs kernels only {utilization} of the step window.",
        todo="Look for what the device waits for: input, launches from Python, or synchronisation. A larger batch gives it "
        "more work per launch; check convergence.",
        figures=[
            METRICS.figure("utilization", low[worst]),
            METRICS.figure("device", worst),
            METRICS.figure("affected", len(low), "Devices"),
        ],
        measure="utilization",
        threshold=LOW_UTILIZATION,
        evidence=Link("timeline", {}, "Show in timeline"),
        references=[Reference("PyTorch: tuning guide", f"{_TUTORIALS}/recipes/recipes/tuning_guide.html")],
    )


def _idle_device(s: Situation) -> Notice | None:
    """Where no rule knows a cause, yet a device idles: silence would read as praise."""
    known = {d: r.utilization for d, r in s.ratios.items() if r.utilization is not None and r.utilization < BUSY}
    if not known:
        return None
    worst = min(known, key=lambda device: known[device])
    return Notice(
        rule="idle_device",
        severity="low",
        text="No rule found a cause, yet device {device} runs kernels only {utilization} of the step window.",
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
        references=[Reference("PyTorch: AMP", "https://docs.pytorch.org/docs/stable/amp.html")],
    )


def _lower_precision(s: Situation) -> str:
    """What to do so that matrix units are used: formats that all devices that ran kernels have."""
    used = [
        set(s.trace.devices[int(device)].precisions) for device in np.unique(s.trace.device[s.kernels]) if device >= 0
    ]
    has = set.intersection(*used) if used else set()
    todo = "Automatic mixed precision runs them in 16 bit"
    if "bf16" in has:
        todo += " (bfloat16 needs no loss scaling)"
    elif "fp16" in has:
        todo += " (float16, with a gradient scaler)"
    return f"{todo}; TF32 needs one line (torch.set_float32_matmul_precision)." if "tf32" in has else f"{todo}."


@dataclass(frozen=True)
class MatrixEligible:
    """Shares of the kernel time that operators launched, 0..1 (0 without kernels)."""

    ratio: float
    """Of the innermost operators that could use matrix units."""
    unused_ratio: float
    """Of these, in kernels that are known to use none."""


@remembered
def matrix_eligible(trace: TraceTable) -> MatrixEligible:
    """Kernel time of the innermost eligible operators over that of all operators, of the whole trace."""
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
        todo="Recompute activations (gradient checkpointing) or use mixed precision before the next larger batch fails.",
        figures=figures,
        measure="memory_peak_ratio",
        threshold=MEMORY_SHARE,
        references=[
            Reference("PyTorch: checkpoint", "https://docs.pytorch.org/docs/stable/checkpoint.html"),
            Reference("PyTorch: AMP", "https://docs.pytorch.org/docs/stable/amp.html"),
        ],
    )


def _driver_calls(s: Situation) -> Notice | None:
    """What the memory view says as well; it is there to see if the allocator's events were recorded."""
    seen = len(s.trace.memory.time_ns) > 0
    return driver_notice(
        s.driver, Link("memory", {}, "Show memory") if seen else Link("timeline", {}, "Show in timeline")
    )
