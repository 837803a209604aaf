"""Lateness by corrected clocks: by hand, of invented jobs with their truth, and of recordings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from msgspec.structs import replace

from tb_plugin.analysis.base import Params, Part
from tb_plugin.analysis.collective_names import collective_name
from tb_plugin.lib.groupby import median_by
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.distributed.clocks.anchors import SYNCHRONIZING, anchors_of
from tb_plugin.views.distributed.clocks.lateness import ARRIVALS, Lateness, lateness_of, sure_of
from tb_plugin.views.distributed.clocks.offsets import Clocks, clocks_of
from tests import synthetic_job as jobs
from tests.conftest import SAMPLES, SHARED, loaded, needs_shared, sample
from tests.depth import sampled
from tests.jobs_of_parts import VIEW, notices_of, table_of

Int64 = npt.NDArray[np.int64]


def ints(*values: int) -> Int64:
    return np.array(values, np.int64)


def clocks_with(offset_ns: Int64, residual_ns: Int64, connected: Int64 | None = None) -> Clocks:
    n = len(offset_ns)
    nothing = np.zeros(n, np.int64)
    connected = nothing if connected is None else connected
    how = np.where(connected < 0, 0, 1)
    return Clocks(nothing, offset_ns, np.zeros(n), residual_ns, nothing + 9, nothing, how, connected)


def arrivals(late: Lateness) -> list[str]:
    return [ARRIVALS[code] for code in late.arrival]


# ------------------------------------------------------------------------------------------- by hand


def test_lateness_skew_and_wait_of_three_workers() -> None:
    """The clock of worker 2 shows 1000 too much: it begins at 130, not at 1130. All end at 200."""
    clocks = clocks_with(ints(0, 0, -1000), ints(5, 5, 5))
    late = lateness_of(clocks, ints(0, 1, 2), ints(0, 0, 0), ints(0, 0, 0), ints(100, 104, 1130))
    assert late.lateness_ns.tolist() == [-4, 0, 26]
    assert late.skew_ns.tolist() == [30, 30, 30]
    assert late.last.tolist() == [2, 2, 2]
    sure = sure_of(late, clocks, ints(0, 1, 2))
    assert sure.lateness.tolist() == [False, False, True], "4 and 0 are less than the clocks may be wrong by"


def test_nothing_is_told_of_ranks_that_come_closer_together_than_clocks_tell() -> None:
    clocks = clocks_with(ints(0, 0), ints(10, 40))
    late = lateness_of(clocks, ints(0, 1, 0, 1), ints(0, 0, 1, 1), ints(0, 0, 0, 0), ints(0, 39, 100, 140))
    assert arrivals(late) == ["below the residual"] * 2 + ["known"] * 2
    sure = sure_of(late, clocks, ints(0, 1, 0, 1))
    assert sure.skew.tolist() == [False, False, True, True]
    assert not sure.lateness[:2].any()


def test_nothing_is_told_across_clocks_that_nobody_compared() -> None:
    clocks = clocks_with(ints(0, 0, 0, 0), ints(0, 0, 0, 0), ints(0, 1, 1, -1))
    worker, match = ints(0, 1, 1, 2, 2, 3, 0), ints(0, 0, 1, 1, 2, 2, -1)
    late = lateness_of(clocks, worker, match, ints(0, 0, 1, 1, 2, 2, 0), ints(0, 50, 60, 90, 100, 200, 300))
    told = ["clocks unknown"] * 2 + ["known"] * 2 + ["clocks unknown"] * 2 + ["alone"]
    assert arrivals(late) == told
    assert late.lateness_ns.tolist() == [0, 0, -15, 15, 0, 0, 0]
    assert late.last.tolist() == [-1, -1, 2, 2, -1, -1, -1]


def test_the_first_collective_of_a_recording_that_begins_later_is_nobodys_lateness() -> None:
    """Worker 2 recorded from 150 on: the second collective, which it came 60 late to; worker 1 lost the second one."""
    clocks = clocks_with(ints(0, 0, 150), ints(1, 1, 1))
    worker = ints(0, 1, 0, 2, 0, 1, 2)
    match = ints(0, 0, 1, 1, 2, 2, 2)
    start = ints(0, 3, 100, 10, 200, 210, 70)
    late = lateness_of(clocks, worker, match, np.zeros(7, np.int64), start)
    assert arrivals(late) == ["known"] * 2 + ["recording starts later"] * 2 + ["known"] * 3
    assert sure_of(late, clocks, worker).lateness.tolist() == [True, True, False, False, True, False, True]


# ------------------------------------------------------------------------------------ invented jobs


@dataclass
class Invented:
    """Calls of all ranks of an invented job, as their files have them, what is found of them, and the truth."""

    worker: Int64
    match: Int64
    true_start: Int64
    clocks: Clocks
    late: Lateness


def invented(seed: int, **given: Any) -> Invented:
    """Eight or more ranks, wrong clocks that drift, one rank absent, one recording late, one that lost a tenth."""
    job = jobs.Job(
        steps=6, layers=2, kernels=4, seed=seed, offset_ns=50_000_000, drift_ppb=100_000,
        **{"missing": ((3, 0.1),), "absent": (5,), "late": ((6, 2),), **given},
    )  # fmt: skip
    made = jobs.plan(job)
    ranks = [rank for rank in range(job.ranks) if rank not in job.absent]
    each = [jobs.calls(made, rank) for rank in ranks]
    worker = np.repeat(np.arange(len(ranks)), [len(calls["match"]) for calls in each])
    columns = {key: np.concatenate([c[key] for c in each]) for key in ("start_ns", "dur_ns", "match", "true_start_ns")}
    first = np.array([calls["start_ns"].min() for calls in each])
    start = columns["start_ns"] - first[worker]
    end = start + columns["dur_ns"]
    match, count = np.unique(columns["match"], return_inverse=True, return_counts=True)[1:]
    match = np.where(count[match] > 1, np.cumsum(count > 1)[match] - 1, -1)
    names = [collective_name(name) for calls in each for name in calls["collective"]]
    group = np.unique([name for calls in each for name in calls["group"]], return_inverse=True)[1]
    sync = np.array([name in SYNCHRONIZING for name in names])
    anchors = anchors_of(worker, match, group, end, np.ones(len(worker), np.bool_), sync)
    clocks = clocks_of(anchors, np.array([int(made.base[rank]) for rank in ranks]) + first)
    late = lateness_of(clocks, worker, match, group, start)
    return Invented(worker, match, columns["true_start_ns"], clocks, late)


@pytest.mark.parametrize("seed", sampled(range(100), (0, 1)))
@pytest.mark.parametrize("shape", [{"ranks": 8}, {"ranks": 16, "tp": 4}], ids=["data parallel", "tensor x data"])
def test_lateness_of_an_invented_job_is_the_planted_one(shape: dict[str, Any], seed: int) -> None:
    """Jitter of 2 us at the ends, clocks up to 50 ms apart that drift by up to 100 ppm."""
    found = invented(seed, **shape)
    late, met = found.late, found.match >= 0
    middle = median_by(found.match[met], found.true_start[met], int(found.match.max()) + 1)
    truth = found.true_start[met] - middle[found.match[met]]
    wrong = np.abs(late.lateness_ns[met] - truth)
    assert np.quantile(wrong, 0.95) <= 5_000
    assert wrong.max() <= found.clocks.residual_ns.max()
    told = sure_of(late, found.clocks, found.worker).lateness[met]
    assert (np.abs(truth[told]) > 0).all()
    assert Counter(arrivals(late))["recording starts later"] >= 7, "rank 6 began two steps later"


def test_who_is_told_to_come_last_came_last() -> None:
    found = invented(4, ranks=8, stragglers=(jobs.Straggler(2, "kernel"),))
    told = np.flatnonzero((found.late.arrival == 0) & (found.late.skew_ns > 100_000))
    assert len(told) > 20
    for row in told.tolist():
        others = np.flatnonzero(found.match == found.match[row])
        assert found.worker[others[found.true_start[others].argmax()]] == found.late.last[row]


# --------------------------------------------------------------------------------------- recordings


def part_of(name: str, trace: TraceTable) -> Part:
    """The part of a worker, with the time at which its trace began."""
    part = VIEW.part(trace, Params())
    zero = (trace.base_time_ns or 0) + trace.origin_ns
    return replace(part, worker=name, facts={**part.facts, "distributed.base_time_ns": zero})


def rules_of(parts: list[Part]) -> set[str]:
    return {notice.rule for notice in notices_of(parts)}


def shifted(part: Part, by_ns: int) -> Part:
    """A part as if the clock of its host showed more."""
    base = part.facts["distributed.base_time_ns"]
    assert isinstance(base, int)
    return replace(part, facts={**part.facts, "distributed.base_time_ns": base + by_ns})


def sample_parts(folder: str) -> list[Part]:
    files = sorted((SAMPLES / folder).glob("*.json.gz"))
    return [part_of(file.name.split(".")[0], sample(f"{folder}/{file.name}")) for file in files]


def test_two_processes_of_one_host_have_one_clock() -> None:
    """Recorded with gloo on one machine: the clocks are the same, which the ends of collectives tell to some 100 us."""
    parts = sample_parts("ddp_gloo")
    clocks = table_of(parts, "clocks")
    for row in clocks:
        assert abs(row["clock_offset_ns"]) < min(row["clock_residual_ns"], 20_000)
        assert row["clock_residual_ns"] < 500_000
    moved = table_of([parts[0], shifted(parts[1], 7_200 * 10**9)], "clocks")
    apart = moved[0]["clock_offset_ns"] - moved[1]["clock_offset_ns"]
    before = clocks[0]["clock_offset_ns"] - clocks[1]["clock_offset_ns"]
    assert apart - before == 7_200 * 10**9


def test_lateness_and_transfer_do_not_depend_on_what_clocks_show() -> None:
    parts = sample_parts("ddp_gloo")
    keys = ("lateness_ns", "arrival_skew_ns", "last_arrived", "wait_ns")
    one, other = (
        [[row[key] for key in keys] for row in table_of([parts[0], shifted(parts[1], by)], "collectives")]
        for by in (0, 86_400 * 10**9)
    )
    for mine, its in zip(one, other, strict=True):
        for a, b in zip(mine, its, strict=True):
            assert a == b or abs(a - b) <= 2
    assert "clocks_apart" in rules_of([parts[0], shifted(parts[1], 86_400 * 10**9)])


def test_of_exact_ends_wait_by_clocks_is_wait_by_the_shortest_call() -> None:
    """The generator of samples ends all ranks of a collective at one time, by one clock."""
    parts = sample_parts("synthetic_ddp")
    assert [row["clock_offset_ns"] for row in table_of(parts, "clocks")] == [0, 0, 0, 0]
    for row in table_of(parts, "collectives"):
        assert row["last_arrived"] == row["last_worker"]


def test_a_worker_that_records_later_is_not_late_at_first() -> None:
    """In ``synthetic_groups`` the recording of rank 3 begins a step after the others'."""
    parts = sample_parts("synthetic_groups")
    begins = {row["worker"]: row["trace_begins_ns"] for row in table_of(parts, "clocks")}
    assert begins["rank0"] == begins["rank1"] == begins["rank2"] == 0
    assert begins["rank3"] > 10**7
    rows = table_of(parts, "collectives")
    assert Counter(row["arrival"] for row in rows if row["worker"] == "rank3")["recording starts later"] == 1
    assert all(row["lateness_ns"] is None for row in rows if row["arrival"] != "known")
    assert "recording_later" in rules_of(parts)


