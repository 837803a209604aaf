"""Clocks of workers: planted offsets, drifts, losses and delays are found; what cannot be known is not claimed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from tb_plugin.lib.groupby import median_by, quantile_by
from tb_plugin.views.distributed.clocks.anchors import MAX_ANCHORS_PER_GROUP, Anchors, anchors_of
from tb_plugin.views.distributed.clocks.offsets import (
    DRIFT,
    HOW,
    OFFSET,
    UNKNOWN,
    Clocks,
    clocks_from,
    clocks_of,
    clocks_table,
)
from tests.depth import examples, sampled
from tests.synthetic_job import Job, calls, plan

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

S = 10**9
EPOCH = 1_790_000_000 * S
JITTER_NS = 2_000
BOUND_NS = 5_000
"""What the issue asks for at that jitter."""


@dataclass
class Planted:
    """Ends of collectives as clocks with known errors show them, and what is true."""

    worker: Int64
    match: Int64
    group: Int64
    end_ns: Int64
    zero_ns: Int64
    begin: Int64
    """When each trace began, truly."""
    drift: Float64
    span_ns: int

    @property
    def anchors(self) -> Anchors:
        """Returns the ends of all, as of all_reduce kernels."""
        every = np.ones(len(self.worker), np.bool_)
        return anchors_of(self.worker, self.match, self.group, self.end_ns, every, every)

    @property
    def clocks(self) -> Clocks:
        """Returns what is found."""
        return clocks_of(self.anchors, self.zero_ns)

    def only(self, kept: npt.NDArray[np.bool_]) -> Planted:
        """Returns it with some of the ends."""
        columns = {name: getattr(self, name)[kept] for name in ("worker", "match", "group", "end_ns")}
        return dataclasses.replace(self, **columns)

    def errors(self, clocks: Clocks) -> Int64:
        """Returns how wrong corrected times of [time, worker] are at eleven times, but for what no end tells: all at once."""
        workers = np.arange(len(self.zero_ns))
        times = np.linspace(2 * S, 2 * S + self.span_ns, 11)
        at = [np.rint((time - self.begin) / (1 + self.drift)).astype(np.int64) for time in times]
        found = np.array([clocks.corrected(workers, each) for each in at])
        wrong: Int64 = found - np.rint(np.median(found, axis=1, keepdims=True)).astype(np.int64)
        return wrong


def plant(
    seed: int,
    groups: Sequence[Sequence[int]],
    count: int = 60,
    span_ns: int = 60 * S,
    offset_ns: float = 5e6,
    drift: float = 1e-4,
    jitter_ns: int = JITTER_NS,
    outliers: float = 0.0,
    missing: Sequence[tuple[int, float]] = (),
    counts: Sequence[int] = (),
) -> Planted:
    """``count`` collectives of each group, or ``counts``; ``missing`` are workers that lost a share of their calls."""
    rng = np.random.default_rng(seed)
    workers = max(max(members) for members in groups) + 1
    begin = rng.integers(0, S, workers)
    rates = rng.uniform(-drift, drift, workers)
    columns: list[list[Int64]] = [[], [], [], []]
    counts = counts or [count] * len(groups)
    for number, (members, count) in enumerate(zip(groups, counts, strict=True)):
        who = np.array(members)
        time = np.sort(rng.uniform(2 * S, 2 * S + span_ns, count))[:, None] + rng.normal(
            0, jitter_ns, (count, len(who))
        )
        time += (rng.random(time.shape) < outliers) * rng.exponential(1e6, time.shape)
        kept = np.ones(time.shape, np.bool_)
        for worker, share in missing:
            kept[:, who == worker] &= rng.random((count, 1)) >= share
        every = (
            who[None, :],
            sum(counts[:number]) + np.arange(count)[:, None],
            number,
            (time - begin[who]) / (1 + rates[who]),
        )
        for column, values in zip(columns, every, strict=True):
            column.append(np.rint(np.broadcast_to(values, time.shape)[kept]).astype(np.int64))
    found = [np.concatenate(column) for column in columns]
    offsets = np.rint(rng.uniform(-offset_ns, offset_ns, workers)).astype(np.int64)
    return Planted(found[0], found[1], found[2], found[3], EPOCH + begin - offsets, begin, rates, span_ns)


def grid(tensor: int, data: int) -> list[list[int]]:
    """Tensor-parallel groups of neighbours, and data-parallel ones across them: no group holds all ranks."""
    rows = [list(range(i * tensor, (i + 1) * tensor)) for i in range(data)]
    return rows + [list(range(i, tensor * data, tensor)) for i in range(tensor)]


def shared(*ends: tuple[int, int, int]) -> Anchors:
    """Ends as (worker, match, time)."""
    worker, match, end = (np.array(column, np.int64) for column in zip(*ends, strict=True))
    return Anchors(worker, match, end)


# ------------------------------------------------------------------------------------------- by hand


def test_of_two_workers_each_is_half_as_far_from_the_middle() -> None:
    """Both clocks show 1000 when their traces begin; worker 1's shows 40 more whenever a collective ends."""
    anchors = shared((0, 0, 100), (1, 0, 140), (0, 1, 200), (1, 1, 240), (0, 2, 300), (1, 2, 340))
    clocks = clocks_of(anchors, np.array([1000, 1000]))
    assert clocks.offset_ns.tolist() == [20, -20]
    assert clocks.residual_ns.tolist() == [0, 0]
    assert [HOW[how] for how in clocks.how] == [OFFSET, OFFSET]
    # time + offset: 100 + 20 = 140 - 20; the axis begins with the first trace, that of worker 1 (1000 - 20).
    assert clocks.begin_ns.tolist() == [40, 0]
    assert clocks.corrected(np.array([0, 1]), np.array([100, 140])).tolist() == [140, 140]


