"""Findings about the memory of a trace."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tb_plugin.analysis.driver_calls import DriverCalls, driver_notice
from tb_plugin.analysis.memory.findings import SHORT_LIFE, SPIKE_SHARE, single_peak_notice, single_peak_of
from tb_plugin.analysis.memory.metrics import METRICS
from tb_plugin.analysis.memory.reserved import room_notice, swings_on, swings_on_notice
from tb_plugin.analysis.memory.tables import Scene
from tb_plugin.analysis.memory.trace_devices import Device
from tb_plugin.analysis.memory.window import Peak, peak_without
from tb_plugin.analysis.out_of_memory import Failures, notice_of
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Link, Notice, Notices
from tb_plugin.rules._base import percent
from tb_plugin.rules._checks import Check
from tb_plugin.views.memory.finding_parts import NEAR, least_bytes, severity_near, subject_of
from tb_plugin.views.memory.growth import growth_notices
from tb_plugin.views.memory.reserved import fragmentation_of
from tb_plugin.views.memory.shapes import Varying, shapes_notice
from tb_plugin.views.memory.surviving_blocks import StepBlocks, owned_blocks

_ORDER = ("high", "medium", "low", "info")

SPIKE = Check(
    "memory_spike",
    detects="One temporary block causes the peak.",
    threshold=f"Without this and similar blocks, the peak would be at least {percent(SPIKE_SHARE)} lower "
    "(`peak_drop_ratio`).",
    severity=f"Medium if the peak is at least {percent(NEAR)} of the device memory, else low.",
    notes=f"""
        A block is temporary if it lives for at most {percent(SHORT_LIFE)} of a mean step (without steps: of the
        recording). Similar blocks are temporary blocks of the same operator, module and line. `peak_without_bytes` is the
        peak without them. If another similar block is live at the peak, there is no finding.
    """,
)


def findings_of(
    scene: Scene,
    devices: Sequence[Device],
    peaks: Sequence[Peak],
    steps: Sequence[StepBlocks],
    shapes: Sequence[Varying | None],
    calls: DriverCalls,
    failures: Failures,
) -> Notices:
    driver = driver_notice(calls, scene.trace.recorder, Link("timeline", {}, "Show in timeline"))
    found: list[Notice | None] = [notice_of(scene.trace, failures)] if len(failures.row) else []
    found += [driver if devices and not devices[0].is_host else None]
    if scene.trace.coverage.complete:
        for device, peak, blocks, varying in zip(devices, peaks, steps, shapes, strict=True):
            found += growth_notices(scene, device, peak.value)
            if device.allocator:
                continue  # advice on reserved memory is for the framework's allocator
            found.append(fragmentation_of(scene, device, blocks))
            found.append(_oscillation(scene, device, calls))
            found.append(shapes_notice(scene, device, varying))
            found.append(_spike(scene, device, peak))
            found.append(room_notice(scene.trace, device, scene.window))
    notices = [notice for notice in found if notice is not None]
    return Notices("advice", "Notes", "training", sorted(notices, key=lambda notice: _ORDER.index(notice.severity)))


def _oscillation(scene: Scene, device: Device, calls: DriverCalls) -> Notice | None:
    swings = swings_on(device, scene.window)
    if swings is None:
        return None
    largest = swings.rises[np.argmax(device.bytes[swings.rises])]
    subject = subject_of(scene, device, int(device.record[largest]))
    return swings_on_notice(scene.trace, device, swings, calls, subject.code, subject.figures)


def _spike(scene: Scene, device: Device, peak: Peak) -> Notice | None:
    if not device.has_totals or peak.from_before or peak.value <= 0:
        return None
    blocks, time = owned_blocks(scene, device), np.append(device.time_ns, 0)
    life = time[blocks.release] - time[blocks.allocation]
    short = (blocks.owner != MISSING) & (blocks.release != MISSING) & (life <= SHORT_LIFE * _step_ns(scene))
    least = least_bytes(scene.trace, device)
    found = single_peak_of(
        blocks, short, peak.at, peak.value, least, lambda some: peak_without(device, scene.window, some).value
    )
    if found is None:
        return None
    subject = subject_of(scene, device, int(device.record[blocks.allocation[found.block]]))
    where = {"device": device.name, "group": "memory_events", "where": f"block_number:{found.block}"}
    return single_peak_notice(
        SPIKE.id,
        subject,
        found,
        METRICS.figure("lifetime_ns", int(life[found.block])),
        severity_near(scene.trace, device, peak.value),
        Link("memory", where, "Show the block"),
    )


def _step_ns(scene: Scene) -> float:
    steps, window = scene.trace.steps, scene.window
    if not steps.recorded or not len(steps.host_start_ns):
        return float(window.end_ns - window.start_ns)
    return float((steps.host_end_ns - steps.host_start_ns).mean())
