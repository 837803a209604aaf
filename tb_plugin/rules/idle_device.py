"""Unexplained idle time of a device."""

from __future__ import annotations

from tb_plugin.rules._base import Detection, Limit, Rule, Scene, percent
from tb_plugin.rules._idle_cause import idle_detection, least_busy
from tb_plugin.rules.low_utilization import missing_launch_advice

BUSY = 0.9
"""Maximum utilization of a reported device. Above it, a device without findings is well used."""


def _look(s: Scene) -> Detection | None:
    """Reports a device that is mostly idle. With few findings, users would otherwise assume that the device is busy."""
    found = least_busy(s, BUSY)
    if found is None:
        return None
    text = (
        f"Device {{device}} runs kernels for only {{utilization}} of {found.window}, and no finding explains most of "
    )
    todo = missing_launch_advice(s, found) or "Open the longest idle periods to see what the host was doing."
    return idle_detection(s, RULE, found, BUSY, "low", text + "its idle time.", todo)


RULE = Rule(
    __name__,
    title="Unexplained idle time",
    look=_look,
    order=500,
    detects="A GPU idles, and no finding explains most of it.",
    threshold=f"The utilization of the GPU is below {percent(BUSY)}, and `low_utilization` does not apply. All findings "
    "together save less than half of the idle time.",
    saving="None: the finding shows the largest idle cause and its share of the idle time.",
    notes="""
        The rule runs only if `low_utilization` does not apply. Without `idle_device`, a trace with few findings might
        suggest that the GPU is well used. Another rule may cover the largest idle cause but find little to save.
    """,
    cases=(),
    needs_kernels=True,
    limits=(Limit.CPU, Limit.INITIALISATION, Limit.CAPTURE, Limit.CPU_NOT_RECORDED),
    is_fallback=True,
)
