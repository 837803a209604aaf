"""Stragglers by name: cost per step, pattern and cause.

In one file: each number of the report needs the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from tb_plugin.analysis.collective_names import POINT_TO_POINT
from tb_plugin.lib.arrays import Bool, Float64, Int64
from tb_plugin.lib.groupby import codes
from tb_plugin.lib.malloc_trim import give_back_memory
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.views.distributed.clocks.lateness import BEGAN_LATER
from tb_plugin.views.distributed.job_data import JobData
from tb_plugin.views.distributed.matching.keys import is_one_of, numbers_of, texts_of
from tb_plugin.views.distributed.missing_ranks import missing_ranks
from tb_plugin.views.distributed.stragglers.arrivals import Arrivals, StragglerCalls, arrivals
from tb_plugin.views.distributed.stragglers.causes import (
    COMMUNICATION,
    COMPONENTS,
    COMPUTE,
    Excess,
    extra_times,
    slow_group,
)
from tb_plugin.views.distributed.stragglers.detection import MIN_COST_SHARE, PERIODIC, SINGLE, Stragglers, stragglers
from tb_plugin.views.distributed.stragglers.replay import simulated_saving
from tb_plugin.views.distributed.stragglers.root_cause import passed_on, root_causes, waits_for_worker
from tb_plugin.views.distributed.stragglers.slow_kernels import (
    MORE_CALLS,
    SLOW_DEVICE,
    KernelDifference,
    KernelTimes,
    slow_kernels,
)

# number of stragglers whose cost is simulated and whose kernels are compared, costliest first
MAX_EXPLAINED = 10
# if removing a straggler saves less than this share of the wait it causes, other stragglers mask it
MIN_GAIN_SHARE = 0.5
# collectives in which some ranks may leave before the last rank arrives
ROOTED = frozenset({"broadcast", "reduce", "gather", "scatter"})
# minimum share of steps in which no rank lacks calls; with fewer, costs are not estimated
MIN_COMPLETE_SHARE = 0.5
# names of causes by component
CAUSES = {
    "compute": "computation", "communication": "communication in other groups", "copy": "copies", "input": "data loading",
    "host": "the host", "idle": "idle, cause not recorded",
}  # fmt: skip
# columns of the table of stragglers
STRAGGLER = {
    "worker": pa.string(), "group": pa.string(), "stands_out": pa.bool_(), "lost_ns": pa.float64(),
    "lost_share": pa.float64(), "late_cause": pa.string(), "late_cause_ns": pa.float64(), "late_kernel": pa.string(),
    "late_pattern": pa.string(), "worst_step": pa.string(), "late_steps": pa.int64(), "usual_worker": pa.string(),
    "held_up_in": pa.string(), "last_share": pa.float64(), "late_how": pa.string(), "late_factor": pa.float64(),
    "late_cause_share": pa.float64(), "collectives_met": pa.int64(), "arrived_last": pa.int64(),
    "late_median_ns": pa.float64(), **{f"more_{key}_ns": pa.float64() for key in COMPONENTS},
}  # fmt: skip


class StragglerReport(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Stragglers of the selected steps, or of the whole recording if the recording has no steps."""

    names: tuple[str, ...]
    groups: tuple[str, ...]
    """Group names by group code."""
    labels: tuple[str, ...]
    """Labels of the analyzed steps. A recording without steps has one empty label."""
    step_ns: Float64
    calls: StragglerCalls
    stragglers: Stragglers
    excess: dict[int, Excess]
    slow_groups: dict[int, int]
    """Maps each straggler with extra communication to the group in which that communication occurs."""
    kernels: dict[int, KernelDifference]
    lacking: str
    """Missing data, because of which costs are not estimated; empty if costs are estimated."""
    is_upper_bound: bool
    """Whether costs are sums of waits, because host calls cannot be replayed."""

    @property
    def count(self) -> int:
        return len(self.labels)

    @cached_property
    def mean_ns(self) -> float:
        """Returns the mean step time, ns; 0 if unknown."""
        return float(self.step_ns.mean()) if self.count else 0.0

    @property
    def each(self) -> str:
        """Returns the phrase after a cost in a sentence, such as "per step"."""
        return "in the recording" if self.labels == ("",) else "per step" if self.count > 1 else "in the step"

    def per_step(self, total: float) -> float:
        """Returns ``total`` divided by the number of analyzed steps."""
        return total / max(self.count, 1)

    @property
    def has_costs(self) -> bool:
        return not self.lacking and self.mean_ns > 0

    @cached_property
    def lost_ns(self) -> Float64:
        """Returns the time per step that would be saved if each worker were as fast as the next slowest worker.

        Without an estimate (``has_costs``), the values only order the workers.
        """
        mean: Float64 = self.stragglers.lost_ns.sum(axis=1) / max(self.count, 1)
        return mean

    def lost(self, worker: int) -> float:
        return float(self.lost_ns[worker])

    @property
    def costly(self) -> list[int]:
        """Returns the stragglers whose cost per step reaches ``MIN_COST_SHARE``, costliest first.

        Stragglers that are late in a single step come last.
        """
        worth = [
            w
            for w in self.stragglers.significant.tolist()
            if self.mean_ns and self.lost(w) >= MIN_COST_SHARE * self.mean_ns
        ]
        return sorted(worth, key=self.is_once)

    def is_once(self, worker: int) -> bool:
        """Returns whether a straggler is late in only one of several steps. Such lateness may never recur."""
        return self.count > 1 and self.stragglers.pattern[worker] == SINGLE

    @cached_property
    def usual(self) -> Int64:
        """Returns the reference worker for each row of Stragglers (-1 = none): the worker with median lateness in
        the group.
        """
        found = self.stragglers
        order = np.lexsort((found.worker, found.late_ns, found.group))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        _, of, count = np.unique(found.group, return_inverse=True, return_counts=True)
        size, first = count[of], (np.cumsum(count) - count)[of]
        # The (lower) median among the others, without the worker itself.
        middle = first + (size - 2) // 2
        middle += place <= middle
        return np.where(size > 1, found.worker[order[np.minimum(middle, len(order) - 1)]], -1)

    def pattern(self, worker: int) -> str:
        """Returns the pattern of a worker's lateness in words, or "" if the worker is not a straggler."""
        name = self.stragglers.pattern[worker]
        return f"every {self.stragglers.every[worker]} steps" if name == PERIODIC else name

    def root_of_waits(self, calls: Int64) -> str | None:
        """Returns the worker that is the root cause of most of the wait in ``calls``.

        Returns None if the wait is insignificant, or if the calls wait for the root cause directly.
        """
        found = passed_on(self.calls, self.roots, calls)
        is_significant = found is not None and found[1] >= MIN_COST_SHARE * self.mean_ns * max(self.count, 1)
        return self.names[found[0]] if found is not None and is_significant else None

    def root_of_worker(self, worker: int) -> str | None:
        """Returns the root cause of most of the time that other workers wait in collectives for ``worker``.

        Messages are excluded because messages wait by design.
        """
        return self.root_of_waits(self._calls_that_wait[worker])

    @cached_property
    def _calls_that_wait(self) -> list[Int64]:
        """Returns, for each worker, the calls of collectives that wait for the worker."""
        last = self.calls.waiting.last
        calls = np.flatnonzero(waits_for_worker(self.calls) & ~self.calls.two_ended)
        calls = calls[np.argsort(last[calls], kind="stable")]
        return np.split(calls, np.searchsorted(last[calls], np.arange(1, len(self.names))))

    @cached_property
    def roots(self) -> Int64:
        """Returns the worker that is the root cause of the wait in each call; -1 = unknown."""
        return root_causes(self.calls)


