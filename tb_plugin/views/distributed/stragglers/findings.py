"""Findings about stragglers and uneven work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from msgspec.structs import replace

from tb_plugin.analysis.severity import severity_of
from tb_plugin.payloads import Figure, Notice, Saving, Severity
from tb_plugin.views.distributed.job_data import JobData, Row
from tb_plugin.views.distributed.metrics import METRICS
from tb_plugin.views.distributed.stragglers.causes import COMPUTE
from tb_plugin.views.distributed.stragglers.detection import MIN_COST_SHARE, PERSISTENT, ROTATING, SINGLE
from tb_plugin.views.distributed.stragglers.report import CAUSES, StragglerReport, cause_columns
from tb_plugin.views.distributed.stragglers.slow_kernels import MORE_CALLS, SLOW_DEVICE

# maximum number of findings; the table lists all stragglers
MAX_FINDINGS = 3
# minimum excess of the longest over the mean compute time, as a share of the step
MIN_UNEVEN_SHARE = 0.05
_MEDIUM_SHARE, _HIGH_SHARE = 0.05, 0.1
_WHY = "A collective completes only after the last rank arrives, so one late rank delays all ranks."
_TODO = {
    COMPUTE: ("Compare this rank with other ranks: length and shapes of the input, or work that only this rank does."),
    "communication": (
        "Check the communication of this rank in other groups: slow transfers, or a link that other ranks share."
    ),
    "copy": "Find the copies that only this rank makes: checkpoints, logging, unpinned batches.",
    "input": (
        "Compare the data loading of this rank with other ranks: workers of the data loader, storage, sample sizes."
    ),
    "host": (
        "Compare the host of this rank with other hosts: other processes, CPU frequency and binding, "
        "garbage collection, or work that only this rank does."
    ),
    "idle": "Record CPU activity as well: the trace does not show why the device of this rank is idle.",
    "slow device": (
        "Check the device of this rank: temperature, power limit, clock frequency, errors. Then swap the "
        "device and check whether the delay moves with the device."
    ),
    "": (
        "Compare the compute time of this rank with other ranks: uneven input, a throttled device, or "
        "work that only this rank does."
    ),
}
_COMPONENT_OF_CAUSE = {title: key for key, title in CAUSES.items()}


def straggler_findings(report: StragglerReport, rows: list[Row]) -> list[Notice]:
    """Returns findings about the costliest stragglers, or a single finding if ranks take turns being late."""
    significant = report.costly
    rotating = [w for w in report.stragglers.significant.tolist() if report.stragglers.pattern[w] == ROTATING]
    if rotating:
        notice = _rotating_notice(report, rotating)
        return [notice] if notice is not None else []
    # Members of a slow group are late for the same reason, so one finding is enough.
    slow_group_of = [report.slow_groups.get(worker, -1) for worker in significant]
    significant = [
        w for i, w in enumerate(significant) if slow_group_of[i] < 0 or slow_group_of[i] not in slow_group_of[:i]
    ]
    notices = [_straggler_notice(report, worker, rows) for worker in significant[:MAX_FINDINGS]]
    if len(significant) > MAX_FINDINGS:
        final = notices[-1]
        figures = [*final.figures, METRICS.figure("stragglers", len(significant) - MAX_FINDINGS, "More stragglers")]
        notices[-1] = replace(
            final, text=f"{final.text} The table Stragglers lists {{stragglers}} more.", figures=figures
        )
    return notices


def _straggler_notice(report: StragglerReport, worker: int, rows: list[Row]) -> Notice:
    lost, row = report.lost(worker), report.stragglers.main_group(worker)
    cells, once = cause_columns(report, worker), report.is_once(worker)
    last_share = float(report.stragglers.last_count[row] / max(int(report.stragglers.collectives[row]), 1))
    figures = [
        METRICS.figure("worker", report.names[worker]),
        METRICS.figure("last_share", last_share),
        METRICS.figure("caused_wait_ns", rows[worker]["caused_wait_ns"]),  # type: ignore[arg-type]
    ]
    if report.has_costs:
        figures[1:1] = _cost_figures(report, lost)
    text = f"Other ranks wait for {{worker}}{_cost_clause(report)}" + _pattern_clause(report, worker, figures)
    if cells:
        text += _cause_sentence(report, worker, cells, figures)
    text += f" This rank arrives last at {{last_share}} of {_collectives_phrase(report, row, figures)}."
    cause = str(cells.get("late_cause") or "")
    notice = Notice(
        rule="straggler",
        severity=_severity_once(lost / report.mean_ns) if once else _severity(lost / report.mean_ns),
        text=text,
        todo=_TODO[_COMPONENT_OF_CAUSE.get(cause, cause)],
        figures=figures,
        title="Straggler",
        why=_WHY,
        confidence=_confidence(report, worker, cells),
    )
    return _with_saving(report, notice, lost)


def _cost_figures(report: StragglerReport, lost: float) -> list[Figure]:
    return [METRICS.figure("lost_ns", lost, "Cost per step"), METRICS.figure("lost_share", lost / report.mean_ns)]


def _cost_clause(report: StragglerReport) -> str:
    if not report.has_costs:
        return ""
    return f", which costs {'at most ' if report.is_upper_bound else ''}{{lost_ns}} {report.each} ({{lost_share}})"


def _with_saving(report: StragglerReport, notice: Notice, lost: float) -> Notice:
    """Adds the saving, or the reason why the cost is not estimated."""
    if not report.has_costs:
        return replace(notice, text=f"{notice.text} The cost is not estimated: {report.lacking}.", severity="medium")
    low = 0.0 if report.is_upper_bound else lost
    return replace(
        notice, measure="lost_share", threshold=MIN_COST_SHARE, saving=Saving(low, lost, 0.0, report.mean_ns)
    )


def _collectives_phrase(report: StragglerReport, row: int, figures: list[Figure]) -> str:
    if not (name := report.groups[int(report.stragglers.group[row])]):
        return "its collectives"
    figures.append(METRICS.figure("group", name))
    return "its collectives in group {group}"


def _pattern_clause(report: StragglerReport, worker: int, figures: list[Figure]) -> str:
    pattern = report.stragglers.pattern[worker]
    count, late = report.count, int(report.stragglers.slow[worker].sum())
    if report.labels == ("",) or count == 1 or (pattern == PERSISTENT and late == count):
        return "."
    figures += [METRICS.figure("late_steps", late), METRICS.figure("job_steps", count)]
    if every := int(report.stragglers.every[worker]):
        figures.append(METRICS.figure("late_every", every))
        return ", every {late_every} steps ({late_steps} of {job_steps})."
    if report.is_once(worker):
        figures.append(METRICS.figure("worst_step", report.labels[int(np.argmax(report.stragglers.lost_ns[worker]))]))
        return ", only in step {worst_step} (mean over {job_steps} steps)."
    return ", in {late_steps} of {job_steps} steps."


def _cause_sentence(report: StragglerReport, worker: int, cells: dict[str, object], figures: list[Figure]) -> str:
    excess = report.excess[worker]
    figures += [
        METRICS.figure("late_cause_ns", report.per_step(excess.ns[excess.main])),
        METRICS.figure("late_cause_share", cells["late_cause_share"]),  # type: ignore[arg-type]
    ]
    did = {
        COMPUTE: "it computes {late_cause_ns} longer than other ranks",
        "communication": "it communicates in other groups {late_cause_ns} longer than other ranks",
        "copy": "its copies without simultaneous compute take {late_cause_ns} longer than on other ranks",
        "input": "its data loading takes {late_cause_ns} longer than on other ranks",
        "host": "its host is busy or late for {late_cause_ns} longer than other hosts",
        "idle": "it is idle for {late_cause_ns} longer than other ranks, without a recorded cause",
    }
    text = f" Before it arrives, {did[excess.main]} per step ({{late_cause_share}} of the extra time)"
    kernels = report.kernels.get(worker)
    if (slow := report.slow_groups.get(worker, -1)) >= 0:
        figures.append(METRICS.figure("held_up_in", report.groups[slow]))
        return f"{text}, mostly in group {{held_up_in}}."
    if excess.main != COMPUTE or kernels is None or not kernels.how:
        return f"{text}."
    if kernels.how == SLOW_DEVICE:
        figures.append(METRICS.figure("late_factor", kernels.factor))
        return f"{text}: all its kernels take {{late_factor}} times as long, which suggests a slow device."
    first = kernels.kernels[0]
    figures.append(METRICS.figure("late_kernel", first.name))
    figures.append(METRICS.figure("late_kernel_ns", report.per_step(first.excess_ns)))
    if kernels.how == MORE_CALLS:
        figures += [METRICS.figure("late_calls", first.calls), METRICS.figure("usual_calls", first.usual_calls)]
        return (
            f"{text}: {{late_kernel}} takes {{late_kernel_ns}} more per step, with {{late_calls}} calls in "
            "the late steps instead of {usual_calls}."
        )
    figures.append(METRICS.figure("late_factor", first.factor))
    return (
        f"{text}: {{late_kernel}} takes {{late_kernel_ns}} more per step. This rank calls it as often as other "
        "ranks, but each call takes {late_factor} times as long: compare the sizes of its input."
    )


def _rotating_notice(report: StragglerReport, workers: Sequence[int]) -> Notice | None:
    lost = sum(report.lost(worker) for worker in workers)
    if not report.mean_ns or lost < MIN_COST_SHARE * report.mean_ns:
        return None
    causes = [str(cause_columns(report, worker).get("late_cause") or "") for worker in workers]
    common = causes[0] if len(set(causes)) == 1 else ""
    figures = [
        METRICS.figure("stragglers", len(workers)),
        METRICS.figure("late_steps", int(report.stragglers.slow.any(axis=0).sum())),
        METRICS.figure("job_steps", report.count),
        METRICS.figure("worker", report.names[workers[0]], "Costs most"),
    ]
    if report.has_costs:
        figures[3:3] = _cost_figures(report, lost)
    text = f"{{stragglers}} ranks take turns being late ({{late_steps}} of {{job_steps}} steps){_cost_clause(report)}. "
    text += "{worker} costs most."
    if common:
        figures.append(METRICS.figure("late_cause", common))
        text += " The cause is the same each time: {late_cause}."
    notice = Notice(
        rule="straggler",
        severity=_severity(lost / report.mean_ns),
        text=text,
        todo="No single machine is at fault. Balance the work of the ranks (sequence lengths, sample sizes). Look for "
        "intermittent load: other jobs, garbage collection, storage.",
        figures=figures,
        title="Ranks take turns being late",
        why=_WHY,
        confidence="medium",
    )
    return _with_saving(report, notice, lost)


def uneven_compute(report: StragglerReport, data: JobData, rows: list[Row]) -> Notice | None:
    """Returns a finding if compute times differ much between ranks, else None."""
    compute = np.full((len(data.names), len(data.labels)), np.nan)
    compute[data.step_places] = data.step_table["compute_ns"].cast("float64", safe=False).fill_null(np.nan).to_numpy()
    compute = compute[:, ~np.isnan(compute).any(axis=0)]
    waits = [value for row in rows if isinstance(value := row["wait_ns"], int)]
    if len(compute) < 2 or not compute.size or not report.mean_ns or not waits or bool(report.calls.two_ended.any()):
        return None
    over = float((compute.max(axis=0) - compute.mean(axis=0)).mean())
    high = min(over, report.per_step(sum(waits)) / len(waits))
    if high < MIN_UNEVEN_SHARE * report.mean_ns:
        return None
    longest = np.bincount(compute.argmax(axis=0), minlength=len(compute))
    most = int(longest.argmax())
    figures = [
        METRICS.figure("compute_spread_ns", over),
        METRICS.figure("compute_spread_share", over / report.mean_ns),
        METRICS.figure("worker", report.names[most], "Computes longest most often"),
        METRICS.figure("late_steps", int(longest[most]), "Steps in which it computes longest"),
        METRICS.figure("job_steps", int(compute.shape[1])),
    ]
    text = (
        "Compute time is uneven: per step, the slowest rank computes {compute_spread_ns} "
        "({compute_spread_share}) longer than the average. "
        "{worker} computes longest in {late_steps} of {job_steps} steps."
    )
    return Notice(
        rule="load_imbalance",
        severity=_severity(high / report.mean_ns),
        text=text,
        todo="Balance the work per step: sort samples by length, pack sequences, split by tokens instead of samples, balance "
        "experts.",
        figures=figures,
        measure="compute_spread_share",
        threshold=MIN_UNEVEN_SHARE,
        title="Uneven work",
        why="All ranks of a collective wait for the rank that computes longest. Upper bound: the gain from perfectly even "
        "compute, capped by the measured wait.",
        confidence="medium",
        saving=Saving(0.0, high, 0.0, report.mean_ns),
    )


def _confidence(report: StragglerReport, worker: int, cells: dict[str, object]) -> Literal["high", "medium", "low"]:
    """Returns "high" if one cause explains nearly all extra time of a worker that is late repeatedly."""
    share = cells.get("late_cause_share")
    if not isinstance(share, float):
        return "low"
    return "high" if share >= 0.8 and report.stragglers.pattern[worker] != SINGLE else "medium"


def _severity_once(share: float) -> Severity:
    """Returns the severity of a single late step, which may never recur."""
    return "medium" if share >= _MEDIUM_SHARE else "low"


def _severity(share: float) -> Severity:
    if share >= _HIGH_SHARE:
        return "high"
    return severity_of(share) if share >= _MEDIUM_SHARE else "low"
