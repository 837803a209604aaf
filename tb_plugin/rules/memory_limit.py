"""Memory near the limit of a device."""

from __future__ import annotations

from tb_plugin.analysis.allocator import HOST_TYPE
from tb_plugin.analysis.metrics import FULL_TRACE
from tb_plugin.rules._base import COMMON, NO_SAVING, Detection, Limit, Rule, Scene, percent

METRICS = COMMON.defining(
    {
        (FULL_TRACE, "ratio"): {
            "memory_peak_ratio": ("Peak memory", "Peak allocated memory divided by device memory.")
        },
        (FULL_TRACE, "bytes"): {"memory_peak_bytes": ("Peak allocated", "Peak memory allocated by the framework.")},
    }
)

MEMORY_SHARE = 0.9


def fullest_device(s: Scene) -> tuple[float, int, int, str] | None:
    """Returns used share, peak bytes, total bytes and id of the fullest device; None if unknown."""
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


def _look(s: Scene) -> Detection | None:
    worst = fullest_device(s)
    if worst is None or worst[0] <= MEMORY_SHARE:
        return None
    share, peak, total, device = worst
    notice = s.notice(
        RULE,
        severity="high",
        text="Peak allocation on device {device}: {memory_peak_bytes} of {memory_bytes}.",
        figures=METRICS.measured(memory_peak_ratio=share, memory_peak_bytes=peak, memory_bytes=total, device=device),
        measure="memory_peak_ratio",
        threshold=MEMORY_SHARE,
        evidence=None,
        confidence="",
    )
    return Detection(notice, NO_SAVING)


RULE = Rule(
    __name__,
    title="Memory near the limit",
    look=_look,
    order=450,
    detects="The memory of a GPU is almost full.",
    threshold=f"Peak allocated memory is more than {percent(MEMORY_SHARE)} of the GPU memory.",
    saving="None: more memory alone does not shorten steps.",
    needs="Allocator events and the GPU memory size.",
    notes="""
        CPU memory does not count. The severity is always high.
    """,
    limits=(Limit.MEMORY,),
)
