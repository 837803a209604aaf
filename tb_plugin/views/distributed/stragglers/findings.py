"""What is told of stragglers and of uneven work: who, what it costs each step, when and why, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from msgspec.structs import replace

from tb_plugin.analysis.metrics import STEP
from tb_plugin.analysis.severity import severity_of
from tb_plugin.payloads import Figure, Notice, Saving, Severity
from tb_plugin.views.distributed.job_data import JobData, Row
from tb_plugin.views.distributed.metrics import METRICS
from tb_plugin.views.distributed.stragglers.causes import Excess
from tb_plugin.views.distributed.stragglers.detection import WORTH
from tb_plugin.views.distributed.stragglers.intervals import COMPUTE
from tb_plugin.views.distributed.stragglers.patterns import PERSISTENT, ROTATING, SINGLE
from tb_plugin.views.distributed.stragglers.report import CAUSES, Blame, why
from tb_plugin.views.distributed.stragglers.slow_kernels import MORE_CALLS, SLOW_DEVICE

TOLD = 3
"""So many stragglers are findings of their own; the table has all."""
UNEVEN_SHARE = 0.05
"""Share of the step by which the longest computation exceeds the mean before that is told."""
_MEDIUM_SHARE, _HIGH_SHARE = 0.05, 0.1
_UNEXPLAINED = 0.2
"""Where more than this share of the cost has no cause that differs, that is said."""
_WHY = "A collective ends when its last rank is there: what that one loses all others wait."
_TODO = {
    COMPUTE: "Compare what this rank is given to compute with the others: length and shapes of its input, or work that only "
    "it does.",
    "communication": "See its communication in other groups: data that moves slowly, or a link that others share.",
    "copy": "See which copies only this rank makes: checkpoints, logging, batches that are not pinned.",
    "input": "Compare its input: workers of its data loader, its storage, the size of its samples.",
    "host": "Compare its host: other processes, its processor's frequency and binding, collections of garbage, work that "
    "only this rank does.",
    "idle": "Record the host as well (CPU activity): nothing in the trace says why its device has nothing to do.",
    "slow device": "Compare its device: temperature, power limit, clock frequency, errors; then swap it and see whether the "
    "delay moves along.",
    "": "Compare its compute with the others': uneven input, a throttled device, or work that only this rank does.",
}
_KEYS = {title: key for key, title in CAUSES.items()}


def straggler_findings(told: Blame, rows: list[Row]) -> list[Notice]:
    """Returns a notice for each of the costliest stragglers, or one for all that are late in turn."""
    worth = told.costly
    turning = [w for w in told.found.told.tolist() if told.found.pattern[w] == ROTATING]
    if turning:
        notice = _in_turn(told, turning)
        return [notice] if notice is not None else []
    # Members of a group that is slow are late together, for one reason.
    behind = [told.slow_groups.get(worker, -1) for worker in worth]
    worth = [w for i, w in enumerate(worth) if behind[i] < 0 or behind[i] not in behind[:i]]
    notices = [_straggler(told, worker, rows) for worker in worth[:TOLD]]
    if len(worth) > TOLD:
        last = notices[-1]
        figures = [*last.figures, METRICS.figure("stragglers", len(worth) - TOLD, "More of them")]
        notices[-1] = replace(
            last, text=f"{last.text} {{stragglers}} more stand in the table Stragglers.", figures=figures
        )
    return notices


def _straggler(told: Blame, worker: int, rows: list[Row]) -> Notice:
    low, high = told.lost(worker)
    row = told.found.main_group(worker)
    cells, once = why(told, worker), told.is_once(worker)
    figures = [
        METRICS.figure("worker", told.names[worker]),
        METRICS.figure("lost_ns", high, "Cost per step"),
        METRICS.figure("lost_share", high / told.mean_ns),
        METRICS.figure("last_share", float(told.found.last[row] / max(int(told.found.collectives[row]), 1))),
        METRICS.figure("caused_wait_ns", rows[worker]["caused_wait_ns"]),  # type: ignore[arg-type]
    ]
    if once:
        text = _once(told, worker, figures)
    else:
        per = "per step" if told.count > 1 else f"of {told.each}"
        text = f"Other ranks wait for {{worker}}, which costs {{lost_ns}} {per} ({{lost_share}})"
        text += _when(told, worker, figures)
    text += _reason(told, worker, cells, figures)
    text += f" It arrives last at {{last_share}} of {_which(told, row, figures)}."
    cause = str(cells.get("late_cause") or "")
    return Notice(
        rule="straggler",
        severity=_loud_once(high / told.mean_ns) if once else _loud(high / told.mean_ns),
        text=text,
        todo=_TODO[_KEYS.get(cause, cause)],
        figures=figures,
        measure="lost_share",
        threshold=WORTH,
        title="A rank that the others wait for",
        why=_WHY,
        confidence=_confidence(told, worker, cells),
        saving=Saving(low, high, 0.0, told.mean_ns),
    )


def _which(told: Blame, row: int, figures: list[Figure]) -> str:
    """The collectives that a share is of: those of one group of the worker (a row of Stragglers), by name or by size."""
    found = told.found
    if name := told.groups[int(found.group[row])]:
        figures.append(METRICS.figure("group", name))
        return "its collectives in group {group}"
    if int((found.worker == found.worker[row]).sum()) == 1:
        return "its collectives"
    figures.append(METRICS.figure("workers", int(found.size[row]), "Ranks of the group"))
    return "the collectives of one of its groups, that of {workers} ranks without a name"


def _once(told: Blame, worker: int, figures: list[Figure]) -> str:
    """Of one that is late in a single step: what that cost there, and what it comes to as a mean."""
    step, lost, share = told.worst_step(worker)
    figures += [
        METRICS.figure("worst_step", step),
        METRICS.figure("worst_lost_ns", lost),
        METRICS.figure("worst_lost_share", share),
        METRICS.figure("job_steps", told.count),
    ]
    return (
        "{worker} cost {worst_lost_ns} in step {worst_step} alone ({worst_lost_share} of that step): the others waited until "
        "it arrived. Spread over all {job_steps} steps that is {lost_ns} a step ({lost_share})."
    )


def _when(told: Blame, worker: int, figures: list[Figure]) -> str:
    """In which steps, the end of the first sentence."""
    pattern = told.found.pattern[worker]
    count, late = told.count, int(told.found.slow[worker].sum())
    if told.labels == ("",) or count == 1 or (pattern == PERSISTENT and late == count):
        return "."
    figures += [METRICS.figure("late_steps", late), METRICS.figure("job_steps", count)]
    if every := int(told.found.every[worker]):
        figures.append(METRICS.figure("late_every", every))
        return ", at every {late_every} steps ({late_steps} of {job_steps}; a mean over all)."
    return ", in {late_steps} of {job_steps} steps."


def _reason(told: Blame, worker: int, cells: dict[str, object], figures: list[Figure]) -> str:
    """Why, a sentence; empty where it is not known."""
    if not cells:
        return ""
    excess = told.excess[worker]
    text = _differing(told, excess, worker, cells, figures)
    if excess.unexplained_ns <= _UNEXPLAINED * excess.cost_ns:
        return text
    figures.append(_figure(told, worker, "late_unexplained_ns", excess.unexplained_ns))
    return f"{text} {{late_unexplained_ns}} of what it costs is not explained by this."


def _differing(told: Blame, excess: Excess, worker: int, cells: dict[str, object], figures: list[Figure]) -> str:
    """What the straggler does longer than the others, a sentence."""
    figures += [
        _figure(told, worker, "late_cause_ns", excess.ns[excess.main]),
        METRICS.figure("late_cause_share", cells["late_cause_share"]),  # type: ignore[arg-type]
    ]
    begin = " Before it arrived there, " if told.is_once(worker) else " Before it arrives, "
    did = {
        COMPUTE: "it computes {late_cause_ns} longer than the others",
        "communication": "it communicates {late_cause_ns} longer in other groups than the others",
        "copy": "it copies {late_cause_ns} longer than the others while nothing computes",
        "input": "its input takes {late_cause_ns} longer than that of the others",
        "host": "its device has nothing to do for {late_cause_ns} longer than the others', while its host is busy or late",
        "idle": "nothing happens for {late_cause_ns} longer than on the others",
    }
    if not told.on_devices:
        did["host"] = "its host is busy or late for {late_cause_ns} longer than those of the others"
        did["input"] = "its host loads data for {late_cause_ns} longer than those of the others"
    text = f"{begin}{did[excess.main]} ({{late_cause_share}} of what differs)"
    kernels = told.kernels.get(worker)
    if (slow := told.slow_groups.get(worker, -1)) >= 0:
        figures.append(METRICS.figure("held_up_in", told.groups[slow]))
        members = [w for w, its in told.slow_groups.items() if its == slow]
        if len(members) > 1:
            figures.append(METRICS.figure("stragglers", len(members), "Late for this reason"))
            return f"{text}, most in group {{held_up_in}}, which makes {{stragglers}} ranks late together."
        return f"{text}, most in group {{held_up_in}}."
    if excess.main != COMPUTE or kernels is None or not kernels.how:
        return f"{text}."
    if kernels.how == SLOW_DEVICE:
        figures.append(METRICS.figure("late_factor", kernels.factor))
        return f"{text}: all its kernels take {{late_factor}} times as long, as on a slow device."
    first, what = kernels.kernels[0], "kernel" if told.on_devices else "operator"
    figures.append(METRICS.figure("late_kernel", first.name))
    figures.append(_figure(told, worker, "late_kernel_ns", first.excess_ns))
    more, these = ("more", "that step") if told.is_once(worker) else ("more a step", "these steps")
    if kernels.how == MORE_CALLS:
        figures += [METRICS.figure("late_calls", first.calls), METRICS.figure("usual_calls", first.usual_calls)]
        return (
            f"{text}: {what} {{late_kernel}} takes {{late_kernel_ns}} {more}; it is called {{late_calls}} times in "
            f"{these}, on the others {{usual_calls}} times."
        )
    figures.append(METRICS.figure("late_factor", first.factor))
    return (
        f"{text}: {what} {{late_kernel}} takes {{late_kernel_ns}} {more}; called as often, it takes {{late_factor}} "
        "times as long, as with more or larger input."
    )


def _figure(told: Blame, worker: int, key: str, total: int) -> Figure:
    """A sum over the late steps as a mean of all steps; of one that is late once what it is in that step."""
    if told.is_once(worker):
        return METRICS.figure(key, total, window=STEP)
    return METRICS.figure(key, told.per_step(total))


def _in_turn(told: Blame, workers: Sequence[int]) -> Notice | None:
    """One notice of ranks that are late in turn."""
    low, high = (sum(told.lost(worker)[i] for worker in workers) for i in (0, 1))
    if not told.mean_ns or high < WORTH * told.mean_ns:
        return None
    causes = [str(why(told, worker).get("late_cause") or "") for worker in workers]
    common = causes[0] if len(set(causes)) == 1 else ""
    figures = [
        METRICS.figure("stragglers", len(workers)),
        METRICS.figure("late_steps", int(told.found.slow.any(axis=0).sum())),
        METRICS.figure("job_steps", told.count),
        METRICS.figure("lost_ns", high),
        METRICS.figure("lost_share", high / told.mean_ns),
        METRICS.figure("worker", told.names[workers[0]], "Late most"),
    ]
    text = (
        "In {late_steps} of {job_steps} steps one rank is late, now this and now that one of {stragglers}: {lost_ns} of each "
        "step ({lost_share}). {worker} costs most."
    )
    if common:
        figures.append(METRICS.figure("late_cause", common))
        text += " What differs each time is {late_cause}."
    return Notice(
        rule="straggler",
        severity=_loud(high / told.mean_ns),
        text=text,
        todo="No single machine is to blame. Even out what the ranks are given (lengths of sequences, sizes of samples), and "
        "look for what comes by turns: other jobs, collections of garbage, storage.",
        figures=figures,
        measure="lost_share",
        threshold=WORTH,
        title="Ranks that are late in turn",
        why=_WHY,
        confidence="medium",
        saving=Saving(min(low, high), high, 0.0, told.mean_ns),
    )


def uneven_compute(told: Blame, data: JobData, rows: list[Row]) -> Notice | None:
    """Returns the notice about ranks that compute unequally long, where no single one is a straggler."""
    compute = np.full((len(data.names), len(data.labels)), np.nan)
    compute[data.step_places] = data.step_table["compute_ns"].cast("float64", safe=False).fill_null(np.nan).to_numpy()
    compute = compute[:, ~np.isnan(compute).any(axis=0)]
    waits = [value for row in rows if isinstance(value := row["wait_ns"], int)]
    if len(compute) < 2 or not compute.size or not told.mean_ns or not waits or bool(told.met.two_ended.any()):
        return None
    over = float((compute.max(axis=0) - compute.mean(axis=0)).mean())
    high = min(over, told.per_step(sum(waits)) / len(waits))
    if high < UNEVEN_SHARE * told.mean_ns:
        return None
    longest = np.bincount(compute.argmax(axis=0), minlength=len(compute))
    most = int(longest.argmax())
    figures = [
        METRICS.figure("compute_spread_ns", over),
        METRICS.figure("compute_spread_share", over / told.mean_ns),
        METRICS.figure("worker", told.names[most], "Computes longest most often"),
        METRICS.figure("late_steps", int(longest[most]), "Steps in which it computes longest"),
        METRICS.figure("job_steps", int(compute.shape[1])),
    ]
    text = (
        "Ranks compute unequally long: in each step the longest one {compute_spread_ns} "
        "({compute_spread_share}) more than on average. "
        "{worker} computes longest in {late_steps} of {job_steps} steps."
    )
    return Notice(
        rule="load_imbalance",
        severity=_loud(high / told.mean_ns),
        text=text,
        todo="Even out what ranks are given in a step: sort samples by length, pack sequences, split by tokens rather than "
        "by samples, balance experts.",
        figures=figures,
        measure="compute_spread_share",
        threshold=UNEVEN_SHARE,
        title="Uneven work",
        why="All ranks of a collective wait for the one that computes longest. At most this is gained if all computed for as "
        "long as they do on average, and no more than they wait.",
        confidence="medium",
        saving=Saving(0.0, high, 0.0, told.mean_ns),
    )


def _confidence(told: Blame, worker: int, cells: dict[str, object]) -> Literal["high", "medium", "low"]:
    """High where nearly all that differs has one cause, in a worker that is late again and again."""
    share = cells.get("late_cause_share")
    if not isinstance(share, float):
        return "low"
    return "high" if share >= 0.8 and told.found.pattern[worker] != SINGLE else "medium"


def _loud_once(share: float) -> Severity:
    """The same of what happened once: nobody knows whether it does again."""
    return "medium" if share >= _MEDIUM_SHARE else "low"


def _loud(share: float) -> Severity:
    """How loud a finding is that tells whom all ranks wait for: one machine to look at, for the time of all."""
    if share >= _HIGH_SHARE:
        return "high"
    return severity_of(share) if share >= _MEDIUM_SHARE else "low"
