"""Memory returned to the driver and requested again."""

from __future__ import annotations

from msgspec.structs import replace

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.driver_calls import usual_calls
from tb_plugin.rules._base import NO_SAVING, Detection, Rule, Scene


def _look(s: Scene) -> Detection | None:
    """Reports the same problem as the memory view, for the device that returns the most memory to the driver."""
    if not s.trace.steps.recorded or not len(s.trace.memory.time_ns):
        return None
    from tb_plugin.analysis.memory.reserved import device_oscillation, device_oscillation_notice
    from tb_plugin.analysis.memory.trace_devices import devices_of
    from tb_plugin.analysis.memory.window import window_of

    window = window_of(s.trace, Params(steps=s.chosen))
    every = [device for device in devices_of(s.trace) if not device.is_host]
    found = [
        (oscillation, device) for device in every if (oscillation := device_oscillation(device, window)) is not None
    ]
    if not found:
        return None
    oscillation, device = min(found, key=lambda pair: (-pair[0].returned_bytes, pair[1].name))
    notice = device_oscillation_notice(s.trace, device, oscillation, s.driver)
    return Detection(
        replace(
            notice,
            why="Returning memory to the driver waits for the device, and requesting memory again blocks the host. The "
            "finding about driver calls shows the cost.",
            confidence="high",
        ),
        NO_SAVING,
        s.by_length(usual_calls(s.trace, s.host)),
    )


RULE = Rule(
    __name__,
    title="Reserved memory is freed and allocated again",
    look=_look,
    order=470,
    detects="The allocator returns reserved memory to the driver and requests it again.",
    threshold="Reserved memory drops at least 3 times, on average by at least 1 % of its peak.",
    saving="None: `driver_memory_calls` includes these calls.",
    needs="Steps and allocator events.",
    notes="""
        `reserved_cycles` is the number of times that reserved memory drops. `returned_bytes` is the sum of these drops.
        `driver_memory_ns` is the time of driver memory calls, excluding driver initialization. On the Memory page, the
        severity is medium if this time exceeds 5 % of step time. The finding on the Memory page also shows which
        operator requested the most memory after reserved memory dropped.
    """,
)