@cached_by_argument
def straggler_report(data: JobData) -> StragglerReport:
    """Returns the stragglers of a job with cost and cause. A single worker is never a straggler."""
    labels, step_of, step_ns = _steps(data)
    calls, groups, kind = _straggler_calls(data, step_of)
    is_complete = _complete_steps(calls, len(labels))
    lacking = missing_ranks(data.ranks, data.world_size)
    lacking = f"{lacking} {'have' if lacking.startswith('ranks') else 'has'} no trace" if lacking else ""
    if not lacking and (data.size or 0) > len(data.names):
        lacking = "some ranks have no trace"
    if not lacking and is_complete.sum() < MIN_COMPLETE_SHARE * len(labels):
        lacking = "some ranks lack calls"
    elif not lacking and not is_complete.all():
        labels = tuple(label for label, is_whole in zip(labels, is_complete.tolist(), strict=True) if is_whole)
        place = np.where(is_complete, np.cumsum(is_complete) - 1, len(labels))
        calls = replace(calls, step=np.append(place, len(labels))[calls.step])
        step_ns = step_ns[is_complete]
    arrived = arrivals(calls)
    found = stragglers(arrived, len(data.names), step_ns)
    if data.summary is not None:
        found = _as_in_all_steps(found, labels, straggler_report(data.summary))
    activity_ns = {
        key: _column(data, f"before_{key}_ns", -1)
        for key in COMPONENTS
        if f"before_{key}_ns" in data.calls.data.column_names
    }
    excess = extra_times(arrived, found, activity_ns)
    main_rows = {one: found.main_group(one) for one, more in excess.items() if more.main == COMMUNICATION}
    slow = {
        one: slow_group(calls, kind, one, _other_members(found, row), int(found.group[row]), found.slow[one])
        for one, row in list(main_rows.items())[:MAX_EXPLAINED]
    }
    kernels = _kernels(data, found, excess, labels)
    can_replay = bool(data.calls.data["on_device"].to_numpy().all())
    if data.summary is None and len(calls.worker) and can_replay and not lacking:
        found = _with_simulated_costs(found, arrived, step_ns)
    give_back_memory()  # 100 MB for 1,024 ranks; the next tables need as much
    return StragglerReport(
        data.names, groups, labels, step_ns, calls, found, excess, slow, kernels, lacking, not can_replay
    )


