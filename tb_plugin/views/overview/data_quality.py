"""Notices about the quality of the data.

All notices are in one file because they share helpers. The table at the end sets their order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.allocator import HOST_TYPE
from tb_plugin.analysis.annotations import annotation_rows, looked_into
from tb_plugin.analysis.device_time import without_operator
from tb_plugin.analysis.graphs.origins import origins_of
from tb_plugin.analysis.graphs.replays import has_replays
from tb_plugin.analysis.range_patterns import name_matches
from tb_plugin.analysis.range_traces import is_range_trace
from tb_plugin.analysis.reported_steps import missing_computation
from tb_plugin.analysis.selection import window_info
from tb_plugin.lib.isolation import Isolation
from tb_plugin.model.trace.overflow import CODE as OVERFLOWED
from tb_plugin.model.trace.report import Issue, ReadReport
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind, of_kind
from tb_plugin.model.trace.steps.annotations import marking
from tb_plugin.model.trace.steps.repetition import BEGIN, LAYER, RARE
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Figure, Link, Notice, Severity
from tb_plugin.views.overview.capture_notices import capture_notices
from tb_plugin.views.overview.metrics import METRICS

Int64 = npt.NDArray[np.int64]


def data_notices(trace: TraceTable, parts: Isolation | None = None) -> list[Notice]:
    """Returns the notices about the trace itself, most severe first."""
    run = (parts or Isolation()).run
    notices = [notice for title, look in _LOOKS.items() for notice in run(title, partial(look, trace), list[Notice]())]
    order: dict[Severity, int] = {"high": 0, "medium": 1, "low": 2, "info": 3}
    return sorted(notices, key=lambda notice: order[notice.severity])


def _notice(rule: str, severity: Severity, text: str, todo: str, *figures: Figure, view: str = "") -> Notice:
    evidence = Link(view, {}, f"Show {view}") if view else None
    return Notice(rule=rule, severity=severity, text=text, todo=todo, figures=list(figures), evidence=evidence)


def _count(number: int, title: str = "Affected") -> Figure:
    return METRICS.figure("affected", int(number), title)


RULES, PATTERN = "class_rules", "step_pattern"
# Issue codes that do not stem from a user's class rule or step pattern.
_SERVER_STEPS = "steps_missing.server"
_READING: dict[str, tuple[str, Severity, str]] = {
    "dropped": (
        "events_dropped",
        "high",
        "Numbers exclude these events. Record again if they matter.",
    ),
    "quarantined": ("events_quarantined", "medium", "Numbers and time ranges exclude these events."),
    "repaired": (
        "events_repaired",
        "low",
        "These events are included in all numbers. Their names may differ from the original.",
    ),
    "unknown": ("unknown_category", "info", "They appear on the timeline but are not part of any sum."),
    "note": ("reading_note", "info", "No action needed."),
}


def _reading(trace: TraceTable) -> list[Notice]:
    # Durations that were shortened have their own notice, others are in OWN_WORDS.
    notices = [OWN_WORDS.get(issue.code, _issue)(issue) for issue in trace.report.issues if issue.code != OVERFLOWED]
    if not trace.report.complete:
        notices.append(
            _notice(
                "truncated",
                "high",
                _truncated_file(trace.report),
                (
                    "Wait until the job has written the whole file, or record again. Numbers cover only the written "
                    "part."
                ),
                _count(trace.report.events_loaded, "Events read"),
            )
        )
    return notices


def _truncated_file(report: ReadReport) -> str:
    names = ", ".join(report.cut_files).replace("{", "(").replace("}", ")")
    if names:
        return f"Truncated: {names}. {{affected}} events of the profile were read."
    return "The file is truncated: {affected} events were read, the rest is missing."


def _window(trace: TraceTable) -> list[Notice]:
    window = window_info(trace)
    if window is None:
        return []
    figures = [
        METRICS.figure("window_start_ns", window.start_ns),
        METRICS.figure("window_end_ns", window.end_ns),
        METRICS.figure("trace_ns", window.trace_ns),
        METRICS.figure("window_events", window.events),
        METRICS.figure("trace_events", window.trace_events),
    ]
    what, why = "Only part of the trace was opened", ""
    if window.steps:
        what = "Only steps {first_step} to {last_step} of {trace_steps} were opened"
        figures += [METRICS.figure("first_step", window.first_step), METRICS.figure("last_step", window.last_step)]
        figures.append(METRICS.figure("trace_steps", window.trace_steps))
    if window.peak_memory_bytes > window.budget_bytes:
        why = " The whole trace needs about {peak_memory_bytes} of memory; {budget_bytes} are allowed."
        figures += [
            METRICS.figure("peak_memory_bytes", window.peak_memory_bytes),
            METRICS.figure("budget_bytes", window.budget_bytes),
        ]
    times = "from {window_start_ns} to {window_end_ns} of {trace_ns}, {window_events} of {trace_events} events."
    todo = (
        "All numbers cover this window only. Choose another window above the view, or restart with a "
        "larger TORCH_TRACE_MEMORY_MB to open the whole trace."
    )
    return [_notice("window", "high", f"{what}: {times}{why}", todo, *figures)]


def _missing_kernels(trace: TraceTable) -> list[Notice]:
    missing = missing_computation(trace)
    if missing is None:
        return []
    return [
        _notice(
            "kernels_missing",
            "high",
            (
                "The profiler reports {stated_compute_ns} of computation, but the recorded kernels cover only "
                "{recorded_compute_ns}."
            ),
            (
                "Idle time and overlap come from the reported step times only. Files of the profile are missing "
                "or truncated."
            ),
            METRICS.figure("stated_compute_ns", missing[1]),
            METRICS.figure("recorded_compute_ns", missing[0]),
        )
    ]


def _clipped(trace: TraceTable) -> list[Notice]:
    cut = trace.clipped
    if not len(cut.row):
        return []
    return [
        _notice(
            "durations_clipped",
            "medium",
            (
                "{affected} device events are longer (up to {recorded_dur_ns}) than the trace, although their "
                "streams ran other work."
            ),
            (
                "These durations overflowed in the profiler. In all numbers they end at the next event of the "
                "stream; the event panel shows the recorded duration."
            ),
            _count(len(cut.row)),
            METRICS.figure("recorded_dur_ns", int(cut.recorded_ns.max())),
            view="timeline",
        )
    ]


def _issue(issue: Issue) -> Notice:
    rule, severity, todo = _READING[issue.outcome]
    text = (f"{issue.file}: {issue.text}" if issue.file else issue.text).replace("{", "(").replace("}", ")")
    return _notice(rule, severity, "{affected} × " + text, todo, _count(issue.count))


def _rules(issue: Issue) -> Notice:
    text = issue.text.replace("{", "(").replace("}", ")")
    todo = "This line is ignored. Fix it and restart: the rules are read only at start."
    return _notice(RULES, "medium", text, todo, _count(issue.count))


def _pattern(issue: Issue) -> Notice:
    text = issue.text.replace("{", "(").replace("}", ")")
    return _notice(PATTERN, "medium", text, "It is ignored. Fix it and restart.", _count(issue.count))


def _unfinished(issue: Issue) -> Notice:
    return _notice(
        "ranges_unfinished",
        "medium",
        (
            "{affected} ranges have no end, for example because the recording stopped. They are extended to "
            "the end of the trace, or to the next range if a thread has very many ranges."
        ),
        "Their durations are upper bounds, and they appear nested in earlier ranges.",
        _count(issue.count, "Ranges"),
    )


def _lost_recording(issue: Issue) -> Notice:
    rule, severity, _ = _READING[issue.outcome]
    todo = "Export each recording to a separate file, or split this file into its JSON documents."
    return _notice(rule, severity, "{affected} × " + issue.text, todo, _count(issue.count))


def _legacy(issue: Issue) -> Notice:
    todo = "They appear on the timeline but are not part of any sum."
    return _notice("unknown_category", "medium", "{affected} " + issue.text + ".", todo, _count(issue.count))


OWN_WORDS = {
    RULES: _rules,
    PATTERN: _pattern,
    "unfinished_range": _unfinished,
    "legacy_device_rows": _legacy,
    "second_event_list": _lost_recording,
    "trailing_events": _lost_recording,
}
"""Functions that return the notice for an issue, by issue code. Other issues get a general notice."""


def _device_events(trace: TraceTable) -> list[Notice]:
    notices = []
    work = of_kind(trace.kind, *DEVICE_WORK)
    if not work.any():
        if trace.coverage.full is not None or not trace.report.complete:
            return []  # a window or a truncated file may hide some
        if (trace.kind == EventKind.RUNTIME).any() or trace.metadata.get("deviceProperties"):
            notices.append(
                _notice(
                    "device_events_missing",
                    "high",
                    "The trace names a device but contains no kernels, copies or memsets.",
                    trace.recorder.todo("device_events_missing"),
                )
            )
        return notices
    unlaunched = work & (trace.launch == MISSING)
    if unlaunched.any():
        notices.append(
            _notice(
                "unlaunched",
                "medium",
                (
                    "{unlaunched} of the device events have no recorded launch. They have no operator, unless their "
                    "external id names one."
                ),
                trace.recorder.todo("unlaunched"),
                METRICS.figure("unlaunched", int(unlaunched.sum())),
            )
        )
    without = without_operator(trace, np.flatnonzero(work))
    if len(without):
        notices.append(
            _notice(
                "no_operator",
                "low",
                "{no_operator_ns} of device time was launched outside any operator.",
                _why_without(trace, without),
                METRICS.figure("no_operator_ns", int(trace.dur_ns[without].sum())),
                view="operators",
            )
        )
    if trace.external_disagreements:
        notices.append(
            _notice(
                "external_ids_disagree",
                "info",
                ("For {affected} device events, the external id does not match the operator around the launch."),
                trace.recorder.todo("external_ids_disagree"),
                _count(trace.external_disagreements),
            )
        )
    return notices


def _why_without(trace: TraceTable, rows: Int64) -> str:
    dur = trace.dur_ns[rows]
    if has_replays(trace) and 2 * int(dur[np.isin(rows, origins_of(trace).work)].sum()) > int(dur.sum()):
        return f"Most of it comes from graph replays. {trace.recorder.todo('capture_missing')}".rstrip()
    return "It is counted in the row (no operator): launches from graphs, custom extensions or direct runtime calls."


def _device_numbers(trace: TraceTable) -> list[Notice]:
    used = [device for i, device in enumerate(trace.devices) if (trace.device == i).any()]
    memory = trace.memory
    allocating = np.unique(memory.device_id[(memory.device_type != HOST_TYPE) & (memory.device_id >= 0)])
    other = [d for d in used if d.ordinal is not None and d.id != str(d.ordinal) and not d.has_name]
    unknown = [d for d in used if d.ordinal is None]
    notices = [
        _notice(
            "device_numbers",
            "info",
            ("Device {device} of kernels and copies is device {ordinal} in allocator events and in the device list."),
            "Both are shown as recorded; memory checks treat them as one device.",
            METRICS.figure("device", device.id),
            METRICS.figure("ordinal", device.ordinal),
        )
        for device in other
    ]
    if unknown and len(allocating):
        notices.append(
            _notice(
                "device_numbers_unmatched",
                "info",
                (
                    "Kernels and allocator events number {affected} devices differently, and the file does not show "
                    "how the numbers correspond."
                ),
                "Both are shown as recorded; checks against the memory size are off.",
                _count(len(unknown), "Devices"),
            )
        )
    return notices


# Reasons why repeating launches were not accepted as steps.
_UNANSWERED = {
    RARE: " None were inferred: no launch sequence repeats four times and covers half of the trace.",
    LAYER: " None were inferred: the repeating part may be a layer instead of a step.",
    BEGIN: " None were inferred: launches repeat, but the start of a step is not known.",
}


def _steps(trace: TraceTable) -> list[Notice]:
    notices = []
    stepped = trace.steps.recorded or (trace.coverage.full and trace.coverage.full.steps)
    if not stepped and not is_range_trace(trace):
        notices.append(
            _notice(
                "steps_missing",
                "medium",
                "The trace has no steps: the whole recording is treated as one "
                f"step.{_UNANSWERED.get(trace.steps.unanswered, '')}",
                trace.recorder.todo(
                    _SERVER_STEPS if name_matches(trace, trace.recorder.iterating).any() else "steps_missing"
                ),
            )
        )
    notices += _unread_marks(trace)
    if trace.steps.dropped:
        notices.append(
            _notice(
                "steps_incomplete",
                "low",
                "Truncated steps skipped at the end: {affected}.",
                trace.recorder.todo("steps_incomplete"),
                _count(len(trace.steps.dropped), "Steps"),
            )
        )
    return notices


def _unread_marks(trace: TraceTable) -> list[Notice]:
    names = trace.strings.take(np.unique(trace.name[trace.kind == EventKind.ANNOTATION]))
    unread = names.filter(pa.array(~marking(names, trace.recorder.steps)))
    return [
        _notice(
            "server_steps_unread",
            "medium",
            f"{{affected}} step names of {framework} have an unknown format: {{unread_mark}}.",
            trace.recorder.todo(_SERVER_STEPS),
            _count(len(found)),
            METRICS.figure("unread_mark", str(found[0].as_py())),
        )
        for framework, pattern in trace.recorder.marks
        if len(found := unread.filter(pc.match_substring_regex(unread, pattern)))
    ]


def _advice_if_recorded(trace: TraceTable, option: str, what: str) -> str:
    """Returns a text to show instead of recording advice, if the data may have been recorded; otherwise "".

    The data may also be in the missing part of the file.
    """
    if trace.metadata.get(option):
        return f"{option} was on, but the part that was read contains no {what}."
    return "" if trace.report.complete else f"The part that was read contains no {what}."


def _options(trace: TraceTable) -> list[Notice]:
    operators = trace.kind == EventKind.OPERATOR
    if not operators.any() or trace.coverage.full is not None:
        return []  # the data outside a window is unknown
    notices = []
    if not (trace.operators.shapes != MISSING).any():
        notices.append(
            _notice("shapes_missing", "info", "No input shapes were recorded.", trace.recorder.todo("shapes_missing"))
        )
    stacked = (trace.operators.stack != MISSING).any() or (trace.kind == EventKind.PYTHON).any()
    if not stacked:
        lost, todo = _advice_if_recorded(trace, "with_stack", "call stacks"), trace.recorder.todo("stacks_missing")
        notices.append(_notice("stacks_missing", "info", lost or "No call stacks were recorded.", "" if lost else todo))
    if not len(trace.memory.time_ns):
        lost, todo = (
            _advice_if_recorded(trace, "profile_memory", "memory events"),
            trace.recorder.todo("memory_missing"),
        )
        notices.append(
            _notice("memory_missing", "info", lost or "No memory events were recorded.", "" if lost else todo)
        )
    return [notice for notice in notices if trace.recorder.todo(notice.rule)]  # other profilers lack these options


def crossing_count(trace: TraceTable) -> int:
    """Returns the number of host events, except Python calls, that partially overlap another event on the same
    thread.
    """
    is_python = trace.kind == EventKind.PYTHON
    is_python[trace.python.row] = True  # module calls recorded as Python calls
    return int((trace.overlaps & ~is_python).sum())


def _structure(trace: TraceTable) -> list[Notice]:
    crossing = crossing_count(trace)
    if not crossing:
        return []
    return [
        _notice(
            "partial_overlaps",
            "info",
            "Host events that partly overlap another event of their thread: {affected}.",
            "Each keeps its full duration and has a separate row on the timeline.",
            _count(crossing),
            view="timeline",
        )
    ]


def _format(trace: TraceTable) -> list[Notice]:
    recorder = trace.recorder
    if not recorder.lacks:
        return []
    text = f"This format never contains {recorder.lacks}."
    return [_notice("format_lacks", "info", text, recorder.todo("format_lacks"))]


def _phases(trace: TraceTable) -> list[Notice]:
    deep = int((annotation_rows(trace) & ~looked_into(trace)).sum())
    if not deep:
        return []
    return [
        _notice(
            "phases_deep",
            "low",
            "Annotations nested too deeply for device time: {affected}.",
            "The view Phases shows their calls and host time, but no device time. They cannot be selected as a phase.",
            _count(deep, "Annotations"),
            view="phases",
        )
    ]


_LOOKS: dict[str, Callable[[TraceTable], list[Notice]]] = {
    "Notice about the window": _window,
    "Notices about reading": _reading,
    "Notices about device events": _device_events,
    "Notices about captures": capture_notices,
    "Notice about missing kernels": _missing_kernels,
    "Notices about steps": _steps,
    "Notice about clipped durations": _clipped,
    "Notices about numbers of the device": _device_numbers,
    "Notices about options": _options,
    "Notices about structure": _structure,
    "Notices about the format": _format,
    "Notices about phases": _phases,
}
