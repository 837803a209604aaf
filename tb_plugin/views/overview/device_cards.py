"""Overview cards of each device."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
from msgspec.structs import asdict

from tb_plugin.analysis.base import Number
from tb_plugin.analysis.device_time import DeviceRatios, DeviceTime, compute_by_class
from tb_plugin.analysis.idle.causes import Cause, idle_slices, word_of
from tb_plugin.analysis.kernel_classes import class_slices
from tb_plugin.analysis.phrases import count_with_noun
from tb_plugin.lib.isolation import Isolation
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.hardware import DeviceInfo
from tb_plugin.model.trace.table import Steps, TraceTable
from tb_plugin.payloads import Breakdown, Payload, Slice
from tb_plugin.views.overview.configuration import device_card
from tb_plugin.views.overview.metrics import METRICS

DEVICE_PARTS = (
    ("compute", "compute_ns"),
    ("communication", "exposed_communication_ns"),
    ("memcpy", "exposed_memcpy_ns"),
    ("memset", "exposed_memset_ns"),
    ("unrecorded", "unrecorded_ns"),
    ("idle", "idle_ns"),
)

AT_WORK = "from the first to the last device event, inside and outside steps"
"""Time window of the device cards. Steps may start earlier, so they may contain more idle time."""


def cards_of_devices(
    trace: TraceTable,
    times: Mapping[str, DeviceTime],
    shown: Mapping[str, DeviceTime],
    ratios: Mapping[str, DeviceRatios],
    window: str,
    parts: Isolation,
) -> dict[str, Payload]:
    """Returns the cards of all devices. Only devices in ``shown`` have cards with times.

    If one kind of card fails, all other cards are still returned.
    """

    def of_each(title: str, name: str, card: Callable[[int, DeviceInfo], Payload | None]) -> dict[str, Payload]:
        def make() -> dict[str, Payload]:
            cards = {f"{name}_{device.id}": card(i, device) for i, device in enumerate(trace.devices)}
            return {key: each for key, each in cards.items() if each is not None}

        return parts.run(title, make, dict[str, Payload]())

    def partition(i: int, device: DeviceInfo) -> Payload | None:
        return _partition(trace, device.id, shown[device.id]) if device.id in shown else None

    def idle(i: int, device: DeviceInfo) -> Payload | None:
        return _idle(trace, i, shown[device.id]) if device.id in shown and shown[device.id].idle_ns else None

    def classes(i: int, device: DeviceInfo) -> Payload | None:
        return _classes(trace, i, shown[device.id]) if device.id in shown and shown[device.id].compute_ns else None

    def cores(i: int, device: DeviceInfo) -> Payload | None:
        from tb_plugin.views.overview.core_kinds import cores_breakdown

        return cores_breakdown(trace, i)

    def card(i: int, device: DeviceInfo) -> Payload | None:
        if device.id not in times and (times or not device.name):
            return None
        from tb_plugin.views.overview.core_kinds import frequency_figures

        return device_card(device, ratios.get(device.id), times.get(device.id), window, frequency_figures(trace, i))

    return {
        **of_each("Device time", "device_time", partition),
        **of_each("Idle time", "device_idle", idle),
        **of_each("Compute by kernel class", "device_classes", classes),
        **of_each("Time by core type", "device_cores", cores),
        **of_each("Devices", "device", card),
    }


def _summed_steps(trace: TraceTable) -> str:
    count = len(trace.steps.label) if trace.steps.recorded else 0
    return f"sum of {count_with_noun(count, 'step')} and the time outside" if count else "sum over the recording"


def _partition(trace: TraceTable, device: str, time: DeviceTime) -> Breakdown:
    values = asdict(time)
    titles = {"idle_ns": "Idle time, first to last kernel"}
    parts = [
        Slice(METRICS.metric(key, titles.get(key, ""), AT_WORK), category, values[key])
        for category, key in DEVICE_PARTS
        if key != "unrecorded_ns" or values[key]
    ]
    return Breakdown(
        name=f"device_time_{device}",
        title="Device time breakdown, first to last kernel",
        subtitle=f"device {device}, all streams; {_summed_steps(trace)}; the parts sum exactly",
        unit="ns",
        total=time.window_ns,
        parts=parts,
        style="bar",
    )


def _idle(trace: TraceTable, device: int, time: DeviceTime) -> Breakdown:
    name = trace.devices[device].id
    causes = idle_causes(trace, device)
    return Breakdown(
        name=f"device_idle_{name}",
        title="Idle time by cause, first to last kernel",
        subtitle=f"device {name}; {_summed_steps(trace)}; the parts sum to the idle time above",
        unit="ns",
        total=time.idle_ns,
        parts=idle_slices(causes, AT_WORK, "idle"),
        style="bar",
    )


@cached_by_argument
def idle_causes(trace: TraceTable, device: int) -> dict[Cause, int]:
    """Returns the idle time (ns) of a device for each cause, between the first and the last work of the device."""
    from tb_plugin.analysis.idle.account import idle_account, work_span

    start, end = work_span(trace, device)

    return {cause: int(time[0]) for cause, time in idle_account(trace, device).by_cause(*_window(start, end)).items()}


def _window(start: int, end: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    return np.array([start], np.int64), np.array([end], np.int64)


def idle_facts(trace: TraceTable, steps: Steps, devices: dict[str, DeviceTime]) -> dict[str, Number]:
    """Returns idle time by cause, for each device, and as the mean over steps and devices."""
    facts: dict[str, Number] = {}
    of_steps = dict.fromkeys(Cause, 0)
    from tb_plugin.analysis.idle.account import idle_account

    for i, device in enumerate(trace.devices):
        if device.id in devices:
            facts |= {f"device.{device.id}.idle.{word_of(c)}_ns": time for c, time in idle_causes(trace, i).items()}
            for cause, time in idle_account(trace, i).by_cause(steps.start_ns, steps.end_ns).items():
                of_steps[cause] += int(time.sum())
    count = len(devices) * len(steps.label)
    return facts | {f"overview.idle.{word_of(c)}_mean_ns": time / count for c, time in of_steps.items() if count}


def _classes(trace: TraceTable, device: int, time: DeviceTime) -> Breakdown:
    name = trace.devices[device].id
    return Breakdown(
        name=f"device_classes_{name}",
        title="Compute by kernel class",
        subtitle=f"device {name}; {_summed_steps(trace)}; the parts sum to the compute time above",
        unit="ns",
        total=time.compute_ns,
        parts=class_slices(compute_by_class(trace, device), METRICS.metric("compute_ns", window=AT_WORK), "kernels"),
        style="bar",
    )