def _as_in_all_steps(found: Stragglers, labels: tuple[str, ...], every: StragglerReport) -> Stragglers:
    """Replaces results for selected steps by results for all steps, so that the selection does not change a cost.

    A straggler that is not late in a selected step is dropped.
    """
    if not set(labels) <= set(every.labels):  # no selected step has a time
        return found
    at = [every.labels.index(label) for label in labels]
    slow = every.stragglers.slow[:, at]
    pattern = (name if late.any() else "" for name, late in zip(every.stragglers.pattern, slow, strict=True))
    return replace(
        found,
        lost_ns=every.stragglers.lost_ns[:, at],
        slow=slow,
        pattern=tuple(pattern),
        every=every.stragglers.every,
    )


def _with_simulated_costs(found: Stragglers, arrived: Arrivals, step_ns: Float64) -> Stragglers:
    """Replaces the costs of the costliest stragglers by simulated costs."""
    candidates, shape = found.significant[:MAX_EXPLAINED].tolist(), found.lost_ns.shape
    lost, pattern = found.lost_ns.copy(), list(found.pattern)
    for one, gain in zip(candidates, simulated_saving(arrived, [[one] for one in candidates], *shape), strict=True):
        lost[one] = gain
        if len(candidates) > 1 and gain.sum() < MIN_GAIN_SHARE * found.lost_ns[one].sum():
            # Other stragglers mask the saving: use the additional saving after they are as fast as the next rank.
            others = [other for other in candidates if other != one]
            more = simulated_saving(arrived, [candidates], *shape)[0] - simulated_saving(arrived, [others], *shape)[0]
            lost[one] = np.maximum(gain, np.minimum(more, found.lost_ns[one]))
        if lost[one].sum() < MIN_COST_SHARE * step_ns.sum():
            pattern[one] = ""
    return replace(found, lost_ns=lost, pattern=tuple(pattern))


def _steps(data: JobData) -> tuple[tuple[str, ...], Int64, Float64]:
    """Returns the labels of the analyzed steps, the index of each step label among them, and their lengths.

    The index of a step that is not analyzed is the number of analyzed steps.
    """
    at, length = data.step_places[1], data.step_table["step_total_ns"]
    known = length.is_valid().to_numpy()
    count = np.bincount(at[known], minlength=len(data.labels))
    total = np.bincount(at[known], weights=length.drop_null().to_numpy(), minlength=len(data.labels))
    timed = np.flatnonzero(count)
    if not len(timed) and not len(at) and len(data.calls.worker):
        calls = data.calls
        first, last = np.full(len(data.names), np.iinfo(np.int64).max), np.full(len(data.names), np.iinfo(np.int64).min)
        np.minimum.at(first, calls.worker, calls.start_ns)
        np.maximum.at(last, calls.worker, calls.end_ns)
        lasts = last > first
        whole = float((last - first)[lasts].mean()) if lasts.any() else 0.0
        return ("",), np.zeros(len(data.labels) + 1, np.int64), np.array([whole])
    step_of = np.full(len(data.labels) + 1, len(timed), np.int64)
    step_of[timed] = np.arange(len(timed))
    return tuple(data.labels[place] for place in timed.tolist()), step_of, total[timed] / count[timed]


