"""Sentence about one rank: its cost to other ranks, or its wait."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.severity import severity_of
from tb_plugin.payloads import Figure, Link, Notice, Notices, Severity
from tb_plugin.views.distributed.job_data import JobData
from tb_plugin.views.distributed.matching.keys import numbers_of
from tb_plugin.views.distributed.metrics import METRICS
from tb_plugin.views.distributed.stragglers.detection import MIN_COST_SHARE
from tb_plugin.views.distributed.stragglers.report import cause_columns, straggler_report
from tb_plugin.views.distributed.waiting import BOUND, TIMINGS, caused_by

# request parameter with the worker
OF = "of"
VERDICT = "verdict"
# above this share of a rank's wait, one other rank is the main cause
_MAIN_CAUSE_SHARE = 0.5
_HIGH_SHARE = 0.1
_MEDIUM_SHARE = 0.05


def rank_notices(data: JobData, worker: str) -> Notices:
    """Returns the sentence about a worker.

    The result is empty for an unknown worker, for a single worker, and without step times.
    """
    notices = []
    if not data.is_single and worker in data.names:
        at = data.names.index(worker)
        notice = _cost_notice(data, at) if at in straggler_report(data).costly else _wait_notice(data, at)
        notices = [] if notice is None else [notice]
    return Notices(VERDICT, "In the job", "answer", notices)


def _cost_notice(data: JobData, at: int) -> Notice:
    report = straggler_report(data)
    lost = report.lost(at)
    share = lost / report.mean_ns
    figures: list[Figure] = []
    text = "Other ranks wait for this rank"
    if report.has_costs:
        figures = [METRICS.figure("lost_ns", lost), METRICS.figure("lost_share", share)]
        at_most = "at most " if report.is_upper_bound else ""
        text = f"This rank costs the other ranks {at_most}{{lost_ns}} {report.each} ({{lost_share}})"
    slow = int(report.stragglers.slow[at].sum())
    if report.count > 1 and slow < report.count:
        figures.append(METRICS.figure("worst_step", report.labels[int(np.argmax(report.stragglers.lost_ns[at]))]))
        text += ", mostly in step {worst_step} (mean over all steps)"
    cells = cause_columns(report, at)
    if cause := cells.get("late_cause"):
        figures.append(METRICS.figure("late_cause", str(cause)))
        text += "; cause: {late_cause}"
    if kernel := cells.get("late_kernel"):
        figures.append(METRICS.figure("late_kernel", str(kernel)))
        text += ", mostly {late_kernel}"
    return _notice("job_costs", "high" if share >= _HIGH_SHARE else "medium", f"{text}.", figures)


def _wait_notice(data: JobData, at: int) -> Notice | None:
    steps = int(data.step_counts[at])
    if not steps or not bool((data.calls.matched & (data.calls.worker == at)).any()):
        return None
    wait = float(data.times[1][at, :-1].sum()) / steps
    mean = straggler_report(data).mean_ns
    share = wait / mean if mean else 0.0
    if share < _MEDIUM_SHARE and not _are_waits_measured(data, at):
        return None
    figures: list[Figure] = [METRICS.figure("wait_ns", wait)]
    per = "per step" if steps > 1 else "in the step"
    caused = float(data.caused[at, :-1].sum()) / steps
    if caused > wait * (len(data.names) - 1):
        # Not a straggler, but its own wait is not the problem either.
        figures.append(METRICS.figure("caused_step_ns", caused))
        text = f"Other ranks wait for this rank {{caused_step_ns}} {per} (sum over all ranks); "
        text += "this rank waits {wait_ns} for other ranks."
        return _notice("job_waits", "info", text, figures)
    text = f"This rank waits {{wait_ns}} {per} for other ranks"
    if wait > _exposed_ns(data, at):
        text += " (partly overlapped with compute)"
    severity = severity_of(share) if share >= _MEDIUM_SHARE else "info"
    if (cause := _main_cause(data, at)) is not None:
        figures.append(METRICS.figure("worker", data.names[cause]))
        text += ", mostly because of {worker}"
        cells = cause_columns(straggler_report(data), cause)
        if late := cells.get("late_cause"):
            figures.append(METRICS.figure("late_cause", str(late)))
            text += " (cause: {late_cause}"
            if kernel := cells.get("late_kernel"):
                figures.append(METRICS.figure("late_kernel", str(kernel)))
                text += ", mostly {late_kernel}"
            text += ")"
        if wait >= MIN_COST_SHARE * mean:
            text += ". Do not optimize only this rank: it would wait longer"
    return _notice("job_waits", severity, f"{text}.", figures)


def _are_waits_measured(data: JobData, at: int) -> bool:
    """Returns whether at least half of a worker's communication time is in calls that all of their ranks recorded."""
    calls = data.calls
    mine = calls.worker == at
    known = calls.matched & (calls.waiting.timing != TIMINGS.index(BOUND))
    time = (calls.end_ns - calls.start_ns)[mine]
    return 2 * int(time[known[mine]].sum()) >= int(time.sum())


def _exposed_ns(data: JobData, at: int) -> float:
    """Returns the exposed communication of a worker per step."""
    mine = data.step_places[0] == at
    exposed = numbers_of(data.step_table, "exposed_communication_ns")[mine]
    return float(exposed.sum()) / max(int(mine.sum()), 1)


def _main_cause(data: JobData, at: int) -> int | None:
    """Returns the worker that causes more than half of this worker's wait within steps, or None."""
    calls, width = data.calls, len(data.labels)
    root = straggler_report(data).roots
    cause_of = np.where(root >= 0, root, calls.waiting.last)
    mine = calls.matched & (calls.worker == at) & (calls.step < width)
    cause, _, length = caused_by(
        calls.step[mine], calls.start_ns[mine], calls.transfer_start_ns[mine], calls.end_ns[mine], cause_of[mine]
    )
    if not length.sum():
        return None
    by = np.bincount(cause, weights=length, minlength=len(data.names))
    most = int(by.argmax())
    return most if most != at and by[most] > _MAIN_CAUSE_SHARE * by.sum() else None


def _notice(rule: str, severity: Severity, text: str, figures: list[Figure]) -> Notice:
    return Notice(rule, severity, text, "", figures, evidence=Link("distributed", {}, "Ranks"))
