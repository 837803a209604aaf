"""Key numbers and allocator settings of a device."""

from __future__ import annotations

from tb_plugin.analysis.base import Number
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, Levels, levels_of, ooms_of
from tb_plugin.analysis.snapshot.metrics import METRICS, MOMENT
from tb_plugin.model.snapshot.table import Snapshot
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Figure, Figures, Metric, Unit


def facts_of(device: DeviceLevels) -> dict[str, Number]:
    levels = levels_of(device)
    found: dict[str, Number] = {
        "peak_allocated_bytes": int(levels.allocated.max()),
        "peak_reserved_bytes": int(levels.reserved.max()),
        "allocated_at_end_bytes": int(levels.allocated[-1]),
        "reserved_at_end_bytes": int(levels.reserved[-1]),
        "history_events": device.count,
        "out_of_memory": len(ooms_of(device)),
    }
    return {f"memory.{device.name}.{key}": value for key, value in found.items()}


def summary_of(device: DeviceLevels, levels: Levels) -> Figures:
    peak = levels.peak()
    most_reserved = levels.most_reserved()

    def when(event: int) -> str:
        return "" if not device.count else "before the first event" if event == MISSING else f"at event {event:,}"

    # Without a history the peaks are unknown.
    peaks = [
        METRICS.figure("most_allocated_bytes", int(levels.allocated[peak + 1]), note=when(peak)),
        METRICS.figure("most_reserved_bytes", int(levels.reserved[most_reserved + 1]), note=when(most_reserved)),
    ]
    figures = [
        *(peaks if device.count else []),
        METRICS.figure("allocated_at_end_bytes", int(levels.allocated[-1])),
        *_rest_of_reserved(levels, device.count - 1, "{} at the snapshot"),
        METRICS.figure("reserved_at_end_bytes", int(levels.reserved[-1])),
    ]
    if device.count:
        figures.append(METRICS.figure("history_events", device.count))
        if failed := len(ooms_of(device)):
            figures.append(METRICS.figure("oom_count", failed))
    return Figures("summary", device.name, "", figures, "headline")


def moment_figures(device: DeviceLevels, levels: Levels, at: int, when: str) -> Figures:
    time = int(device.time_ns[at]) if at != MISSING and device.snapshot.has_times else None
    figures = [
        METRICS.figure("event_number", at if device.count else None),
        METRICS.figure("event_ns", time),
        METRICS.figure("allocated_bytes", int(levels.allocated[at + 1]), window=MOMENT),
        *_rest_of_reserved(levels, at),
        METRICS.figure("reserved_bytes", int(levels.reserved[at + 1]), window=MOMENT),
        METRICS.figure("active_bytes", int(levels.active[at + 1])),
        METRICS.figure("held_blocks", len(device.allocated(at))),
    ]
    return Figures("moment", f"Memory {when}", device.name, figures)


def _rest_of_reserved(levels: Levels, at: int, title: str = "{}") -> list[Figure]:
    pending = int(levels.active[at + 1] - levels.allocated[at + 1])
    values = {"pending_now_bytes": pending, "free_bytes": int(levels.reserved[at + 1] - levels.active[at + 1])}
    return [
        METRICS.figure(key, value, title.format(METRICS[key].title), window=MOMENT)
        for key, value in values.items()
        if value or key == "free_bytes"
    ]


def settings_of(snapshot: Snapshot) -> Figures:
    figures = []
    for key, value in snapshot.settings.items():
        text = ", ".join(f"{name}: {each}" for name, each in value.items()) if isinstance(value, dict) else value
        about = "Recorded allocator setting."
        unit: Unit = "bool" if isinstance(value, bool) else "text" if isinstance(text, str) else "number"
        figures.append(Figure(Metric(f"setting.{key}", key, unit, about), text if text != "" else None))
    return Figures("settings", "Allocator settings", "", figures)
