"""The figures of a device, its facts, and how the allocator was set."""

from __future__ import annotations

from tb_plugin.analysis.base import Number
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, Levels, levels_of, ooms_of
from tb_plugin.analysis.snapshot.metrics import METRICS, MOMENT
from tb_plugin.model.snapshot.table import Snapshot
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Figure, Figures, Metric, Unit


def facts_of(held: DeviceLevels) -> dict[str, Number]:
    """Returns the numbers of a device by name."""
    levels = levels_of(held)
    found: dict[str, Number] = {
        "peak_allocated_bytes": int(levels.allocated.max()),
        "peak_reserved_bytes": int(levels.reserved.max()),
        "allocated_at_end_bytes": int(levels.allocated[-1]),
        "reserved_at_end_bytes": int(levels.reserved[-1]),
        "history_events": held.count,
        "out_of_memory": len(ooms_of(held)),
    }
    return {f"memory.{held.name}.{key}": value for key, value in found.items()}


def summary_of(held: DeviceLevels, levels: Levels) -> Figures:
    """Returns the headline of a device."""
    peak = levels.peak()
    most_reserved = levels.most_reserved()

    def when(event: int) -> str:
        return "" if not held.count else "before the first event" if event == MISSING else f"at event {event:,}"

    # Without a history nobody knows of peaks: the end is all there is.
    peaks = [
        METRICS.figure("most_allocated_bytes", int(levels.allocated[peak + 1]), note=when(peak)),
        METRICS.figure("most_reserved_bytes", int(levels.reserved[most_reserved + 1]), note=when(most_reserved)),
    ]
    figures = [
        *(peaks if held.count else []),
        METRICS.figure("allocated_at_end_bytes", int(levels.allocated[-1])),
        *_rest_of_reserved(levels, held.count - 1, "{} at the snapshot"),
        METRICS.figure("reserved_at_end_bytes", int(levels.reserved[-1])),
    ]
    if held.count:
        figures.append(METRICS.figure("history_events", held.count))
        if failed := len(ooms_of(held)):
            figures.append(METRICS.figure("oom_count", failed))
    return Figures("summary", held.name, "", figures, "headline")


def moment_figures(held: DeviceLevels, levels: Levels, at: int, when: str) -> Figures:
    """Returns what a device held after an event."""
    time = int(held.time_ns[at]) if at != MISSING and held.snapshot.has_times else None
    figures = [
        METRICS.figure("event_number", at if held.count else None),
        METRICS.figure("event_ns", time),
        METRICS.figure("allocated_bytes", int(levels.allocated[at + 1]), window=MOMENT),
        *_rest_of_reserved(levels, at),
        METRICS.figure("reserved_bytes", int(levels.reserved[at + 1]), window=MOMENT),
        METRICS.figure("active_bytes", int(levels.active[at + 1])),
        METRICS.figure("held_blocks", len(held.allocated(at))),
    ]
    return Figures("moment", f"Memory {when}", held.name, figures)


def _rest_of_reserved(levels: Levels, at: int, title: str = "{}") -> list[Figure]:
    """Reserved bytes that are not allocated: pending a free, if any are, and free. With those allocated they are all."""
    pending = int(levels.active[at + 1] - levels.allocated[at + 1])
    values = {"pending_now_bytes": pending, "free_bytes": int(levels.reserved[at + 1] - levels.active[at + 1])}
    return [
        METRICS.figure(key, value, title.format(METRICS[key].title), window=MOMENT)
        for key, value in values.items()
        if value or key == "free_bytes"
    ]


def settings_of(snapshot: Snapshot) -> Figures:
    """Returns the settings of the allocator, as the file states them."""
    figures = []
    for key, value in snapshot.settings.items():
        text = ", ".join(f"{name}: {each}" for name, each in value.items()) if isinstance(value, dict) else value
        about = "Recorded allocator setting."
        unit: Unit = "bool" if isinstance(value, bool) else "text" if isinstance(text, str) else "number"
        figures.append(Figure(Metric(f"setting.{key}", key, unit, about), text if text != "" else None))
    return Figures("settings", "Allocator settings", "", figures)