def _complete_steps(calls: StragglerCalls, steps: int) -> Bool:
    """Returns the steps in which all ranks of each group have equally many collectives of the group."""
    rows = np.flatnonzero((calls.step < steps) & ~calls.two_ended)
    block = codes(calls.group[rows], calls.step[rows])
    _, first, count = np.unique(codes(block, calls.worker[rows]), return_index=True, return_counts=True)
    of, rows = block[first], rows[first]
    most = np.zeros(int(of.max(initial=-1)) + 1, np.int64)
    np.maximum.at(most, of, count)
    members = np.bincount(calls.group[np.unique(codes(calls.group, calls.worker), return_index=True)[1]])
    lacks = (count < most[of]) | (np.bincount(of)[of] < members[calls.group[rows]])
    found = np.ones(steps, np.bool_)
    found[calls.step[rows[lacks]]] = False
    return found


def _straggler_calls(data: JobData, step_of: Int64) -> tuple[StragglerCalls, tuple[str, ...], Int64]:
    """Returns the columns of calls, the group names by code, and the purpose of each group."""
    calls = data.calls
    group, ranks = texts_of(calls.data, "group"), texts_of(calls.data, "group_ranks")
    _, first, code = np.unique(numbers_of(calls.data, "group_code"), return_index=True, return_inverse=True)
    described = {(row["group"], row["group_ranks"]): str(row["group_description"] or "") for row in data.process_groups}
    names, kinds_of = [], []
    for row in first.tolist():
        name, listed = group[1][group[0][row]] or "", ranks[1][ranks[0][row]] or ""
        description = described.get((name, listed), "")
        kinds_of.append(description or name)
        names.append(f"{name} ({description})" if description and description != name else name)
    collective, kinds = texts_of(calls.data, "collective")
    dur, blocked = calls.end_ns - calls.start_ns, _column(data, "blocked_ns", -1)
    two_ended = is_one_of(collective, kinds, POINT_TO_POINT)
    pairs = np.unique(codes(code, two_ended.astype(np.int64), calls.worker), return_index=True)[1]
    both = codes(code, two_ended.astype(np.int64))
    is_complete = calls.waiting.workers == np.bincount(both[pairs], minlength=int(both.max(initial=-1)) + 1)[both]
    straggler_calls = StragglerCalls(
        worker=calls.worker,
        step=step_of[calls.step],
        group=code.astype(np.int64),
        stream=texts_of(calls.data, "stream")[0],
        two_ended=two_ended,
        counted=calls.matched & is_complete & ~two_ended & ~is_one_of(collective, kinds, ROOTED)
        & (calls.late.arrival != BEGAN_LATER),
        start_ns=calls.start_ns,
        dur_ns=dur,
        blocked_ns=np.where(blocked >= 0, blocked, dur),
        match=calls.match,
        waiting=calls.waiting,
    )  # fmt: skip
    return (
        straggler_calls,
        tuple(names),
        np.unique(np.array(kinds_of, np.str_), return_inverse=True)[1].astype(np.int64),
    )


def _column(data: JobData, key: str, missing: int) -> Int64:
    if key not in data.calls.data.column_names:
        return np.full(len(data.calls.worker), missing, np.int64)
    return numbers_of(data.calls.data, key, missing)


def _kernels(
    data: JobData, found: Stragglers, excess: dict[int, Excess], labels: Sequence[str]
) -> dict[int, KernelDifference]:
    """Returns the kernel differences of the costliest stragglers that compute longer than other workers."""
    table = data.kernels
    selected = [
        one for one in found.significant.tolist()[:MAX_EXPLAINED] if one in excess and excess[one].main == COMPUTE
    ]
    if table is None or not selected or not table.num_rows:
        return {}
    kernel, names = texts_of(table, "kernel")
    step = pc.fill_null(pc.index_in(table["step"], value_set=pa.array(labels, pa.string())), len(labels))
    if tuple(labels) == ("",):
        step = pa.array(np.zeros(table.num_rows, np.int64))
    times = KernelTimes(
        worker=table["worker"].to_numpy().astype(np.int64),
        step=step.to_numpy().astype(np.int64),
        kernel=kernel,
        calls=table["kernel_calls"].to_numpy().astype(np.int64),
        ns=table["kernel_ns"].to_numpy().astype(np.int64),
        names=names,
    )
    differences = {}
    for one in selected:
        differences[one] = slow_kernels(times, one, _other_members(found, found.main_group(one)), found.slow[one])
    return differences


