"""Checks of the quality of the data.

In one file: a list of small checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from tb_plugin.analysis.allocator import HOST_TYPE
from tb_plugin.analysis.annotations import annotation_rows, looked_into
from tb_plugin.analysis.device_time import device_noun, without_operator
from tb_plugin.analysis.graphs.attribution import empty_capture_notice
from tb_plugin.analysis.graphs.origins import Agreement, origins_of
from tb_plugin.analysis.graphs.replays import has_replays
from tb_plugin.analysis.phrases import vendor_words
from tb_plugin.analysis.range_patterns import name_matches
from tb_plugin.analysis.range_traces import is_range_trace
from tb_plugin.analysis.reported_steps import missing_computation
from tb_plugin.analysis.selection import window_info
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.isolation import Isolation
from tb_plugin.model.trace.hardware import DeviceInfo
from tb_plugin.model.trace.overflow import CODE as OVERFLOWED
from tb_plugin.model.trace.report import Issue
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind, of_kind
from tb_plugin.model.trace.steps.annotations import marking
from tb_plugin.model.trace.steps.repetition import BEGIN, LAYER, RARE
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Figure, Link, Notice, Severity
from tb_plugin.views.overview.metrics import METRICS

RULES, PATTERN = "class_rules", "step_pattern"
# Key of the advice for traces of servers.
_SERVER_STEPS = "steps_missing.server"


def data_notices(trace: TraceTable, parts: Isolation | None = None) -> list[Notice]:
    """Returns the notices about the trace itself, most severe notice first."""
    run = (parts or Isolation()).run
    notices = [
        notice
        for title, check in CHECKS.items()
        for notice in run(f"Notices about {title}", partial(_found, check, trace), list[Notice]())
    ]
    order: dict[Severity, int] = {"high": 0, "medium": 1, "low": 2, "info": 3}
    return sorted(notices, key=lambda notice: order[notice.severity])


def _found(check: Callable[[TraceTable], Iterable[Notice]], trace: TraceTable) -> list[Notice]:
    word = device_noun(trace)
    return [
        replace(notice, text=vendor_words(notice.text, word), todo=vendor_words(notice.todo, word))
        for notice in check(trace)
    ]


class Check(msgspec.Struct, frozen=True):
    rule: str
    severity: Severity
    text: str
    todo: str
    """Advice; if empty, the advice of the profiler for this rule."""
    figures: Callable[[TraceTable], list[Figure]]
    """Returns the figures of the notice; if empty, there is nothing to report."""
    view: str = ""

    def __call__(self, trace: TraceTable) -> Iterator[Notice]:
        if figures := self.figures(trace):
            todo = self.todo or trace.recorder.todo(self.rule)
            yield _notice(self.rule, self.severity, self.text, todo, *figures, view=self.view)


def _notice(rule: str, severity: Severity, text: str, todo: str, *figures: Figure, view: str = "") -> Notice:
    evidence = Link(view, {}, f"Show {view}") if view else None
    return Notice(rule=rule, severity=severity, text=text, todo=todo, figures=list(figures), evidence=evidence)


def _affected(number: int, title: str = "Affected") -> Figure:
    return METRICS.figure("affected", int(number), title)


def _affected_if_any(number: int, title: str = "Affected") -> list[Figure]:
    return [_affected(number, title)] if number else []


def _plain(text: str) -> str:
    return text.replace("{", "(").replace("}", ")")


# Reading

# Rule, severity and advice by the outcome of an issue.
_BY_OUTCOME: dict[str, tuple[str, Severity, str]] = {
    "dropped": ("events_dropped", "high", "Numbers exclude these events. Record again if you need these events."),
    "quarantined": ("events_quarantined", "medium", "Numbers and time ranges exclude these events."),
    "repaired": (
        "events_repaired",
        "low",
        "These events are included in all numbers. The names of these events may differ from the original names.",
    ),
    "unknown": ("unknown_category", "info", "These events appear on the timeline but are not part of any sum."),
    "note": ("reading_note", "info", "No action needed."),
}
_SEPARATE_DOCUMENTS = "Export each recording to a separate file, or split this file into its JSON documents."


def _reading(trace: TraceTable) -> Iterator[Notice]:
    for issue in trace.report.issues:
        if issue.code != OVERFLOWED:  # shortened durations have their own check
            yield _issue(issue)
    if not trace.report.complete:
        names = _plain(", ".join(trace.report.cut_files))
        if trace.report.is_damaged:
            text = f"Damaged: {names}. {{affected}} events" if names else "The file is damaged: {affected} events"
            yield _notice(
                "damaged",
                "high",
                f"{text} were read.",
                "Copy the file again and compare checksums, or record again. Numbers cover only the readable part.",
                _affected(trace.report.events_loaded, "Events read"),
            )
            return
        yield _notice(
            "truncated",
            "high",
            f"Truncated: {names}. {{affected}} events of the profile were read."
            if names
            else "The file is truncated: {affected} events were read, the rest is missing.",
            "Wait until the job has written the whole file, or record again. Numbers cover only the written part.",
            _affected(trace.report.events_loaded, "Events read"),
        )


def _issue(issue: Issue) -> Notice:
    rule, severity, todo = _BY_OUTCOME[issue.outcome]
    text, title = "{affected} × " + _plain(f"{issue.file}: {issue.text}" if issue.file else issue.text), "Affected"
    if issue.code == RULES:
        rule, severity, text = RULES, "medium", _plain(issue.text)
        todo = "This line is ignored. Fix the line and restart TensorBoard: rules are read only at the start."
    elif issue.code == PATTERN:
        rule, severity, text = PATTERN, "medium", _plain(issue.text)
        todo = "The pattern is ignored. Fix the pattern and restart TensorBoard."
    elif issue.code == "unfinished_range":
        rule, severity, title = "ranges_unfinished", "medium", "Ranges"
        text = (
            "{affected} ranges have no end, for example because the recording stopped. These ranges are extended to "
            "the end of the trace, or to the next range if a thread has very many ranges."
        )
        todo = "The durations of these ranges are upper bounds, and the ranges appear nested in earlier ranges."
    elif issue.code == "legacy_device_rows":
        rule, severity, text = "unknown_category", "medium", "{affected} " + issue.text + "."
        todo = _BY_OUTCOME["unknown"][2]
    elif issue.code in ("second_event_list", "trailing_events"):
        text, todo = "{affected} × " + issue.text, _SEPARATE_DOCUMENTS
    return _notice(rule, severity, text, todo, _affected(issue.count, title))


def _window(trace: TraceTable) -> Iterator[Notice]:
    window = window_info(trace)
    if window is None:
        return
    keys = ["window_start_ns", "window_end_ns", "trace_ns", "window_events", "trace_events"]
    what, why = "Only part of the trace was opened", ""
    if window.steps:
        what = "Only steps {first_step} to {last_step} of {trace_steps} were opened"
        keys += ["first_step", "last_step", "trace_steps"]
    if window.peak_memory_bytes > window.budget_bytes:
        why = " The whole trace needs about {peak_memory_bytes} of memory; {budget_bytes} are allowed."
        keys += ["peak_memory_bytes", "budget_bytes"]
    values = {"window_start_ns": window.start_ns, "window_end_ns": window.end_ns, "window_events": window.events}
    figures = [METRICS.figure(key, values[key] if key in values else getattr(window, key)) for key in keys]
    times = "from {window_start_ns} to {window_end_ns} of {trace_ns}, {window_events} of {trace_events} events."
    todo = (
        "All numbers cover only this window. Choose another window above the view. To open the whole "
        "trace, restart TensorBoard with a larger TORCH_TRACE_MEMORY_MB."
    )
    yield _notice("window", "high", f"{what}: {times}{why}", todo, *figures)


# Device work


def _device_events(trace: TraceTable) -> Iterator[Notice]:
    work = of_kind(trace.kind, *DEVICE_WORK)
    names_device = (trace.kind == EventKind.RUNTIME).any() or trace.metadata.get("deviceProperties")
    # A window or a truncated file may hide device work.
    if not work.any() and names_device and trace.coverage.full is None and trace.report.complete:
        text = "The trace names a device but contains no kernels, copies or memsets."
        yield _notice("device_events_missing", "high", text, trace.recorder.todo("device_events_missing"))
    if unlaunched := int((work & (trace.launch == MISSING)).sum()):
        text = (
            "Device events without a recorded launch: {unlaunched}. They have no operator, unless their external id "
            "refers to one."
        )
        figure = METRICS.figure("unlaunched", unlaunched)
        yield _notice("unlaunched", "medium", text, trace.recorder.todo("unlaunched"), figure)
    without = without_operator(trace, np.flatnonzero(work))
    if len(without):
        text = "{no_operator_ns} of device time was launched outside any operator."
        figure = METRICS.figure("no_operator_ns", int(trace.dur_ns[without].sum()))
        yield _notice("no_operator", "low", text, _why_without(trace, without), figure, view="operators")
    if work.any() and trace.external_disagreements:
        text = "For {affected} device events, the external id does not match the operator around the launch."
        todo = trace.recorder.todo("external_ids_disagree")
        yield _notice("external_ids_disagree", "info", text, todo, _affected(trace.external_disagreements))


def _why_without(trace: TraceTable, rows: Int64) -> str:
    dur = trace.dur_ns[rows]
    if has_replays(trace) and 2 * int(dur[np.isin(rows, origins_of(trace).work)].sum()) > int(dur.sum()):
        return f"Most of this time comes from graph replays. {trace.recorder.todo('capture_missing')}".rstrip()
    return (
        "This time is in the row (no operator). Such work is launched by graphs, custom extensions or "
        "direct runtime calls."
    )


def _missing_kernels(trace: TraceTable) -> list[Figure]:
    missing = missing_computation(trace)
    if missing is None:
        return []
    return [METRICS.figure("stated_compute_ns", missing[1]), METRICS.figure("recorded_compute_ns", missing[0])]


def _clipped(trace: TraceTable) -> list[Figure]:
    cut = trace.clipped
    if not len(cut.row):
        return []
    return [_affected(len(cut.row)), METRICS.figure("recorded_dur_ns", int(cut.recorded_ns.max()))]


def _used_devices(trace: TraceTable) -> list[DeviceInfo]:
    return [device for i, device in enumerate(trace.devices) if (trace.device == i).any()]


def _device_numbers(trace: TraceTable) -> Iterator[Notice]:
    for device in _used_devices(trace):
        if device.ordinal is not None and device.id != str(device.ordinal) and not device.has_name:
            yield _notice(
                "device_numbers",
                "info",
                "Device {device} of kernels and copies is device {ordinal} in allocator events and in the device list.",
                "Both numbers are shown as recorded; memory checks treat both as one device.",
                METRICS.figure("device", device.id),
                METRICS.figure("ordinal", device.ordinal),
            )


def _unmatched_devices(trace: TraceTable) -> list[Figure]:
    memory = trace.memory
    allocating = (memory.device_type != HOST_TYPE) & (memory.device_id >= 0)
    unknown = sum(device.ordinal is None for device in _used_devices(trace))
    return _affected_if_any(unknown, "Devices") if allocating.any() else []


# Steps

# Reasons why repeating launches were not accepted as steps.
_UNANSWERED = {
    RARE: " Steps could not be inferred: no launch sequence repeats four times and covers half of the trace.",
    LAYER: " Steps could not be inferred: the sequence of launches that repeats may be a layer instead of a step.",
    BEGIN: " Steps could not be inferred: launches repeat, but the start of a step is not known.",
}


def _steps(trace: TraceTable) -> Iterator[Notice]:
    if not (trace.steps.recorded or (trace.coverage.full and trace.coverage.full.steps) or is_range_trace(trace)):
        why = _UNANSWERED.get(trace.steps.unanswered, "")
        serves = name_matches(trace, trace.recorder.iterating).any()
        yield _notice(
            "steps_missing",
            "medium",
            f"The trace has no steps: the whole recording is treated as one step.{why}",
            trace.recorder.todo(_SERVER_STEPS if serves else "steps_missing"),
        )
    names = trace.strings.take(np.unique(trace.name[trace.kind == EventKind.ANNOTATION]))
    unread = names.filter(pa.array(~marking(names, trace.recorder.steps)))
    for framework, pattern in trace.recorder.marks:
        if len(found := unread.filter(pc.match_substring_regex(unread, pattern))):
            yield _notice(
                "server_steps_unread",
                "medium",
                f"{{affected}} step names of {framework} have an unknown format: {{unread_mark}}.",
                trace.recorder.todo(_SERVER_STEPS),
                _affected(len(found)),
                METRICS.figure("unread_mark", str(found[0].as_py())),
            )


# Recording options


def _options(trace: TraceTable) -> Iterator[Notice]:
    if not (trace.kind == EventKind.OPERATOR).any() or trace.coverage.full is not None:
        return  # the data outside a window is unknown
    stacked = (trace.operators.stack != MISSING).any() or (trace.kind == EventKind.PYTHON).any()
    for rule, recorded, option, what in (
        ("shapes_missing", (trace.operators.shapes != MISSING).any(), "", "input shapes"),
        ("stacks_missing", stacked, "with_stack", "call stacks"),
        ("memory_missing", len(trace.memory.time_ns) > 0, "profile_memory", "memory events"),
    ):
        todo = trace.recorder.todo(rule)
        if recorded or not todo:  # other profilers lack these options
            continue
        text = f"No {what} were recorded."
        # The data may also be in the missing section of a truncated file.
        if option and trace.metadata.get(option):
            text, todo = f"{option} was on, but the part that was read contains no {what}.", ""
        elif option and not trace.report.complete:
            text, todo = f"The part that was read contains no {what}.", ""
        yield _notice(rule, "info", text, todo)


def crossing_count(trace: TraceTable) -> int:
    """Returns the number of host events, except Python calls, that partly overlap another event of their thread."""
    is_python = trace.kind == EventKind.PYTHON
    is_python[trace.python.row] = True  # module calls recorded as Python calls
    return int((trace.overlaps & ~is_python).sum())


def _format(trace: TraceTable) -> Iterator[Notice]:
    if lacks := trace.recorder.lacks:
        text = f"This format never contains {lacks}."
        yield _notice("format_lacks", "info", text, trace.recorder.todo("format_lacks"))


def capture_notices(trace: TraceTable) -> list[Notice]:
    """Returns notices about graphs or nodes that captures do not identify. Without captures, the result is empty."""
    if empty := empty_capture_notice("capture_empty", trace, METRICS, "capture"):
        return [empty]
    agreements = origins_of(trace).agreements.values()
    partial = [each for each in agreements if each.is_used]
    # Captures in the trace itself may be of graphs that the trace does not replay.
    unused = [each for each in agreements if not each.is_used and each.source]
    found = []
    if partial:
        agreeing, nodes = (sum(getattr(each, key) for each in partial) for key in ("agreeing", "nodes"))
        text = (
            f"The profiler lost events: only the first {agreeing:,} of {nodes:,} nodes in {{affected}} replayed graphs match "
            "{capture}."
        )
        todo = "Nodes after a lost event have no operator. Record the capture and the replays again."
        found.append(_capture_notice("capture_partial", "low", text, todo, partial))
    if unused:
        best = max(unused, key=lambda each: each.agreeing / each.nodes)
        text = f"{{capture}} does not match {{affected}} of the replayed graphs: at most {best} match."
        todo = (
            "For these graphs, only the trace itself is used. Choose the capture of this process; another "
            "model, version or batch has different kernels."
        )
        found.append(_capture_notice("capture_refused", "medium", text, todo, unused))
    return found


def _capture_notice(
    rule: str, severity: Literal["low", "medium"], text: str, todo: str, those: list[Agreement]
) -> Notice:
    source = max(each.source for each in those) or "this trace"
    figures = [METRICS.figure("capture", source), METRICS.figure("affected", len(those), "Graphs")]
    return _notice(rule, severity, text, todo, *figures)


CHECKS: dict[str, Callable[[TraceTable], Iterable[Notice]]] = {
    "the window": _window,
    "reading": _reading,
    "device events": _device_events,
    "captures": capture_notices,
    "missing kernels": Check(
        "kernels_missing",
        "high",
        "The profiler reports {stated_compute_ns} of computation, but the recorded kernels cover only "
        "{recorded_compute_ns}.",
        "Idle time and overlap come from the reported step times only. Files of the profile are missing or truncated.",
        _missing_kernels,
    ),
    "steps": _steps,
    "incomplete steps": Check(
        "steps_incomplete",
        "low",
        "Truncated steps skipped at the end: {affected}.",
        "",
        lambda trace: _affected_if_any(len(trace.steps.dropped), "Steps"),
    ),
    "clipped durations": Check(
        "durations_clipped",
        "medium",
        "{affected} device events are longer (up to {recorded_dur_ns}) than the trace, although their streams ran "
        "other work.",
        "These durations overflowed in the profiler. In all numbers, these events end at the next event of the "
        "stream. The event panel shows the recorded duration.",
        _clipped,
        view="timeline",
    ),
    "device numbers": _device_numbers,
    "unmatched device numbers": Check(
        "device_numbers_unmatched",
        "info",
        "{affected} devices have one number in kernels and another number in allocator events. The file does not "
        "show which numbers belong together.",
        "All device numbers are shown as recorded. Checks that compare memory use with the memory size of a device "
        "are off.",
        _unmatched_devices,
    ),
    "options": _options,
    "structure": Check(
        "partial_overlaps",
        "info",
        "Host events that partly overlap another event of their thread: {affected}.",
        "Each of these events keeps its full duration and has a separate row on the timeline.",
        lambda trace: _affected_if_any(crossing_count(trace)),
        view="timeline",
    ),
    "the format": _format,
    "phases": Check(
        "phases_deep",
        "low",
        "Annotations nested too deeply for device time: {affected}.",
        "The view Phases shows calls and host time of these annotations, but no device time. These annotations "
        "cannot be selected as a phase.",
        lambda trace: _affected_if_any(int((annotation_rows(trace) & ~looked_into(trace)).sum()), "Annotations"),
        view="phases",
    ),
}
"""Checks in the order of notices with the same severity. A failed check does not affect the others."""