def test_a_recording_that_begins_later_is_no_offset() -> None:
    """The clock of worker 1 is right; its trace begins 70 after the other's, so that its times are 70 less."""
    anchors = shared(*((w, m, 100 * m + 500 - 70 * w) for m in range(4) for w in range(2)))
    clocks = clocks_of(anchors, np.array([1000, 1070]))
    assert clocks.offset_ns.tolist() == [0, 0]
    assert clocks.begin_ns.tolist() == [0, 70]


def test_a_drift_is_nanoseconds_to_add_for_each_nanosecond_since_the_trace_began() -> None:
    """Three workers end together each second; the clock of the last one gains 50 us in each."""
    ends = [(w, m, (m + 1) * S + (50_000 * (m + 1) if w == 2 else 0)) for m in range(20) for w in range(3)]
    clocks = clocks_of(shared(*ends), np.array([EPOCH, EPOCH, EPOCH]))
    assert [HOW[how] for how in clocks.how] == [OFFSET, OFFSET, DRIFT]
    assert clocks.drift[:2].tolist() == [0, 0]
    assert clocks.drift[2] == pytest.approx(-50_000 / (S + 50_000), rel=1e-6)
    assert clocks.corrected(np.array([0, 2]), np.array([10 * S, 10 * S + 500_000])).tolist() == [10 * S, 10 * S]


def test_workers_that_meet_nobody_or_too_seldom_are_unknown() -> None:
    anchors = shared(*((w, m, 10 * m) for m in range(3) for w in (0, 1)), (0, 3, 40), (2, 3, 40))
    clocks = clocks_of(anchors, np.zeros(4, np.int64))
    assert [HOW[how] for how in clocks.how] == [OFFSET, OFFSET, UNKNOWN, UNKNOWN]
    assert clocks.connected.tolist() == [0, 0, -1, -1]
    assert clocks.anchors.tolist() == [4, 3, 1, 0]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("others", [2, 3])
@pytest.mark.parametrize("far", [0, 2**61])
def test_a_clock_that_contradicts_all_others_moves_none_of_them(others: int, far: int) -> None:
    """The others end together each second, worker 0 always at the same time, or absurdly early and late as well.

    Whatever offset it gets, it agrees with one collective at most, and its residual tells so.
    """
    ends = [(0, m, far * (m - 2) if m in (1, 3) else 0) for m in range(6)]
    ends += [(w + 1, m, (m + 1) * S) for m in range(6) for w in range(others)]
    clocks = clocks_of(shared(*ends), np.zeros(others + 1, np.int64))
    assert [HOW[how] for how in clocks.how[1:]] == [OFFSET] * others
    assert not clocks.offset_ns[1:].any() and not clocks.residual_ns[1:].any()
    assert S <= clocks.offset_ns[0] <= 6 * S and clocks.residual_ns[0] > 2 * S


def test_groups_without_a_common_rank_are_sets_of_their_own_each_with_a_median_of_zero() -> None:
    planted = plant(1, [[0, 1, 2, 3], [4, 5, 6]])
    clocks = planted.clocks
    assert clocks.connected.tolist() == [0, 0, 0, 0, 1, 1, 1]
    for members in (slice(0, 4), slice(4, 7)):
        assert abs(np.median(clocks.offset_ns[members])) <= 1
        assert np.median(clocks.drift[members]) == pytest.approx(0, abs=1e-12)


def test_nothing_at_all() -> None:
    nothing = np.empty(0, np.int64)
    none = anchors_of(nothing, nothing, nothing, nothing, nothing == 0, nothing == 0)
    assert clocks_of(none, np.array([5, 7])).how.tolist() == [0, 0]
    assert clocks_of(none, nothing).begin_ns.tolist() == []