def test_partners_show_no_lateness_that_clocks_cannot_tell() -> None:
    parts = sample_parts("synthetic_groups")
    rows = table_of(parts, "collectives")
    for arrival, known in (("known", True), ("recording starts later", False), ("alone", False)):
        row = next(row for row in rows if row["arrival"] == arrival)
        asked = (("of", row["worker"]), ("call", str(row["call"])))
        partners = table_of(parts, "partners", extra=asked)
        assert {partner["lateness_ns"] is not None for partner in partners} == {known}


def test_partners_stand_the_latest_first_by_clocks() -> None:
    """Whoever is in the middle has no lateness that clocks tell, and still a place. Once durations say another order."""
    parts = sample_parts("synthetic_job")
    clocks = {row["worker"]: row for row in table_of(parts, "clocks")}

    def begin_ns(row: dict[str, Any]) -> float:
        clock = clocks[row["worker"]]
        return float(clock["trace_begins_ns"] + row["start_ns"] * (1 + (clock["clock_drift_ppb"] or 0) / 1e9))

    by_wait = 0
    for call in table_of(parts, "collectives", where=(("worker", "rank0"), ("arrival", "known"))):
        partners = table_of(parts, "partners", extra=(("of", "rank0"), ("call", str(call["call"]))))
        begin = [begin_ns(row) for row in partners]
        assert all(before >= after - 2 for before, after in pairwise(begin))
        by_wait += [row["wait_ns"] for row in partners] == sorted(row["wait_ns"] for row in partners)
    assert by_wait == 24, "of 25"


