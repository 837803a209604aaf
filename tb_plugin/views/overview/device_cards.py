"""Overview cards of each device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from msgspec.structs import asdict

from tb_plugin.analysis.base import Number
from tb_plugin.analysis.device_time import DeviceRatios, DeviceTime, compute_by_class
from tb_plugin.analysis.idle.account import idle_account, work_span
from tb_plugin.analysis.idle.causes import Cause, idle_slices, word_of
from tb_plugin.analysis.kernel_classes import class_slices
from tb_plugin.analysis.matrix_unit import NEUTRAL
from tb_plugin.lib.isolation import Isolation
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.hardware import DeviceInfo
from tb_plugin.model.trace.schema import EventKind, of_kind
from tb_plugin.model.trace.table import Steps, TraceTable
from tb_plugin.payloads import Breakdown, Figure, Figures, Payload, Slice
from tb_plugin.views.overview.core_kinds import cores_breakdown, frequency_figures
from tb_plugin.views.overview.metrics import METRICS

DEVICE_PARTS = (
    ("compute", "compute_ns"),
    ("communication", "exposed_communication_ns"),
    ("memcpy", "exposed_memcpy_ns"),
    ("memset", "exposed_memset_ns"),
    ("unrecorded", "unrecorded_ns"),
    ("idle", "idle_ns"),
)
Card = Breakdown | Figures
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
    """Returns the cards of all devices; only devices in ``shown`` have times. ``window`` names the selected steps."""

    def with_time(card: Callable[[TraceTable, int, DeviceTime], Card | None]) -> Callable[[int], Card | None]:
        def make(device: int) -> Card | None:
            time = shown.get(trace.devices[device].id)
            return None if time is None else card(trace, device, time)

        return make

    def figures(device: int) -> Card | None:
        info = trace.devices[device]
        if info.id not in times and (times or not info.name):
            return None
        return _card(trace, device, ratios.get(info.id), times.get(info.id), window)

    cards: dict[str, Payload] = {}
    for title, card in (
        ("Device time", with_time(_partition)),
        ("Idle time", with_time(_idle)),
        ("Compute by kernel class", with_time(_classes)),
        ("Time by core type", lambda device: cores_breakdown(trace, device)),
        ("Devices", figures),
    ):
        cards |= parts.run(title, partial(_each, trace, card), dict[str, Payload]())
    return cards


def _each(trace: TraceTable, card: Callable[[int], Card | None]) -> dict[str, Payload]:
    found = (card(device) for device in range(len(trace.devices)))
    return {each.name: each for each in found if each is not None}


def _bar(trace: TraceTable, device: int, name: str, title: str, total: int, parts: list[Slice]) -> Breakdown:
    number = trace.devices[device].id
    return Breakdown(f"{name}_{number}", title, f"device {number}, full trace", "ns", total, parts, "bar")


def _partition(trace: TraceTable, device: int, time: DeviceTime) -> Breakdown:
    values = asdict(time)
    titles = {"idle_ns": "Idle time, first to last kernel"}
    parts = [
        Slice(METRICS.metric(key, titles.get(key, ""), AT_WORK), category, values[key])
        for category, key in DEVICE_PARTS
        if key != "unrecorded_ns" or values[key]
    ]
    title = "Device time breakdown, first to last kernel"
    return _bar(trace, device, "device_time", title, time.window_ns, parts)


def _idle(trace: TraceTable, device: int, time: DeviceTime) -> Breakdown | None:
    causes = idle_causes(trace, device)
    if not any(spent for cause, spent in causes.items() if cause != Cause.NOT_RECORDED):
        return None
    parts = idle_slices(causes, AT_WORK, "idle")
    title = "Idle time by cause, first to last kernel"
    return _bar(trace, device, "device_idle", title, time.idle_ns, parts)


def _classes(trace: TraceTable, device: int, time: DeviceTime) -> Breakdown | None:
    if not time.compute_ns:
        return None
    parts = class_slices(compute_by_class(trace, device), METRICS.metric("compute_ns", window=AT_WORK), "kernels")
    return _bar(trace, device, "device_classes", "Compute by kernel class", time.compute_ns, parts)


@cached_by_argument
def idle_causes(trace: TraceTable, device: int) -> dict[Cause, int]:
    """Returns the idle time (ns) of a device for each cause, between the first and the last work of the device."""
    start, end = (np.array([time], np.int64) for time in work_span(trace, device))
    return {cause: int(time[0]) for cause, time in idle_account(trace, device).by_cause(start, end).items()}


def idle_facts(trace: TraceTable, steps: Steps, devices: dict[str, DeviceTime]) -> dict[str, Number]:
    facts: dict[str, Number] = {}
    of_steps = dict.fromkeys(Cause, 0)
    for i, device in enumerate(trace.devices):
        if device.id in devices:
            facts |= {f"device.{device.id}.idle.{word_of(c)}_ns": time for c, time in idle_causes(trace, i).items()}
            for cause, time in idle_account(trace, i).by_cause(steps.start_ns, steps.end_ns).items():
                of_steps[cause] += int(time.sum())
    count = len(devices) * len(steps.label)
    return facts | {f"overview.idle.{word_of(c)}_mean_ns": time / count for c, time in of_steps.items() if count}


def _matrix(device: DeviceInfo, ratios: DeviceRatios) -> list[Figure]:
    units = device.matrix_unit or NEUTRAL
    figures = [Figure(METRICS.metric("tensor_core_ratio", f"Kernel time on {units}"), ratios.tensor_core_ratio)]
    if ratios.matrix_unknown_ratio:
        title = f"Kernel time that may be on {units}"
        figures.append(Figure(METRICS.metric("matrix_unknown_ratio", title), ratios.matrix_unknown_ratio))
    return figures


def _title(device: DeviceInfo, text: str) -> str:
    return text.format(device.multiprocessor) if device.multiprocessor else ""


def _card(
    trace: TraceTable, device: int, ratios: DeviceRatios | None, time: DeviceTime | None, window: str
) -> Figures | None:
    info = trace.devices[device]
    figures = [
        Figure(METRICS.metric("memory_bytes"), info.memory_bytes),
        Figure(METRICS.metric("capability"), info.capability),
        Figure(METRICS.metric("sm_count", _title(info, "{}s")), info.sm_count),
    ]
    if ratios is not None:
        figures += [
            Figure(METRICS.metric("utilization", "Device busy", window), ratios.utilization),
            Figure(METRICS.metric("sm_efficiency", _title(info, "Est. {} efficiency"), window), ratios.sm_efficiency),
            Figure(METRICS.metric("achieved_occupancy", "", window), ratios.occupancy),
            *_matrix(info, ratios),
        ]
    # Without operators, all work lacks one.
    if time is not None and of_kind(trace.kind, EventKind.OPERATOR).any():
        figures.append(Figure(METRICS.metric("no_operator_ns"), time.no_operator_ns))
    known = [figure for figure in (*figures, *frequency_figures(trace, device)) if figure.value is not None]
    return Figures(f"device_{info.id}", f"Device {info.id}", info.name or "", known) if known else None
