"""Findings on reserved memory: oscillation and unused memory."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.advice import todo_of
from tb_plugin.analysis.device_memory.metrics import METRICS
from tb_plugin.analysis.device_memory.peaks import reserved_peak_of
from tb_plugin.analysis.device_memory.records import Device, memory_of
from tb_plugin.analysis.device_memory.window import MemoryRange
from tb_plugin.analysis.driver_calls import OFTEN, DriverCalls
from tb_plugin.analysis.phrases import references_of
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Figure, Link, Notice, Severity

Int64 = npt.NDArray[np.int64]

# Once or twice may be a warm-up or an evaluation.
MIN_CYCLES = 3
# Share of the peak that each drop returns. Smaller drops are one or two segments.
MIN_CYCLE_SHARE = 0.01
# Share of the device's memory. If half was never used, twice the batch would fit.
MIN_UNUSED_SHARE = 0.5


class Swings(msgspec.Struct, frozen=True, eq=False):
    """Decreases and increases of reserved memory. ``first`` and ``rises`` are indices into the device's events."""

    peak_bytes: int
    count: int
    returned_bytes: int
    first: int
    """Event in which reserved memory decreases for the first time."""
    rises: Int64
    """For each decrease of reserved memory, the event in which reserved memory next increases."""


def swings_of(device: Device, window: MemoryRange) -> Swings | None:
    """Returns the decreases and increases of reserved memory, None if there are too few or if all are too small."""
    peak = reserved_peak_of(device, window)
    if peak is None or peak.value <= 0:
        return None
    at = np.flatnonzero((device.reserved != MISSING) & window.holds(device.time_ns))
    change = np.diff(device.reserved[at])
    moves = np.flatnonzero(change)
    turns = np.flatnonzero((change[moves][:-1] < 0) & (change[moves][1:] > 0))
    returned = int(-change[change < 0].sum())
    if len(turns) < MIN_CYCLES or returned < MIN_CYCLE_SHARE * peak.value * len(turns):
        return None
    first = int(at[moves[np.flatnonzero(change[moves] < 0)[0]]])
    return Swings(peak.value, len(turns), returned, first, at[moves[turns + 1] + 1])


def swings_notice(
    trace: TraceTable, device: Device, swings: Swings, calls: DriverCalls, asks: str = "", who: Sequence[Figure] = ()
) -> Notice:
    """Returns the finding that reserved memory repeatedly decreases and increases.

    ``asks`` is a sentence about the largest memory request after a decrease. ``who`` contains the numbers in this
    sentence.
    """
    driver = calls.usual_ns / calls.steps_ns if calls.usual_calls and calls.steps_ns else 0.0
    figures = [
        METRICS.figure("reserved_cycles", swings.count),
        METRICS.figure("device", device.name),
        METRICS.figure("returned_bytes", swings.returned_bytes),
        METRICS.figure("peak_reserved_bytes", swings.peak_bytes),
        *who,
    ]
    text = (
        "Reserved memory of {device} drops and then rises again {reserved_cycles} times. In total, "
        "{returned_bytes} are returned to the driver. The peak of reserved memory is "
        "{peak_reserved_bytes}."
    )
    if asks:
        text += f" {asks}"
    if calls.usual_calls:
        figures.append(METRICS.figure("driver_memory_ns", calls.usual_ns))
        text += " The driver calls that return and reserve memory take {driver_memory_ns} of CPU time."
    severity: Severity = "medium" if driver > OFTEN else "low"
    return Notice(
        rule="reserved_oscillation",
        severity=severity,
        text=text,
        todo=trace.recorder.todo("reserved_oscillation"),
        figures=figures,
        measure="reserved_cycles",
        threshold=MIN_CYCLES,
        evidence=Link(
            "memory",
            {
                "device": device.name,
                "start_ns": str(int(device.time_ns[swings.first])),
                "end_ns": str(int(device.time_ns[swings.rises[-1]])),
            },
            "Show on the curve",
        ),
        references=references_of(trace.recorder, "reserved_oscillation"),
    )


def room_of(trace: TraceTable, device: Device, window: MemoryRange) -> tuple[int, int] | None:
    """Returns the device's memory size, and the number of bytes that were never reserved; None if unknown.

    Only PyTorch's allocator is supported, because other allocators share the device with PyTorch's allocator.
    """
    if device.allocator:
        return None
    memory, peak = memory_of(trace, device), reserved_peak_of(device, window)
    if not memory or peak is None or peak.value <= 0:
        return None
    return memory, memory - peak.value


def room_notice(trace: TraceTable, device: Device, window: MemoryRange) -> Notice | None:
    """Returns the finding that a large part of the device memory was never reserved; None if this part is small."""
    found = room_of(trace, device, window)
    if found is None or found[1] < MIN_UNUSED_SHARE * found[0]:
        return None
    memory, room = found
    return Notice(
        rule="memory_unused",
        severity="info",
        text="{room_ratio} of the memory of {device} is unused: {room_bytes} of {memory_bytes} were never reserved.",
        todo=todo_of(trace, "memory_unused"),
        figures=[
            METRICS.figure("room_ratio", room / memory),
            METRICS.figure("device", device.name),
            METRICS.figure("room_bytes", room),
            METRICS.figure("memory_bytes", memory),
        ],
        measure="room_ratio",
        threshold=MIN_UNUSED_SHARE,
        evidence=Link("memory", {"device": device.name}, "Show the curve"),
    )
