"""Findings with their fixes, savings and events."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tb_plugin.analysis.base import Frame, Number, Params, Part
from tb_plugin.analysis.busy_intervals import device_busy
from tb_plugin.analysis.code_lines import code_lines
from tb_plugin.analysis.device_time import busy_title
from tb_plugin.analysis.failure_notices import failed_payloads
from tb_plugin.analysis.filters import EVENT
from tb_plugin.analysis.graphs.attribution import operator_names
from tb_plugin.analysis.metrics import CHOSEN_STEPS, FULL_TRACE, STEPS, define
from tb_plugin.analysis.reported_steps import REPORTED_STEP, missing_computation
from tb_plugin.analysis.selection import select_rows
from tb_plugin.analysis.step_shares import UNRECORDED, break_down
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Column, Figure, Figures, Notice, Notices, Payload
from tb_plugin.rules import regular_rules, rule_ids
from tb_plugin.rules._base import COMMON as OF_RULES
from tb_plugin.rules._base import Limit
from tb_plugin.rules._ordered_findings import (
    AfterFixes,
    Findings,
    LeftOut,
    after_fixes,
    findings_of,
    left_out,
    unknown_notices,
)
from tb_plugin.views.findings import VIEW

METRICS = OF_RULES.adding(
    REPORTED_STEP,
    define(STEPS, "code", {"evidence_line": ("Python line", "Python line of the event or its launch.")}),
    define(
        "",
        "count",
        {
            "rules": ("All checks", "All checks, including ignored ones."),
            "rules_silent": ("Skipped checks", "Checks skipped because kernels are missing."),
        },
    ),
    define("", "text", {"silent_rules": ("Skipped", "Titles of the skipped checks.")}),
    define(STEPS, "ns", {"then_ns": ("Largest part", "Time of the limit per step, if the upper bound is saved.")}),
    define(STEPS, "ratio", {"then_share": ("Share", "Time of the limit divided by the remaining step time.")}),
    define(
        STEPS,
        "text",
        {
            "then_limit": ("Limit", "Limiting factor of the program after the fixes."),
            "not_estimated": ("Not estimated", "Findings without an estimated saving."),
        },
    ),
    define(FULL_TRACE, "text", {"not_recorded": ("Not recorded", "Data that checks need but the trace lacks.")}),
)

_LIMITS = {Limit.GPU: "kernel time", Limit.CPU_ONLY: "work on the CPU", Limit.COMMUNICATION: "exposed communication"}


class FindingsAnalysis(DeclaredView, entry=VIEW):
    def part_key(self, params: Params) -> tuple[object, ...]:
        return (params.steps, left_out(params), tuple(sorted(_fixed(params))))

    def part(self, trace: TraceTable, params: Params) -> Part:
        out = left_out(params)
        coverage = select_rows(trace, params.steps).coverage
        if fixed := _fixed(params):
            after = _after(after_fixes(trace, params.steps, out, fixed))
            return Part(coverage, {}, {}, {"after_fixes": after}, ("after_fixes",))
        findings = findings_of(trace, params.steps, out)
        own = [each.table for each in findings.all if each.table is not None]
        frames = {frame.name: frame for frame in (_table(findings), _events(trace, findings), *own)}
        payloads: dict[str, Payload] = {
            "summary": _summary(trace, findings, params.steps),
            "together": _together(trace, findings, params.steps),
            "findings": Notices("findings", "Findings", "training", findings.notices),
            **_left_out(findings, out),
            **failed_payloads(findings.failures),
        }
        return Part(coverage, _facts(trace, findings), frames, payloads, (*payloads, *frames))


def _fixed(params: Params) -> frozenset[str]:
    return frozenset(rule for text in params.values("fixed") for rule in text.split(",")) & frozenset(rule_ids())


def _after(after: AfterFixes) -> Notices:
    saving, text, figures = after.saving, "", []
    left = saving.step_ns - saving.high_ns
    if after.limit is not None and saving.high_ns > 0 and left > 0:
        text = "After these fixes, the largest part is {then_limit}: {then_ns} ({then_share})."
        figures = METRICS.measured(
            then_limit=_LIMITS.get(after.limit, after.limit.value),
            then_ns=min(after.limit_ns, left),
            then_share=min(after.limit_ns / left, 1.0),
        )
    if after.without_saving:
        text += " Not estimated: {not_estimated}."
        names = ", ".join(each.notice.title for each in after.without_saving)
        figures += METRICS.measured(not_estimated=names)
    notice = Notice("after_fixes", "info", text.strip(), "", figures, saving=saving)
    return Notices("after_fixes", "After the selected fixes", "answer", [notice])


def _summary(trace: TraceTable, findings: Findings, chosen: tuple[str, ...] | None) -> Figures:
    title = "" if trace.steps.recorded else "Recorded time"
    length = (
        METRICS.figure("step_time_mean_ns", findings.step_ns or None, title)
        if missing_computation(trace) is None
        else METRICS.figure("stated_step_ns", findings.step_ns or None)
    )
    unrecorded = break_down(trace, chosen).mean(UNRECORDED)
    figures = [
        length,
        *([METRICS.figure("unrecorded_ns", unrecorded, note="per step", window=CHOSEN_STEPS)] if unrecorded else []),
        METRICS.figure("findings", len(findings.all)),
    ]
    return Figures("summary", "Findings", "", figures, "headline")


def _together(trace: TraceTable, findings: Findings, chosen: tuple[str, ...] | None) -> Figures:
    whole, busy = findings.combined, findings.utilization
    known = "excluding unrecorded work" if break_down(trace, chosen).parts[UNRECORDED].any() else ""
    figures = [
        METRICS.figure("saving_low_ns", whole.low_ns),
        METRICS.figure("saving_high_ns", whole.high_ns),
        METRICS.figure("saving_ratio", whole.high_ns / whole.step_ns if whole.step_ns else None),
        METRICS.figure("rules_looked", findings.looked),
        METRICS.figure("rules", len(regular_rules())),
        METRICS.figure("not_recorded", ", ".join(_not_recorded(trace))),
        *_silent(findings),
        *([] if busy is None else [METRICS.figure("utilization", busy, busy_title(trace), known)]),
    ]
    return Figures("together", "All findings together", "", figures)


def _silent(findings: Findings) -> list[Figure]:
    if not findings.silent:
        return []
    titles = ", ".join(rule.title for rule in findings.silent)
    return [METRICS.figure("rules_silent", len(findings.silent)), METRICS.figure("silent_rules", titles)]


def _not_recorded(trace: TraceTable) -> list[str]:
    recorded = {
        "work of a device": bool(device_busy(trace)),
        "input shapes": bool((trace.operators.shapes != MISSING).any()),
        "lines of Python": bool((code_lines(trace).of != MISSING).any()),
        "memory events": len(trace.memory.time_ns) > 0,
    }
    return [what for what, is_recorded in recorded.items() if not is_recorded]


def _left_out(findings: Findings, out: LeftOut) -> dict[str, Notices]:
    ignored = [each.notice for each in findings.left_out if each.rule.id in out.ignored]
    dismissed = [each.notice for each in findings.left_out if each.rule.id not in out.ignored]
    texts = (
        Notices("dismissed", "Dismissed", "answer", dismissed),
        Notices("ignored", "Dismissed by torch_trace_ignore", "answer", ignored),
        Notices("data_quality", "About torch_trace_ignore", "data", unknown_notices(out)),
    )
    return {notices.name: notices for notices in texts if notices.notices}


def _facts(trace: TraceTable, findings: Findings) -> dict[str, Number]:
    if not trace.report.complete:
        return {}
    facts: dict[str, Number] = {
        "findings.count": len(findings.all),
        "findings.total_low_ns": findings.combined.low_ns,
        "findings.total_high_ns": findings.combined.high_ns,
    }
    savings = {each.rule.id: each.notice.saving for each in findings.all}
    for rule in regular_rules():
        if rule.id in findings.counted:
            saving = savings.get(rule.id)
            facts[f"findings.{rule.id}.saving_low_ns"] = saving.low_ns if saving else 0.0
            facts[f"findings.{rule.id}.saving_high_ns"] = saving.high_ns if saving else 0.0
    return facts


def _table(findings: Findings) -> Frame:
    notices, step = findings.notices, findings.step_ns
    savings = [notice.saving for notice in notices]
    data = {
        "finding": pa.array([notice.title for notice in notices], pa.string()),
        "rule": pa.array([notice.rule for notice in notices], pa.string()),
        "severity": pa.array([notice.severity for notice in notices], pa.string()),
        "confidence": pa.array([notice.confidence or None for notice in notices], pa.string()),
        "saving_low_ns": pa.array([saving and saving.low_ns for saving in savings], pa.float64()),
        "saving_high_ns": pa.array([saving and saving.high_ns for saving in savings], pa.float64()),
        "saving_shared_ns": pa.array([saving and saving.shared_ns for saving in savings], pa.float64()),
        "saving_ratio": pa.array(
            [saving.high_ns / step if saving and step else None for saving in savings], pa.float64()
        ),
        "evidence": pa.array([each.event_count for each in findings.all], pa.int64()),
    }
    return Frame("savings", "Savings", METRICS.columns(*data), pa.table(data), ("rule",), "finding")


def _events(trace: TraceTable, findings: Findings) -> Frame:
    rows = np.concatenate([each.events for each in findings.all] or [np.empty(0, np.int64)]).astype(np.int64)
    rule = [each.rule.id for each in findings.all for _ in range(len(each.events))]
    launch = trace.launch[rows]
    lines = code_lines(trace)
    line = lines.of[np.where(launch == MISSING, rows, launch)].astype(np.int64)
    operator = operator_names(trace, rows)
    # A row belongs to the step in which it, or its launch, starts on the CPU.
    begun = trace.start_ns[np.where(launch == MISSING, rows, launch)]
    step = trace.steps.at(begun, on_host=True)
    data = {
        "rule": pa.array(rule, pa.string()),
        "name": trace.strings.take(trace.name[rows]),
        "dur_ns": pa.array(trace.dur_ns[rows]),
        "start_ns": pa.array(trace.start_ns[rows]),
        "step": pa.array(trace.steps.label, pa.string()).take(pa.array(step, mask=step == MISSING)),
        "operator": trace.strings.take(operator),
        "evidence_line": lines.texts.take(pa.array(line, mask=line == MISSING)),
        "event": pa.array(rows),
    }
    shown = [*METRICS.columns(*(key for key in data if key != EVENT.key)), Column(EVENT, hidden=True)]
    return Frame("finding_events", "Events", shown, pa.table(data), ("rule", "event"), "name", None)
