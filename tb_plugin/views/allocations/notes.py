"""Key numbers, the summary sentence and the data notices of one device."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.base import Number
from tb_plugin.analysis.memory_categories import TITLES
from tb_plugin.analysis.phrases import plural
from tb_plugin.analysis.snapshot.categories import bytes_by_category, category_notes
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, Levels, levels_of, ooms_of
from tb_plugin.analysis.snapshot.labels import NO_HISTORY, Ids, stack_words, texts_of
from tb_plugin.analysis.snapshot.metrics import HISTORY, METRICS, MOMENT, RAN_OUT
from tb_plugin.analysis.snapshot.out_of_memory import largest_line
from tb_plugin.analysis.snapshot.steps import HistorySteps
from tb_plugin.model.snapshot.table import Snapshot
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Figure, Figures, Link, Metric, Notice, Notices, Unit
from tb_plugin.views.allocations.tables import MOST_STEPS

_ODDITIES = {
    "unmatched_releases": (
        "Releases of addresses at which no block was allocated: {odd_events}. These releases do not affect any number."
    ),
    "unreleased_reuse": (
        "Blocks whose address was reused without a recorded release: {odd_events}. These blocks are "
        "shown as allocated until their address is reused."
    ),
    "lost_blocks": (
        "Blocks without a recorded release that are not in the final state of the snapshot: "
        "{odd_events}. These blocks are shown as allocated until the end of the history."
    ),
    "unmatched_segments": "Segment events that contradict the other events: {odd_events}.",
}


def answer_of(device: DeviceLevels, levels: Levels, steps: HistorySteps) -> Notices:
    peak = levels.peak()
    most = int(levels.allocated[peak + 1])
    if len(ooms_of(device)):
        return Notices("answer", "Out of memory", "answer", [_failure(device, levels)])
    figures = [METRICS.figure("most_allocated_bytes", most)]
    text = f"Peak of {device.name}: {{most_allocated_bytes}} allocated"
    if not device.count:
        text = f"{NO_HISTORY} {device.name} has {{most_allocated_bytes}} allocated"
    elif peak == MISSING:
        text += ", before the first recorded event"
    else:
        text += ", after event {event_number}"
        figures.append(METRICS.figure("event_number", peak))
        details = []
        if device.snapshot.has_times:
            details.append("{event_ns}")
            figures.append(METRICS.figure("event_ns", int(device.time_ns[peak])))
        step = steps.at(peak)
        if step is not None:
            details.append("step {step_name}")
            figures.append(METRICS.figure("step_name", step))
        text += f" ({', '.join(details)})" if details else ""
    sizes = bytes_by_category(device, device.allocated(peak))
    top = max(
        (each for each in sizes if each in TITLES and each != "unknown"), key=lambda each: sizes[each], default=""
    )
    if top and most:
        text += ". Largest known category: {top_category} ({top_category_bytes}, {top_category_ratio})"
        figures += [
            METRICS.figure("top_category", TITLES[top].lower()),
            METRICS.figure("top_category_bytes", sizes[top], window="the peak"),
            METRICS.figure("top_category_ratio", sizes[top] / most, window="the peak"),
        ]
    name, size, unnamed = largest_line(device, peak)
    if name is not None and most:
        text += ". Largest known allocation site: {allocation_line} ({line_bytes}, {line_ratio})"
        if unnamed > size:
            text += "; {stackless_bytes} have no stack"
            figures.append(METRICS.figure("stackless_bytes", unnamed, window="the peak"))
        figures += [
            METRICS.figure("line_bytes", size, window="the peak"),
            METRICS.figure("line_ratio", size / most, window="the peak"),
            METRICS.figure("allocation_line", name),
        ]
    notice = Notice("memory_peak", "info", f"{text}.", "", figures, measure="most_allocated_bytes")
    title = "Peak" if device.count else "At the snapshot"
    return Notices("answer", title, "answer", [notice] if most else [])


def _failure(device: DeviceLevels, levels: Levels) -> Notice:
    ooms = ooms_of(device)
    event = int(ooms[-1])
    at = device.events.start + event
    line = _lines(device, device.snapshot.events.stack[at : at + 1])[0]
    figures = [
        METRICS.figure("event_number", event),
        METRICS.figure("asked_bytes", int(device.snapshot.events.size[at])),
        METRICS.figure("allocated_bytes", int(levels.allocated[event + 1]), window=RAN_OUT),
        METRICS.figure("most_allocated_bytes", int(levels.allocated.max())),
    ]
    text = "Out of memory at event {event_number}: {asked_bytes} requested"
    if line is not None:
        text += " by {asking_line}"
        figures.append(METRICS.figure("asking_line", line))
    text += "; {allocated_bytes} were allocated."
    if len(ooms) > 1:
        text += " Memory ran out {oom_count} times."
        figures.append(METRICS.figure("oom_count", len(ooms)))
    text += " Peak: {most_allocated_bytes}."
    link = Link("segments", {"device": device.name, "at": str(event)}, "Show the segments at that event")
    return Notice("memory_ran_out", "high", text, "", figures, evidence=link)


def _lines(device: DeviceLevels, stack: Ids) -> list[str | None]:
    lines: list[str | None] = texts_of(stack_words(device.snapshot).line, stack).to_pylist()
    return lines


def data_notices(device: DeviceLevels, levels: Levels, steps: int) -> Notices:
    snapshot = device.snapshot
    notices = []
    if not device.count:
        of = f" of {device.name}" if snapshot.has_history else ""
        text = f"The snapshot contains no history{of}; only memory at the time of the snapshot is known."
        todo = device.snapshot.recorder.todo("history_missing")
        notices.append(_notice("history_missing", text, todo))
    elif (cut := _cut(device, levels)) is not None:
        notices.append(cut)
    if device.count and not snapshot.has_times:
        notices.append(_notice("times_missing", "Events have no times, so charts use event numbers."))
    stacks = np.unique(device.block("stack"))
    if len(stacks) and not any(_lines(device, stacks)):
        text = "No block has a stack, so allocation lines are unknown."
        todo = device.snapshot.recorder.todo("snapshot_stacks_missing")
        notices.append(_notice("stacks_missing", text, todo))
    if device.place < len(snapshot.oddities):
        for name, text in _ODDITIES.items():
            count = getattr(snapshot.oddities[device.place], name)
            if count:
                figure = METRICS.figure("odd_events", count, window=HISTORY)
                notices.append(_notice("history_odd", text, "", figure))
    if steps > MOST_STEPS:
        text = f"One in {-(-steps // MOST_STEPS)} of the {{snapshot_steps}} steps is listed and marked. "
        text += "Select a part of the history to see all of its steps."
        notices.append(_notice("steps_thinned", text, "", METRICS.figure("snapshot_steps", steps)))
    notices += category_notes(device)
    return Notices("data_quality", "About these numbers", "data", notices)


def _notice(rule: str, text: str, todo: str = "", *figures: Figure) -> Notice:
    return Notice(rule, "info", text, todo, list(figures))


def _cut(device: DeviceLevels, levels: Levels) -> Notice | None:
    snapshot = device.snapshot
    is_cut = device.place < len(snapshot.device_ids) and snapshot.device_ids[device.place] in snapshot.overflowed
    earlier = device.block("begin") == MISSING
    if not is_cut and not earlier.any():
        return None
    blocks = int(earlier.sum())
    text = f"{{unrecorded_bytes}} in {{unrecorded_blocks}} {plural(blocks, 'block')} were allocated before the first "
    text += "recorded event. Their allocation time and most of their stacks are unknown."
    figures = [METRICS.figure("unrecorded_bytes", int(levels.active[0])), METRICS.figure("unrecorded_blocks", blocks)]
    if is_cut and snapshot.max_entries:
        text += " Older events were dropped: the recorder stores at most {entry_limit}."
        figures.append(METRICS.figure("entry_limit", snapshot.max_entries))
    elif is_cut:
        text += " Older events were dropped."
    todo = device.snapshot.recorder.todo("history_cut.stated" if is_cut else "history_cut")
    return _notice("history_cut", text, todo, *figures)


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