@needs_shared
@pytest.mark.parametrize("folder", ["torch213/ddp_gloo2", "hta/trace_filter"])
def test_recordings_of_one_host(folder: str) -> None:
    """Clocks of two ranks on one machine agree to what is stated, and pairs of ends say the same."""
    files = sorted((SHARED / "data" / folder).glob("*rank*.json.gz"))
    traces = [loaded(str(file)) for file in files]
    parts = [part_of(f"rank{i}", trace) for i, trace in enumerate(traces)]
    rows = table_of(parts, "clocks")
    apart = rows[0]["clock_offset_ns"] - rows[1]["clock_offset_ns"]
    assert abs(apart) <= rows[0]["clock_residual_ns"] + rows[1]["clock_residual_ns"]
    ends: dict[int, dict[str, int]] = {}
    for row in table_of(parts, "collectives"):
        if row["match"] is not None and row["collective"] in SYNCHRONIZING:
            zero = parts[int(row["worker"][-1])].facts["distributed.base_time_ns"]
            assert isinstance(zero, int)
            ends.setdefault(row["match"], {})[row["worker"]] = zero + row["start_ns"] + row["dur_ns"]
    plain = np.median([end["rank1"] - end["rank0"] for end in ends.values()])
    assert abs(apart - plain) <= rows[0]["clock_residual_ns"]


def test_imprecise_clocks_are_told() -> None:
    """Recorded with gloo on one machine: one clock, and ends that scatter by more than the 50 us that anybody sees."""
    parts = sample_parts("ddp_gloo")
    assert min(row["clock_residual_ns"] for row in table_of(parts, "clocks")) > 50_000
    assert "clocks_apart" in rules_of(parts)
    assert "clocks_apart" not in rules_of(sample_parts("synthetic_ddp"))