def _other_members(found: Stragglers, row: int) -> list[int]:
    return [w for w in found.worker[found.group == found.group[row]].tolist() if w != found.worker[row]]


def cause_columns(report: StragglerReport, worker: int) -> dict[str, object]:
    """Returns the table columns for the cause of a worker's lateness. For an unknown cause, the result is empty."""
    excess = report.excess.get(worker)
    if excess is None or not excess.main:
        return {}
    cells: dict[str, object] = {f"more_{key}_ns": report.per_step(value) for key, value in excess.ns.items()}
    cells["late_cause"] = CAUSES[excess.main]
    cells["late_cause_ns"] = report.per_step(excess.ns[excess.main])
    cells["late_cause_share"] = excess.share(excess.main)
    if (slow := report.slow_groups.get(worker, -1)) >= 0:
        cells["held_up_in"] = report.groups[slow]
    kernels = report.kernels.get(worker)
    if excess.main == COMPUTE and kernels is not None and kernels.how:
        cells["late_how"] = kernels.how
        if kernels.how != MORE_CALLS:
            cells["late_factor"] = None if np.isnan(kernels.factor) else kernels.factor
        if kernels.how == SLOW_DEVICE:
            cells["late_cause"] = "slow device"
        else:
            cells["late_kernel"] = kernels.kernels[0].name
    return cells


def straggler_table(data: JobData) -> pa.Table:
    """Returns one row per worker and group with a cost.

    Repeated stragglers come first, then workers that are late once, then all other workers. Each of the three
    sections is sorted by cost. The first row of a worker is its costliest group.
    """
    if data.is_single:
        return pa.table({key: pa.array([], kind) for key, kind in STRAGGLER.items()})
    report = straggler_report(data)
    found = report.stragglers
    rows = np.flatnonzero(found.cost_ns > 0)
    worker = found.worker[rows]
    # 0: repeatedly late, 1: once, 2: no straggler.
    kind = np.array([report.is_once(w) if found.pattern[w] else 2 for w in worker.tolist()], np.int64)
    most = np.zeros(len(report.names), np.int64)
    np.maximum.at(most, worker, found.cost_ns[rows])
    rows = rows[np.lexsort((rows, -found.cost_ns[rows], worker, -most[worker], kind))]
    cells = [_row(report, row) for row in rows.tolist()]
    return pa.table({key: pa.array([row.get(key) for row in cells], kind) for key, kind in STRAGGLER.items()})


def _row(report: StragglerReport, row: int) -> dict[str, object]:
    found, worker = report.stragglers, int(report.stragglers.worker[row])
    stands_out = bool(found.pattern[worker]) and found.main_group(worker) == row
    # Each group sees the same delay, so only the row of the costliest group shows the saving per step.
    lost = report.lost(worker) if stands_out else report.per_step(int(found.cost_ns[row]))
    cells: dict[str, object] = {
        "worker": report.names[worker],
        "group": report.groups[int(found.group[row])],
        "stands_out": stands_out,
        "lost_ns": lost if report.has_costs else None,
        "lost_share": lost / report.mean_ns if report.has_costs else None,
        "collectives_met": int(found.collectives[row]),
        "arrived_last": int(found.last_count[row]),
        "last_share": float(found.last_count[row] / max(int(found.collectives[row]), 1)),
        "late_median_ns": float(found.late_ns[row]),
        "usual_worker": report.names[usual] if (usual := int(report.usual[row])) >= 0 else None,
    }
    if stands_out:
        cells["late_pattern"] = report.pattern(worker)
        cells["late_steps"] = int(found.slow[worker].sum())
        cells["worst_step"] = report.labels[int(np.argmax(found.lost_ns[worker]))]
        cells |= cause_columns(report, worker)
    return cells
