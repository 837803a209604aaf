"""Unused device memory."""

from __future__ import annotations

from msgspec.structs import replace

from tb_plugin.analysis.base import Params
from tb_plugin.rules._base import NO_SAVING, Detection, Rule, Scene


def _look(s: Scene) -> Detection | None:
    """Reports the same problem as the memory view, for the device with the least unused memory."""
    if not s.trace.steps.recorded or not len(s.trace.memory.time_ns):
        return None
    from tb_plugin.analysis.memory.reserved import room_notice
    from tb_plugin.analysis.memory.trace_devices import devices_of
    from tb_plugin.analysis.memory.window import window_of

    devices = [device for device in devices_of(s.trace) if not device.is_host]
    window = window_of(s.trace, Params(steps=s.chosen))
    notices = [room_notice(s.trace, device, window) for device in devices]
    found = [notice for notice in notices if notice is not None]
    if not found or len(found) < len(notices):
        return None
    least = min(found, key=lambda notice: _ratio(notice.figures[0].value))
    return Detection(
        replace(
            least,
            why="A larger batch gives each launch more work and reads weights once for more samples. One recording cannot "
            "show the saving.",
            confidence="high",
        ),
        NO_SAVING,
    )


def _ratio(value: object) -> float:
    return value if isinstance(value, float) else 1.0


RULE = Rule(
    __name__,
    title="Unused device memory",
    look=_look,
    order=460,
    detects="At least half of the memory of every GPU was never reserved.",
    threshold="At least half of the memory of every GPU with allocator events is unused.",
    saving="None: one recording does not show what a larger batch would save.",
    needs="Steps, allocator events and the GPU memory size.",
    notes="""
        `room_ratio` refers to the GPU with the least unused memory. The finding is informational.
    """,
)
