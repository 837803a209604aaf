"""Findings on reserved memory: oscillation and unused memory."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from tb_plugin.analysis.advice import todo_of
from tb_plugin.analysis.driver_calls import OFTEN, DriverCalls
from tb_plugin.analysis.memory.findings import Subject
from tb_plugin.analysis.memory.metrics import METRICS
from tb_plugin.analysis.memory.trace_devices import Device, memory_of
from tb_plugin.analysis.memory.window import MemoryRange, reserved_peak_of
from tb_plugin.analysis.phrases import references_of
from tb_plugin.lib.arrays import Int64
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Figure, Link, Notice, Severity

# Once or twice may be a warm-up or an evaluation.
MIN_CYCLES = 3
# Share of the peak that each drop returns. Smaller drops are one or two segments.
MIN_CYCLE_SHARE = 0.01
# Share of the device's memory. If half was never used, twice the batch would fit.
MIN_UNUSED_SHARE = 0.5


class Oscillation(msgspec.Struct, frozen=True, eq=False):
    """Decreases and increases of reserved memory. ``first`` and ``rises`` are indices into the levels."""

    peak_bytes: int
    count: int
    returned_bytes: int
    first: int
    rises: Int64


def find_oscillation(reserved: Int64, peak: int) -> Oscillation | None:
    """Returns the decreases and increases of these levels, None if there are too few or if all are too small."""
    change = np.diff(reserved)
    moves = np.flatnonzero(change)
    turns = np.flatnonzero((change[moves][:-1] < 0) & (change[moves][1:] > 0))
    returned = int(-change[change < 0].sum())
    if len(turns) < MIN_CYCLES or returned < MIN_CYCLE_SHARE * peak * len(turns):
        return None
    first = int(moves[np.flatnonzero(change[moves] < 0)[0]])
    return Oscillation(peak, len(turns), returned, first, moves[turns + 1] + 1)


def device_oscillation(device: Device, window: MemoryRange) -> Oscillation | None:
    peak = reserved_peak_of(device, window)
    if peak is None or peak.value <= 0:
        return None
    at = np.flatnonzero((device.reserved != MISSING) & window.holds(device.time_ns))
    found = find_oscillation(device.reserved[at], peak.value)
    return None if found is None else replace(found, first=int(at[found.first]), rises=at[found.rises])


def oscillation_notice(
    rule: str,
    subject: Subject,
    oscillation: Oscillation,
    evidence: Link,
    severity: Severity,
    driver_ns: int | None = None,
) -> Notice:
    """Returns the finding about this oscillation. ``driver_ns`` is the time of the driver calls, None if unknown."""
    values = {
        "reserved_cycles": oscillation.count,
        "returned_bytes": oscillation.returned_bytes,
        "peak_reserved_bytes": oscillation.peak_bytes,
    }
    figures = [*METRICS.figures(values), *subject.all_figures]
    text = (
        f"Reserved memory{subject.of_device} drops and then rises again {{reserved_cycles}} times. In total, "
        "{returned_bytes} are returned to the driver. The peak of reserved memory is "
        "{peak_reserved_bytes}."
    )
    if subject.code:
        text += f" The largest request after reserved memory dropped comes from {subject.code}."
    if driver_ns:
        figures.append(METRICS.figure("driver_memory_ns", driver_ns))
        text += " The driver calls that return and reserve memory take {driver_memory_ns} of CPU time."
    return Notice(
        rule,
        severity,
        text,
        subject.recorder.todo(rule),
        figures,
        "reserved_cycles",
        MIN_CYCLES,
        evidence,
        references_of(subject.recorder, rule),
    )


def device_oscillation_notice(
    trace: TraceTable,
    device: Device,
    oscillation: Oscillation,
    calls: DriverCalls,
    code: str = "",
    figures: Sequence[Figure] = (),
) -> Notice:
    """Returns the finding about a device of a trace. ``code`` and ``figures`` are those of a ``Subject``."""
    driver = calls.usual_ns / calls.steps_ns if calls.usual_calls and calls.steps_ns else 0.0
    start, end = (str(int(device.time_ns[event])) for event in (oscillation.first, oscillation.rises[-1]))
    evidence = Link("memory", {"device": device.name, "start_ns": start, "end_ns": end}, "Show on the curve")
    subject = Subject(trace.recorder, device.name, code, figures)
    severity: Severity = "medium" if driver > OFTEN else "low"
    return oscillation_notice(
        "reserved_oscillation", subject, oscillation, evidence, severity, calls.usual_calls and calls.usual_ns
    )


def room_of(trace: TraceTable, device: Device, window: MemoryRange) -> tuple[int, int] | None:
    """Returns the memory size of a device of PyTorch's allocator and its never reserved bytes; None if unknown."""
    if device.allocator:
        return None
    memory, peak = memory_of(trace, device), reserved_peak_of(device, window)
    if not memory or peak is None or peak.value <= 0:
        return None
    return memory, memory - peak.value


def room_notice(trace: TraceTable, device: Device, window: MemoryRange) -> Notice | None:
    found = room_of(trace, device, window)
    if found is None or found[1] < MIN_UNUSED_SHARE * found[0]:
        return None
    memory, room = found
    return Notice(
        rule="memory_unused",
        severity="info",
        text="{room_ratio} of the memory of {device} is unused: {room_bytes} of {memory_bytes} were never reserved.",
        todo=todo_of(trace, "memory_unused"),
        figures=METRICS.figures(
            {"room_ratio": room / memory, "device": device.name, "room_bytes": room, "memory_bytes": memory}
        ),
        measure="room_ratio",
        threshold=MIN_UNUSED_SHARE,
        evidence=Link("memory", {"device": device.name}, "Show the curve"),
    )
