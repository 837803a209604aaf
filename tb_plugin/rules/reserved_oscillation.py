"""Reserved memory goes back to the driver and is asked for again."""

from __future__ import annotations

from msgspec.structs import replace

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.driver_calls import usual_calls
from tb_plugin.rules._base import NO_SAVING, Detection, Rule, Scene


def _look(s: Scene) -> Detection | None:
    """What the memory view says as well, of the device that gives back most."""
    if not s.trace.steps.recorded or not len(s.trace.memory.time_ns):
        return None
    from tb_plugin.analysis.device_memory.window import window_of

    window = window_of(s.trace, Params(steps=s.chosen))
    from tb_plugin.analysis.device_memory.records import devices_of

    every = [device for device in devices_of(s.trace) if not device.is_host]
    from tb_plugin.analysis.device_memory.reserved import swings_of

    found = [(swings, device) for device in every if (swings := swings_of(device, window)) is not None]
    if not found:
        return None
    swings, device = min(found, key=lambda pair: (-pair[0].returned_bytes, pair[1].name))
    from tb_plugin.analysis.device_memory.reserved import swings_notice

    notice = swings_notice(s.trace, device, swings, s.driver)
    return Detection(
        replace(
            notice,
            why=(
                "Returning memory waits for the device, and requesting it again blocks the host. The finding "
                "about driver calls gives the cost of these calls."
            ),
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
    detects="The allocator returns reserved memory to the driver and asks for it again.",
    threshold="3 falls or more that return 1 % of the peak on average.",
    saving="None: `driver_memory_calls` counts these calls.",
    needs="Steps and allocator events.",
    notes="""
        `reserved_cycles` counts the falls, `returned_bytes` sums them up. `driver_memory_ns` is the time of the
        driver's calls without those that set it up. On the Memory page, the severity is medium if that is more than
        5 % of the steps, and the finding names the operator that asked for most memory after a fall.
    """,
    saves=False,
)
