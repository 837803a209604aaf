"""Findings about the memory of a trace."""

from __future__ import annotations

from collections.abc import Sequence

from tb_plugin.analysis.device_memory.peaks import Peak
from tb_plugin.analysis.device_memory.records import Device
from tb_plugin.analysis.device_memory.reserved import room_notice
from tb_plugin.analysis.driver_calls import DriverCalls, driver_notice
from tb_plugin.analysis.memory.tables import Scene
from tb_plugin.analysis.out_of_memory import Failures, notice_of
from tb_plugin.payloads import Link, Notice, Notices
from tb_plugin.views.memory.growth import growth_of
from tb_plugin.views.memory.reserved import fragmentation_of, oscillation_of
from tb_plugin.views.memory.shapes import Varying, shapes_notice
from tb_plugin.views.memory.spike import spike_of
from tb_plugin.views.memory.surviving_blocks import StepBlocks

_ORDER = ("high", "medium", "low", "info")


def findings_of(
    scene: Scene,
    devices: Sequence[Device],
    peaks: Sequence[Peak],
    steps: Sequence[StepBlocks],
    shapes: Sequence[Varying | None],
    calls: DriverCalls,
    failures: Failures,
) -> Notices:
    """Returns the findings about ``devices``, most important finding first."""
    driver = driver_notice(calls, scene.trace.recorder, Link("timeline", {}, "Show in timeline"))
    found: list[Notice | None] = [notice_of(scene.trace, failures)] if len(failures.row) else []
    found += [driver if devices and not devices[0].is_host else None]
    if scene.trace.coverage.complete:
        for device, peak, blocks, varying in zip(devices, peaks, steps, shapes, strict=True):
            found += growth_of(scene, device, blocks)
            if device.allocator:
                continue  # advice on reserved memory is for the framework's allocator
            found.append(fragmentation_of(scene, device, blocks))
            found.append(oscillation_of(scene, device, calls))
            found.append(shapes_notice(scene, device, varying))
            found.append(spike_of(scene, device, peak))
            found.append(room_notice(scene.trace, device, scene.window))
    notices = [notice for notice in found if notice is not None]
    return Notices("advice", "Notes", "training", sorted(notices, key=lambda notice: _ORDER.index(notice.severity)))
