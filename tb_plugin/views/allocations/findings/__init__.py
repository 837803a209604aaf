"""Findings on memory snapshots."""

from __future__ import annotations

from msgspec.structs import replace

from tb_plugin.analysis.snapshot.device_levels import DeviceLevels
from tb_plugin.analysis.snapshot.metrics import METRICS
from tb_plugin.payloads import Notice, Notices
from tb_plugin.views.allocations.findings.fragmentation import fragmentation
from tb_plugin.views.allocations.findings.leaks import leaks
from tb_plugin.views.allocations.findings.out_of_memory import ran_out
from tb_plugin.views.allocations.findings.reserved import reserved_swings
from tb_plugin.views.allocations.findings.rising_peaks import rising_peaks
from tb_plugin.views.allocations.findings.single_peak import single_peak

_RULES = (ran_out, leaks, fragmentation, rising_peaks, reserved_swings, single_peak)
_LOUDEST = ("high", "medium", "low", "info")


def advice_of(*devices: DeviceLevels) -> Notices:
    """Returns the findings on the devices: most severe first, then by device and rule."""
    found = []
    for device in devices:
        of_it = [notice for rule in _RULES for notice in rule(device)] if device.count else []
        found += [_with_device(device, notice) for notice in of_it] if len(devices) > 1 else of_it
    found.sort(key=lambda notice: _LOUDEST.index(notice.severity))
    return Notices("advice", "Findings", "training", found)


def _with_device(device: DeviceLevels, notice: Notice) -> Notice:
    figures = [*notice.figures, METRICS.figure("device", device.name)]
    return replace(notice, text=f"{{device}}: {notice.text}", figures=figures)
