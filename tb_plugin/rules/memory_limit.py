"""Memory near the limit of a device."""

from __future__ import annotations

from tb_plugin.analysis.allocator import HOST_TYPE
from tb_plugin.payloads import Figure, Notice
from tb_plugin.rules._base import Rule, Scene, Seen
from tb_plugin.rules._limits import Limit
from tb_plugin.rules._metrics import METRICS

MEMORY_SHARE = 0.9


def fullest(s: Scene) -> tuple[float, int, int, str] | None:
    """Returns the device whose memory was fullest: share of it, peak, memory and id; None where nothing says."""
    memory = s.trace.memory
    worst: tuple[float, int, int, str] | None = None
    for device in s.trace.devices:
        if not device.memory_bytes or device.ordinal is None:
            continue
        own = (memory.device_type != HOST_TYPE) & (memory.device_id == device.ordinal)
        peak = int(memory.total_allocated[own].max(initial=0))
        share = peak / device.memory_bytes
        if peak and (worst is None or share > worst[0]):
            worst = (share, peak, device.memory_bytes, device.id)
    return worst


def _look(s: Scene) -> Seen | None:
    worst = fullest(s)
    if worst is None or worst[0] <= MEMORY_SHARE:
        return None
    figures: list[Figure] = [
        METRICS.figure("memory_peak_ratio", worst[0]),
        METRICS.figure("memory_peak_bytes", worst[1]),
        METRICS.figure("memory_bytes", worst[2]),
        METRICS.figure("device", worst[3]),
    ]
    return Seen(
        Notice(
            rule="memory_limit",
            severity="high",
            text="Device {device} had {memory_peak_bytes} of its {memory_bytes} allocated.",
            todo=s.todo("memory_limit"),
            figures=figures,
            measure="memory_peak_ratio",
            threshold=MEMORY_SHARE,
            references=s.references("memory_limit"),
        )
    )


RULE = Rule("memory_limit", "Memory near the limit", _look, saves=False, limits=(Limit.MEMORY,))
