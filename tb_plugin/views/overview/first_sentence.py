"""The summary sentence of the Overview: the bottleneck of the program.

In one file: the order of the cases decides which sentence applies.
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from tb_plugin.analysis.annotations import annotation_rows, phases_of
from tb_plugin.analysis.blocking_calls import profiler_waits
from tb_plugin.analysis.busy_intervals import device_busy
from tb_plugin.analysis.code_lines import code_lines
from tb_plugin.analysis.device_time import busy_title, device_noun
from tb_plugin.analysis.graphs.attribution import operator_names
from tb_plugin.analysis.host_threads import threads_of
from tb_plugin.analysis.kernel_classes import TITLES
from tb_plugin.analysis.launches.unrecorded_work import unrecorded_work
from tb_plugin.analysis.out_of_memory import chosen_failures, sentence_of
from tb_plugin.analysis.phrases import capitalized, vendor_words
from tb_plugin.analysis.reported_steps import reported_step_length, reported_steps
from tb_plugin.analysis.selection import Chosen
from tb_plugin.analysis.severity import severity_of
from tb_plugin.analysis.stack_frames import thread_numbers
from tb_plugin.analysis.step_shares import active_rows, shares
from tb_plugin.analysis.timeline_links import at_event
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import sum_by
from tb_plugin.lib.intervals import Ranges, intersect, measure, measure_within, subtract, union
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind, KernelClass, of_kind
from tb_plugin.model.trace.table import Steps, TraceTable
from tb_plugin.model.trace.tree import nest
from tb_plugin.payloads import Figure, Link, Notice
from tb_plugin.rules._base import Limit
from tb_plugin.rules._ordered_findings import Findings
from tb_plugin.rules._verdict import MIN_SHARE, Verdict
from tb_plugin.views.overview.metrics import METRICS

_PART = "{largest_ns} of {step_time_mean_ns} per step ({largest_share})"
_TEXTS: dict[Limit, str] = {
    Limit.DATA_LOADING: f"Data loading takes {_PART}",
    Limit.CPU: f"CPU overhead: the device idles for {_PART}",
    Limit.INITIALISATION: f"Initialization (context creation, code loading) takes {_PART}",
    Limit.CAPTURE: f"Graph capture takes {_PART}",
    Limit.COMPILATION: f"Compilation takes {_PART}",
    Limit.COPIES: f"Copies not overlapped with kernels take {_PART}",
    Limit.COMMUNICATION: f"Communication not overlapped with compute takes {_PART}",
    Limit.CPU_ONLY: f"CPU-only program: operators take {_PART}",
    Limit.PROFILER: f"The program waits for the profiler itself for {_PART}",
    Limit.GPU_NOT_RECORDED: "Device work is missing: only {sampled_share} of the recorded launches have a recorded kernel",
    Limit.RECORDING: "The recording contains only {sampled_share} of the operators, so what limits the program is unknown",
    Limit.UNKNOWN_KERNELS: f"Kernels take {_PART}",
    Limit.CPU_NOT_RECORDED: f"The device idles for {_PART}. For most of this time, no CPU work is recorded, "
    "so the cause is unknown",
    Limit.TRUNCATED: "The file is incomplete, so what limits the program is unknown",
}
_SECOND = {
    Limit.RECORDING: "Open the complete recording: this file lacks most operators",
    Limit.INITIALISATION: "Initialization happens once per process and is not part of the steady state",
    Limit.CAPTURE: "Captured launches run later, when the graph is replayed",
    Limit.UNKNOWN_KERNELS: "No check covers {unknown_share} of the kernel time: these kernels are of unknown type",
}
"""Sentences that follow the first one."""
_PROFILE_KERNELS = (
    "Profile these kernels with the tools of their vendor, or define their classes (TORCH_TRACE_CLASSES), so that more "
    "checks apply."
)
_HURTS = (
    Limit.DATA_LOADING, Limit.CPU, Limit.COPIES, Limit.COMMUNICATION, Limit.PROFILER, Limit.COMPILATION,
)  # fmt: skip
"""Limits that lose step time. Work of the program and properties of the recording are no alarm."""
_WITHOUT_NAME = (Limit.NOTHING, Limit.GPU_NOT_RECORDED, Limit.CPU_NOT_RECORDED)
_SLOW_LAUNCHES = ": the CPU works {launch_every_ns} per launch, but half of the kernels take at most {kernel_median_ns}"
_LAUNCHING = ("launch_bound", "launch_every_ns", "kernel_median_ns")
_FIRST_FIXES = {
    "unfused_kernels": "Fusing {run_classes} kernels could save up to {saving_high_ns} of {step_time_mean_ns} per step",
    "slow_matrix_products": "Other shapes of matmuls could save up to {saving_high_ns} of {step_time_mean_ns} per step",
    "redundant_copies": "Avoiding layout copies could save up to {saving_high_ns} of {step_time_mean_ns} per step",
}
"""Sentences about the first finding of GPU-bound programs, by rule."""
MIN_EARLIER = 0.1
_ALL = 0.95
"""From this share of a category, one name stands for all of it."""
_NAMED = 0.1
"""Minimum share of a category for naming its largest event."""
_MAX_KERNEL_GROUPS = 3
_MOVING = (KernelClass.ELEMENTWISE, KernelClass.COPY)
"""Classes that are named together: both are limited by memory bandwidth."""
# View and parameters of the table that contains rows of a kind.
_EVIDENCE_TABLES: dict[EventKind, tuple[str, dict[str, str]]] = {
    EventKind.KERNEL: ("kernels", {}),
    EventKind.MEMCPY: ("kernels", {"group": "copies"}),
    EventKind.MEMSET: ("kernels", {"group": "copies"}),
    EventKind.OPERATOR: ("operators", {}),
}
# Waits are easier to see on the timeline than in a table.
_WAIT_CATEGORIES = ("runtime", "dataloader", "other")


class Cost(msgspec.Struct, frozen=True):
    """A category of step time, and the event name with the most time in it. Times are ns, summed over all steps."""

    category: str
    part_ns: int
    name: int
    """String id of the event name with the most self time; MISSING = none."""
    name_ns: int
    caller: int
    """String id of the operator that launched or called the largest part of that time; MISSING = unknown."""
    line: str | None
    """Python line that launched or called the largest part of that time; None = unknown."""
    row: int
    """The longest row with that name in the category; MISSING = none."""


def _part(trace: TraceTable, category: str) -> Ranges:
    if category != "other":
        return shares(trace)[category]
    rest = Ranges(np.array([trace.coverage.start_ns]), np.array([trace.coverage.end_ns]))
    for covered in shares(trace).values():
        rest = subtract(rest, covered)
    return rest


def largest_cost(trace: TraceTable, steps: Steps, verdict: Verdict | None, chosen: Chosen) -> Cost | None:
    """Returns the largest cost in the category that limits the program, or None if no category limits the program."""
    if verdict is None or not verdict.category:
        return None
    category, part_ns = verdict.category, verdict.part_ns
    within = intersect(union(steps.start_ns, steps.end_ns), _part(trace, category))
    if category == "other":
        # Idle threads (progress bar, watchdog) do not delay the training.
        rows = np.flatnonzero(trace.kind == EventKind.PYTHON)
        idle = [thread.number for thread in threads_of(trace, chosen) if thread.idle]
        rows = rows[~np.isin(thread_numbers(trace, rows), idle)]
    else:
        within = subtract(within, profiler_waits(trace))
        rows = np.flatnonzero(active_rows(trace, category))
    own = _own_time(trace, rows, within)
    ranges = of_kind(trace.kind[rows], EventKind.ANNOTATION)
    if ranges.any() and not ranges.all():
        # A range can wait for operators of another thread (backward pass).
        beside = rows[~ranges]
        alone = subtract(within, union(trace.start_ns[beside], trace.ends(beside)))
        own[ranges] = _own_time(trace, rows[ranges], alone)
    if verdict.limit is Limit.CPU_NOT_RECORDED:
        own[~ranges] = 0
    name, name_ns = _largest_name(trace.name[rows], own)
    named = trace.name[rows] == name
    caller, _ = _largest_name(operator_names(trace, rows[named]), own[named])
    row = int(rows[named][own[named].argmax()]) if name != MISSING else MISSING
    # Concurrent rows must not count the same time twice.
    return Cost(category, part_ns, name, min(name_ns, part_ns), caller, _line(trace, rows[named], own[named]), row)


def _line(trace: TraceTable, rows: Int64, time: Int64) -> str | None:
    if of_kind(trace.kind[rows], EventKind.PYTHON).all():
        return None
    lines = code_lines(trace)
    on_device = of_kind(trace.kind[rows], *DEVICE_WORK)
    of = lines.of[np.where(on_device, trace.launch[rows], rows)]
    if 2 * time[of == MISSING].sum() > time.sum():
        return None
    line, _ = _largest_name(of, time)
    text: str | None = lines.texts[line].as_py() if line != MISSING else None
    return text


def _own_time(trace: TraceTable, rows: Int64, within: Ranges) -> Int64:
    """Returns the time (ns) that each row spends inside ``within``, excluding rows nested in the row."""
    covered = measure_within(within, trace.start_ns[rows], trace.ends(rows))
    if of_kind(trace.kind[rows], *DEVICE_WORK).any():
        return covered  # device rows do not nest
    parent = nest(thread_numbers(trace, rows), trace.start_ns[rows], trace.ends(rows)).parent
    own: Int64 = np.maximum(covered - sum_by(parent, covered, len(rows)), 0)
    return own


def _largest_name(names: npt.NDArray[np.integer], time: Int64) -> tuple[int, int]:
    known = names != MISSING
    if not time[known].any():
        return MISSING, 0
    unique, inverse = np.unique(names[known], return_inverse=True)
    total = sum_by(inverse, time[known], len(unique))
    first = int(total.argmax())
    return int(unique[first]), int(total[first])


def cost_notices(
    trace: TraceTable, steps: Steps, cost: Cost | None, findings: Findings, chosen: tuple[str, ...] | None
) -> list[Notice]:
    verdict = findings.verdict
    if verdict is None:
        return []
    if verdict.limit is Limit.MEMORY:
        return [_failure(trace, chosen)]
    earlier = _mid_flight(trace, steps, verdict)
    if verdict.limit is Limit.STARTED_LATE:
        return earlier
    count = max(len(steps.label), 1)
    figures = _share_figures("largest", verdict.part_ns, verdict.total_ns, count, verdict.limit)
    gpu = findings.utilization
    word = device_noun(trace)
    if gpu is not None:
        figures.append(METRICS.figure("utilization", gpu, busy_title(trace)))
    if verdict.mix:
        figures.append(METRICS.figure("class_mix", _class_shares(verdict)))
    if verdict.recorded < 1:
        figures.append(METRICS.figure("sampled_share", verdict.recorded))
    if verdict.limit is Limit.UNKNOWN_KERNELS:
        unknown = verdict.mix[KernelClass.OTHER] / sum(verdict.mix.values())
        figures.append(METRICS.figure("unknown_share", unknown))
    fix, fixed = _first_fix(verdict, findings)
    if verdict.limit is Limit.NOTHING:
        figures.append(METRICS.figure("rules_looked", findings.looked))
        text = f"{capitalized(word)} {{utilization}} busy: {{class_mix}}. No problem found ({{rules_looked}} checks)"
    elif fix:
        figures += fixed
        text = f"{capitalized(word)}-bound. Kernel time: {{class_mix}}. {fix}"
    elif verdict.limit is Limit.GPU:
        text = f"{capitalized(word)}-bound. Kernels take {_PART}: {{class_mix}}"
    elif verdict.limit is Limit.CPU_NOT_RECORDED and not device_busy(trace):
        text = (
            "The recording contains no operators and no device work, so the cause of the {step_time_mean_ns} "
            "per step is unknown"
        )
        if verdict.part_ns < verdict.total_ns:
            text = f"No operator runs for {_PART}"
    else:
        text = vendor_words(_TEXTS[verdict.limit], word)
        if verdict.limit is Limit.TRUNCATED and verdict.category:
            text += f". In the recorded part, data loading takes {_PART}"
        if verdict.category == "other":
            text = text.replace("operators take", "code outside operators takes")
    if not steps.recorded:
        text = text.replace("{step_time_mean_ns} per step", "the recorded {step_time_mean_ns}")
    elif len(steps.label) == 1:
        text = text.replace("{step_time_mean_ns} per step", "the {step_time_mean_ns} step")
    evidence = Link("timeline", {}, "Show evidence")
    if verdict.limit is Limit.PROFILER:
        text, own = f"{text}: {{held_name}}", _profiler(trace, steps)
        name = trace.strings[int(trace.name[own])]
        figures.append(METRICS.figure("held_name", name))
        evidence = Link("timeline", {"search": name, **at_event(trace, own)}, "Show evidence")
    elif cost is not None:
        more, named = _main_name(trace, cost, count)
        evidence = _evidence(trace, cost)
        figures += named
        if (verdict.limit not in _WITHOUT_NAME or not device_busy(trace)) and not fix:
            launching = _figures_of(findings, *_LAUNCHING) if verdict.limit is Limit.CPU else []
            text = f"{text}{_SLOW_LAUNCHES if launching else ''}{more}"
            figures += launching
    if verdict.limit is Limit.DATA_LOADING and (first := _figures_of(findings, "data_loading", "first_batch_ns")):
        text += ". The first batch takes {first_batch_ns}, because the workers start"
        figures += first
    if verdict.limit is Limit.CPU_NOT_RECORDED and verdict.part_ns < verdict.total_ns and not device_busy(trace):
        text += ". The cause is not recorded"
    if verdict.limit in _SECOND:
        text += f". {_SECOND[verdict.limit]}"
    if verdict.limit is Limit.DATA_LOADING and gpu is not None:
        text += f". The {word} is {{utilization}} busy"
    share = verdict.part_ns / verdict.total_ns
    severity = severity_of(share) if verdict.limit in _HURTS else "info"
    todo = _PROFILE_KERNELS if verdict.limit is Limit.UNKNOWN_KERNELS and not findings.all else ""
    if verdict.limit is Limit.CPU_NOT_RECORDED and not device_busy(trace):
        todo = trace.recorder.todo("view.stacks")
    sentence = Notice("largest_cost", severity, f"{text}.", todo, figures, measure="largest_share", evidence=evidence)
    return [sentence, *earlier]


def _share_figures(key: str, part_ns: float, total_ns: float, count: int, limit: Limit) -> list[Figure]:
    return [
        METRICS.figure(f"{key}_ns", part_ns / count),
        METRICS.figure("step_time_mean_ns", total_ns / count),
        METRICS.figure(f"{key}_share", part_ns / total_ns),
        METRICS.figure("limit", limit.value),
    ]


# Parts of reported step times by limit, for programs whose idle time has no known cause.
_REPORTED_PARTS: dict[Limit, tuple[str, str]] = {
    Limit.COMMUNICATION: ("exposed_ns", _TEXTS[Limit.COMMUNICATION]),
    Limit.GPU_NOT_RECORDED: ("free_ns", f"The device idles for {_PART}"),
    Limit.GPU: ("computing_ns", f"Computation takes {_PART}"),
}


def reported_cost(trace: TraceTable, chosen: tuple[str, ...] | None) -> list[Notice]:
    """Returns the sentence about the bottleneck from reported step times; empty without any."""
    table = reported_steps(trace, chosen)
    length = reported_step_length(table)
    if not length:
        return []
    means = {limit: pc.mean(table[key]).as_py() or 0.0 for limit, (key, _) in _REPORTED_PARTS.items()}
    waits = {limit: time for limit, time in means.items() if limit is not Limit.GPU and time >= MIN_SHARE * length}
    limit = max(waits, key=lambda each: waits[each], default=Limit.GPU)
    figures = _share_figures("largest", means[limit], length, 1, limit)
    text = f"{_REPORTED_PARTS[limit][1]}, as reported by the profiler. Most kernels are missing from the recording."
    text = vendor_words(text, device_noun(trace))
    return [Notice("largest_cost", "info", text, "", figures, measure="largest_share")]


def _failure(trace: TraceTable, chosen: tuple[str, ...] | None) -> Notice:
    failures = chosen_failures(trace, chosen)
    text, figures = sentence_of(trace, failures)
    figures.append(METRICS.figure("limit", Limit.MEMORY.value))
    evidence = Link("timeline", at_event(trace, int(failures.row[0])), "Show evidence")
    return Notice("largest_cost", "high", text, "", figures, measure="failed_bytes", evidence=evidence)


def _mid_flight(trace: TraceTable, steps: Steps, verdict: Verdict) -> list[Notice]:
    time, count = measure(verdict.earlier), max(len(steps.label), 1)
    if time < MIN_EARLIER * verdict.total_ns:
        return []
    figures = _share_figures("earlier_work", time, verdict.total_ns, count, verdict.limit)
    whole = "the {step_time_mean_ns} step" if len(steps.label) == 1 else "{step_time_mean_ns} per step"
    whole = whole if steps.recorded else "the recorded {step_time_mean_ns}"
    runs = _devices_and_verb(trace) if len(device_busy(trace)) > 1 else f"the {device_noun(trace)} runs"
    text = f"For {{earlier_work_ns}} of {whole} {runs} work launched before the recording started."
    if verdict.limit is Limit.STARTED_LATE and verdict.mix:
        text += " Recorded kernel time: {class_mix}."
        figures.append(METRICS.figure("class_mix", _class_shares(verdict)))
    todo = vendor_words(trace.recorder.todo("recording_began_mid_flight"), device_noun(trace))
    return [Notice("largest_cost", "info", text, todo, figures, measure="earlier_work_share")]


def _first_fix(verdict: Verdict, findings: Findings) -> tuple[str, list[Figure]]:
    """Returns the sentence about the first finding, with its figures; "" if another sentence fits better."""
    first = findings.all[0] if findings.all else None
    if verdict.limit is not Limit.GPU or first is None or not first.notice.saving or first.rule.id not in _FIRST_FIXES:
        return "", []
    classes = [each for each in first.notice.figures if each.metric.key == "run_classes"]
    return _FIRST_FIXES[first.rule.id], [*classes, METRICS.figure("saving_high_ns", first.notice.saving.high_ns)]


def _devices_and_verb(trace: TraceTable) -> str:
    ids = [trace.devices[each].id for each in device_busy(trace) if len(unrecorded_work(trace, each))]
    named = ", ".join(ids[:_MAX_KERNEL_GROUPS]) + (", ..." if len(ids) > _MAX_KERNEL_GROUPS else "")
    return f"device {named} runs" if len(ids) == 1 else f"{len(ids)} devices ({named}) run"


def _figures_of(findings: Findings, rule: str, *keys: str) -> list[Figure]:
    return [
        figure
        for each in findings.all
        if each.rule.id == rule
        for figure in each.notice.figures
        if figure.metric.key in keys
    ]


def _class_shares(verdict: Verdict) -> str:
    groups: dict[str, int] = {}
    for each, time in verdict.mix.items():
        both = each in _MOVING and all(verdict.mix.get(other) for other in _MOVING)
        title = "elementwise and copy" if both else _title(each)
        groups[title] = groups.get(title, 0) + time
    total = sum(groups.values())
    largest = sorted(groups, key=lambda each: (-groups[each], each))[:_MAX_KERNEL_GROUPS]
    return ", ".join(f"{100 * groups[each] / total:.0f} % {each}" for each in largest)


def _title(kernel_class: KernelClass) -> str:
    if kernel_class is KernelClass.OTHER:
        return "unknown"
    title = TITLES[kernel_class]
    return title if title.isupper() or kernel_class is KernelClass.MOE else title.lower()


def _profiler(trace: TraceTable, steps: Steps) -> int:
    own = np.flatnonzero(trace.kind == EventKind.OVERHEAD)
    within = intersect(profiler_waits(trace), union(steps.start_ns, steps.end_ns))
    return int(own[measure_within(within, trace.start_ns[own], trace.ends(own)).argmax()])


def _main_name(trace: TraceTable, cost: Cost, count: int) -> tuple[str, list[Figure]]:
    text, figures = "", list[Figure]()
    if cost.name != MISSING:
        share = ", mostly" if 2 * cost.name_ns >= cost.part_ns else "; longest:"
        is_all = cost.name_ns >= _ALL * cost.part_ns
        # The line says more than the name of the loader.
        is_known = is_all and cost.category == "dataloader"
        if cost.name_ns < _NAMED * cost.part_ns:
            return "", figures
        if not is_known:
            text = f"{share} {{largest_name}}" + ("" if is_all else " ({largest_name_ns})")
        figures.append(METRICS.figure("largest_name", trace.strings[cost.name]))
        figures.append(METRICS.figure("largest_name_ns", cost.name_ns / count))
    if cost.caller != MISSING:
        on_device = cost.category in ("kernel", "memcpy", "memset", "communication")
        text += f", {'launched' if on_device else 'called'} by {{largest_caller}}"
        figures.append(METRICS.figure("largest_caller", trace.strings[cost.caller]))
    if cost.line is not None:
        text += " at {largest_line}"
        figures.append(METRICS.figure("largest_line", cost.line))
    return text, figures


def _evidence(trace: TraceTable, cost: Cost) -> Link:
    text = "Show evidence"
    if cost.row == MISSING:
        return Link("timeline", {}, text)
    name, kind = trace.strings[cost.name], EventKind(int(trace.kind[cost.row]))
    if cost.category in _WAIT_CATEGORIES or not (kind in _EVIDENCE_TABLES or annotation_rows(trace)[cost.row]):
        return Link("timeline", {"search": name, **at_event(trace, cost.row)}, text)
    if kind in _EVIDENCE_TABLES:
        view, params = _EVIDENCE_TABLES[kind]
        row = {} if "group" in params else {"row": name}
        return Link(view, {**params, "where": f"name:{name}", **row}, text)
    phases = phases_of(trace)
    # Filters of the page and name patterns do not apply to this link.
    label = phases.labels[phases.of[cost.name]]
    return Link("phases", {"form": "table", "search": label, "phase": "", "pattern": ""}, text)