def test_what_was_seen_on_a_device_by_some_and_on_the_host_by_others_has_no_common_end() -> None:
    worker, match, group = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1]), np.zeros(4, np.int64)
    end, sync = np.array([10, 10, 20, 20]), np.array([True, True, True, True])
    found = anchors_of(worker, match, group, end, np.array([True, False, True, True]), sync)
    assert found.end_ns.tolist() == [20, 20]
    broadcast = anchors_of(worker, match, group, end, np.ones(4, np.bool_), np.array([True, True, False, False]))
    assert broadcast.end_ns.tolist() == [10, 10]


def test_a_table_of_clocks_holds_all_of_them() -> None:
    clocks = plant(3, [[0, 1, 2]]).clocks
    again = clocks_from(clocks_table(clocks, np.array([True, True, False])))
    assert all((getattr(again, name) == values).all() for name, values in asdict(clocks).items() if name != "begin_ns")


# ------------------------------------------------------------------------------------------- planted


@pytest.mark.parametrize("seed", sampled(range(100), (0, 1, 2)))
@pytest.mark.parametrize("groups", [[range(8)], grid(4, 4), [range(2)]], ids=["one group", "grid", "pair"])
def test_planted_clocks_are_found(groups: Sequence[Sequence[int]], seed: int) -> None:
    """One worker lost a tenth of its collectives."""
    planted = plant(seed, groups, missing=[(1, 0.1)])
    clocks = planted.clocks
    errors = np.abs(planted.errors(clocks))
    assert np.quantile(errors, 0.95) <= BOUND_NS / 2
    assert errors.max() <= clocks.residual_ns.max(), "no time is further off than what is stated"
    assert np.median(clocks.residual_ns) <= BOUND_NS
    assert abs(np.median(clocks.offset_ns)) <= 1
    truth = (1 + planted.drift) / (1 + np.median(planted.drift)) - 1
    assert {HOW[how] for how in clocks.how[np.abs(truth) > 1e-6]} <= {DRIFT}
    assert (np.abs(clocks.drift - truth) <= 2e-7).all()


@pytest.mark.parametrize("seed", sampled(range(100), (0, 1)))
def test_a_tenth_of_delayed_ends_moves_nothing(seed: int) -> None:
    planted = plant(seed, [range(8)], outliers=0.1)
    clocks = planted.clocks
    assert np.quantile(np.abs(planted.errors(clocks)), 0.95) <= BOUND_NS / 2
    assert clocks.residual_ns.max() <= 2 * BOUND_NS
    assert clocks.aside.sum() > 20, "they are counted instead"


def test_clocks_may_be_years_apart() -> None:
    planted = plant(0, grid(3, 3), offset_ns=3e16)
    assert np.abs(planted.errors(planted.clocks)).max() <= BOUND_NS


def test_few_anchors_tell_an_offset_alone() -> None:
    planted = plant(0, [range(4)], count=5, span_ns=S // 10, drift=1e-5)
    clocks = planted.clocks
    assert {HOW[how] for how in clocks.how} == {OFFSET}
    assert np.abs(planted.errors(clocks)).max() <= BOUND_NS


def test_a_drift_that_short_recordings_cannot_tell_is_not_made_up() -> None:
    """Twenty ends within a millisecond, but 2 us of noise: a line through them would be off by far a second later."""
    clocks = plant(0, [range(4)], count=20, span_ns=S // 1000, drift=0).clocks
    assert {HOW[how] for how in clocks.how} == {OFFSET}
    assert not clocks.drift.any()


@pytest.mark.parametrize("workers", [8, 1024])
def test_a_drift_within_noise_is_none(workers: int) -> None:
    """Clocks that do not drift, for 10 s: noise of the ends alone gives each a slope to be carried far off."""
    clocks = plant(0, [range(workers)], count=40, span_ns=10 * S, drift=0).clocks
    drifts = np.array([HOW[how] for how in clocks.how]) == DRIFT
    assert drifts.mean() < 0.02
    assert (clocks.drift[~drifts] == 0).all()
    drifting = plant(0, [range(8)], count=40, span_ns=10 * S, drift=1e-5).clocks
    assert (np.array([HOW[how] for how in drifting.how]) == DRIFT).sum() >= 6


@examples(20, 300)
@given(seed=st.integers(0, 2**32 - 1), tensor=st.integers(2, 4), data=st.integers(2, 4), lost=st.floats(0, 0.5))
def test_jobs_of_any_shape(seed: int, tensor: int, data: int, lost: float) -> None:
    planted = plant(seed, grid(tensor, data), count=40, span_ns=10 * S, missing=[(0, lost), (tensor, lost)])
    clocks = planted.clocks
    assert np.quantile(np.abs(planted.errors(clocks)), 0.95) <= BOUND_NS


@pytest.mark.parametrize("seed", sampled(range(20), (0,)))
def test_plain_medians_of_pairs_say_the_same(seed: int) -> None:
    """Without drift what each two workers of a group differ by is the median of their ends' differences."""
    planted = plant(seed, grid(3, 3), drift=0)
    clocks = planted.clocks
    for one, other in ((0, 1), (3, 5), (2, 8)):
        first, second = (
            dict(zip(planted.match[mine].tolist(), planted.end_ns[mine].tolist(), strict=True))
            for mine in (planted.worker == one, planted.worker == other)
        )
        plain = np.median([first[match] - second[match] for match in first.keys() & second.keys()])
        begins = clocks.begin_ns[other] - clocks.begin_ns[one]
        assert abs(begins - plain) <= BOUND_NS / 2


# ------------------------------------------------------------------------------------ invented jobs


def invented(seed: int, drift_ppb: int = 0, **more: int) -> tuple[Clocks, Float64]:
    """The clocks of an invented job of eight ranks and six steps, and the drift that each has to be corrected by."""
    made = plan(Job(ranks=8, steps=6, jitter_ns=500, seed=seed, drift_ppb=drift_ppb, **more))
    columns: list[list[Int64]] = [[], [], [], [], []]
    zero, groups = [], dict[str, int]()
    for rank in range(8):
        told = calls(made, rank)
        end = told["start_ns"] + told["dur_ns"]
        group = [groups.setdefault(ranks, len(groups)) for ranks in told["group_ranks"]]
        sync = np.isin(told["collective"], ["allreduce", "_allgather_base", "barrier"])
        zero.append(int(end[0]))
        for column, values in zip(columns, (end * 0 + rank, told["match"], group, end - end[0], sync), strict=True):
            column.append(np.array(values))
    worker, match, of, end, sure = (np.concatenate(column) for column in columns)
    drift = -made.clock[:, 1] * 1e-9
    return clocks_of(anchors_of(worker, match, of, end, sure > -1, sure > 0), np.array(zero)), drift


@pytest.mark.parametrize("stages", [1, 2])
def test_drifts_that_are_none_are_next_to_never_claimed(stages: int) -> None:
    """In a pipeline few collectives tie its stages: their clocks drift apart by noise, all of a stage alike."""
    every = [invented(seed, pp=stages)[0] for seed in sampled(range(100), range(15))]
    claimed = np.array([clocks.how == HOW.index(DRIFT) for clocks in every])
    assert claimed.mean() <= (0.002 if stages == 1 else 0.02)


@pytest.mark.parametrize("stages", [1, 2])
def test_drifts_are_found_where_they_can_be_told(stages: int) -> None:
    wrong, told = list[float](), list[bool]()
    for seed in sampled(range(100), range(10)):
        clocks, planted = invented(seed, 100_000, pp=stages)
        truth = (1 + planted) / (1 + np.median(planted)) - 1
        far = np.abs(truth) > 5e-5
        told += (clocks.how == HOW.index(DRIFT))[far].tolist()
        wrong += (clocks.drift - truth)[far].tolist()
    assert len(told) > 20 and np.mean(told) >= 0.95
    assert np.quantile(np.abs(wrong), 0.95) < 3e-5


# ------------------------------------------------------------------------------------- many anchors


def test_of_many_collectives_some_of_each_worker_and_group_are_kept_whole() -> None:
    """Worker 2 has the last tenth alone: it keeps as many as the others, spread over its own time."""
    planted = plant(0, [range(3)], count=5_000)
    kept = (planted.worker < 2) | (planted.match >= 4_500)
    cut = planted.only(kept)
    anchors = cut.anchors
    count = np.bincount(anchors.worker)
    assert (count >= MAX_ANCHORS_PER_GROUP * 0.9).all()
    assert (count <= 2 * MAX_ANCHORS_PER_GROUP * 1.1).all(), "those that others want are kept too"
    assert np.abs(cut.errors(cut.clocks)).max() <= 2 * BOUND_NS
    mine = np.sort(anchors.end_ns[anchors.worker == 2])
    assert np.diff(mine).max() < 0.05 * (mine[-1] - mine[0])


def test_who_has_few_collectives_keeps_them_all() -> None:
    planted = plant(0, [range(3)], count=5_000)
    kept = (planted.worker < 2) | np.isin(planted.match, [17, 1_234, 4_321, 4_444])
    cut = planted.only(kept)
    assert (cut.anchors.worker == 2).sum() == 4


def test_quantiles_of_keys() -> None:
    key, values = np.array([2, 0, 2, 2, 0, 2]), np.array([7, 5, 1, 3, 8, 100])
    assert quantile_by(key, values, 4, 50).tolist() == [5, 0, 3, 0]
    assert quantile_by(key, values, 4, 95).tolist() == [8, 0, 100, 0]
    assert median_by(key, values, 4).tolist() == [6, 0, 5, 0]
