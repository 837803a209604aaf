"""Stragglers: what they cost, when they are late and why; by hand, against plans, and against an invented job's truth."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tb_plugin.analysis.base import Params, Part
from tb_plugin.lib.intervals import union
from tb_plugin.payloads import Table
from tb_plugin.views.distributed.job_data import job_data
from tb_plugin.views.distributed.merge import join
from tb_plugin.views.distributed.rank.profile import blocked_ns
from tb_plugin.views.distributed.rank_sentence import rank_notices
from tb_plugin.views.distributed.stragglers.arrivals import arrivals
from tb_plugin.views.distributed.stragglers.calls import UNKNOWN, StragglerCalls
from tb_plugin.views.distributed.stragglers.causes import COMPONENTS, extra_times
from tb_plugin.views.distributed.stragglers.detection import Stragglers, _without_noise_tails, stragglers
from tb_plugin.views.distributed.stragglers.findings import straggler_findings
from tb_plugin.views.distributed.stragglers.intervals import activities_before_bursts, first_of_burst
from tb_plugin.views.distributed.stragglers.patterns import is_rotating, late_pattern
from tb_plugin.views.distributed.stragglers.report import Blame, cause_columns, straggler_report
from tb_plugin.views.distributed.stragglers.root_cause import passed_on, root_cause_of_calls, root_causes
from tb_plugin.views.distributed.stragglers.slow_kernels import (
    LONGER_CALLS,
    MORE_CALLS,
    SLOW_DEVICE,
    KernelTimes,
    slow_kernels,
)
from tb_plugin.views.distributed.view import Distributed
from tests.builders import model
from tests.conftest import REPO, SAMPLES, sample
from tests.depth import DEEP, sampled
from tests.jobs_of_ranks import Job, Plan, job
from tests.synthetic_job import Job as SyntheticJob
from tests.synthetic_job import Straggler, plan, truth, write

VIEW = Distributed()
TP, DP = [(0, 1), (2, 3)], [(0, 2), (1, 3)]
LATE = 300_000
SEEDS = sampled(range(100), range(4))
"""Of plans, which take milliseconds."""
TAILS = sampled(range(60), range(0, 60, 5))
JOBS = sampled(range(100), range(1))
"""Of invented jobs, which are written and read."""


def found_in(made: Job) -> Stragglers:
    return stragglers(arrivals(made.met()), len(made.workers), made.step_ns)


def told_in(made: Job) -> dict[int, tuple[str, int]]:
    """Rank -> pattern and cost of all steps."""
    found = found_in(made)
    return {made.workers[w]: (found.pattern[w], int(found.lost_ns[w].sum())) for w in found.significant.tolist()}


def noisy(random: np.random.Generator) -> float:
    return float(random.normal(0, 2_000))


def slow(rank: int, **kinds: int) -> Callable[[int, int, int], dict[str, int]]:
    return lambda r, step, place: kinds if r == rank else {}


# ---------------------------------------------------------------------------------------------------------- by hand


def three_ranks() -> Job:
    """Two collectives of three ranks, moving data for 10: they arrive at 0, 20, 100, and then 0, 10, 40 after its end."""
    starts = np.array([[0, 20, 100], [110, 120, 150]])
    ends = starts.max(axis=1) + 10
    columns = {
        "worker": [0, 0, 1, 1, 2, 2], "step": [0, 0] * 3, "group": [0] * 6, "place": [0, 1] * 3, "sequence": [0, 1] * 3,
        "start": starts.T.ravel(), "dur": (ends[:, None] - starts).T.ravel(), "size": [3] * 6,
    }  # fmt: skip
    return Job({key: np.array(values, np.int64) for key, values in columns.items()}, np.array([200.0]), [0, 1, 2])


def test_the_cost_is_the_last_arrival_less_the_one_before_and_delays_do_not_add_up() -> None:
    """Rank 2 is 80 later than the next, then 30: without it the first ends 80 earlier, and the second 110 in all."""
    arrived = arrivals(three_ranks().met())
    assert arrived.raw_ns.tolist() == arrived.high_ns.tolist() == arrived.low_ns.tolist() == [80, 30]
    assert arrived.culprit.tolist() == [2, 2]
    assert arrived.late_ns.tolist() == [-20, 0, 80, -10, 0, 30]
    found = found_in(three_ranks())
    assert found.lost_ns.tolist() == [[0], [0], [110]] == found.lost_low_ns.tolist()
    assert dict(zip(found.worker.tolist(), found.late_ns.tolist(), strict=True)) == {0: -15.0, 1: 0.0, 2: 55.0}
    # Dixon: from 55 to the next, 0, over the whole range, from 55 to -15.
    assert found.q[found.worker == 2].tolist() == [55 / 70]


@pytest.mark.parametrize("far", [50, 2**61])
def test_calls_under_way_at_once_are_told_however_long_a_recording_is(far: int) -> None:
    """The two calls of ranks 0 and 2 are far apart, those of rank 1 overlap."""
    met = replace(three_ranks().met(), start_ns=np.array([-far, far, 0, 5, -far, far]), dur_ns=np.full(6, 10))
    assert first_of_burst(met).tolist() == [0, 1, 2, 2, 4, 5]
    blocked = replace(met, blocked_ns=np.array([4, 10, 5, 10, 10, 10]))
    told = activities_before_bursts(blocked, {"compute": np.ones(6, np.int64)}, first_of_burst(met))
    # Rank 0 computes for 6 in its first call, which is before the second.
    assert told.done("compute", np.arange(6), told.burst).tolist() == [1, 7, 1, 1, 1, 1]


@pytest.mark.filterwarnings("error")
def test_of_no_chosen_step_nobody_costs_anything() -> None:
    """Calls that are in no chosen step (their step is beyond the last) still tell who arrived last, and cost nothing."""
    made = three_ranks()
    for met in (made.met(), replace(made.met(), match=np.full(6, -1)), Job({k: v[:0] for k, v in made.columns.items()},
                made.step_ns, []).met()):  # fmt: skip
        found = stragglers(arrivals(met), 3, np.zeros(0))
        assert found.lost_ns.shape == found.lost_low_ns.shape == found.slow.shape == (3, 0)
        assert (found.pattern, len(found.significant), found.cost_ns.sum()) == (("",) * 3, 0, 0)
    assert stragglers(arrivals(made.met()), 3, np.zeros(0)).last.tolist() == [0, 0, 2]


def test_clocks_say_who_is_late_where_they_are_known_and_what_they_cannot_tell_is_nothing() -> None:
    """Durations say that rank 0 was last; corrected starts say rank 1, by 50, which is no more than the clocks' own error."""
    met = three_ranks().met()
    rows = met.match == 0
    late = np.where(rows, np.array([-10, 0, 40, 0, -10, 0]), UNKNOWN)
    assert arrivals(replace(met, lateness_ns=late)).raw_ns.tolist()[1] == 30
    assert arrivals(replace(met, lateness_ns=late)).culprit[0] == 1
    assert arrivals(replace(met, lateness_ns=late)).raw_ns[0] == 50
    assert arrivals(replace(met, lateness_ns=late, noise_ns=np.full(6, 50))).raw_ns.tolist() == [0, 0]


def test_what_computation_hides_costs_nothing() -> None:
    """Rank 1 waits 80 for rank 2 in the first, of which it computes for 60; rank 2 computes for none of its 10."""
    met = three_ranks().met()
    blocked = met.dur_ns.copy()
    blocked[2] -= 60
    arrived = arrivals(replace(met, blocked_ns=blocked))
    # It blocks rank 1 for 30 and rank 2 for 10; of what is waiting 20 to 80 may be hidden.
    assert (arrived.low_ns[0], arrived.high_ns[0]) == (20, 20)
    blocked[4] = 0  # rank 2 hides the transfer, too: 30 more of rank 1's time, of which 10 is transfer
    arrived = arrivals(replace(met, blocked_ns=blocked))
    assert (arrived.low_ns[0], arrived.high_ns[0]) == (20, 30)


@given(data=st.data())
def test_each_moment_blocks_the_call_that_began_last(data: st.DataObject) -> None:
    """Against every nanosecond."""
    spans = st.tuples(st.integers(0, 30), st.integers(0, 15))
    calls = data.draw(st.lists(spans, min_size=1, max_size=8))
    busy = data.draw(st.lists(spans, max_size=3))
    start, dur = np.array(calls, np.int64).T
    computing = union(*(np.array([(a, a + d) for a, d in busy] or [(0, 0)], np.int64).T))
    expected = [0] * len(calls)
    order = sorted(range(len(calls)), key=lambda i: calls[i][0])
    for t in range(50):
        running = [i for i in order if calls[i][0] <= t < sum(calls[i])]
        if running and not any(a <= t < a + d for a, d in busy):
            expected[running[-1]] += 1
    assert blocked_ns(computing, start, start + dur).tolist() == expected


@given(data=st.data())
def test_costs_follow_from_the_arrivals_alone(data: st.DataObject) -> None:
    """Of any arrivals at collectives that block: brute force."""
    ranks, count = data.draw(st.integers(2, 5)), data.draw(st.integers(1, 5))
    arrive = data.draw(
        st.lists(st.lists(st.integers(0, 99), min_size=ranks, max_size=ranks), min_size=count, max_size=count)
    )
    starts = np.array(arrive) + np.arange(count)[:, None] * 200
    ends = np.array(arrive).max(axis=1) + np.arange(count) * 200 + 10
    columns = {
        "worker": np.repeat(np.arange(ranks), count), "step": np.tile(np.arange(count) % 2, ranks),
        "group": np.zeros(ranks * count), "place": np.zeros(ranks * count), "sequence": np.tile(np.arange(count), ranks),
        "start": starts.T.ravel(), "dur": (ends[:, None] - starts).T.ravel(), "size": np.full(ranks * count, ranks),
    }  # fmt: skip
    made = Job({k: v.astype(np.int64) for k, v in columns.items()}, np.array([1000.0, 1000.0]), list(range(ranks)))
    found = found_in(made)
    expected = np.zeros((ranks, 2), np.int64)
    for i, row in enumerate(arrive):
        ordered = sorted(row)
        if ordered[-1] > ordered[-2]:
            expected[row.index(ordered[-1]), i % 2] += ordered[-1] - ordered[-2]
    assert (found.lost_ns == expected).all()
    assert (found.lost_low_ns <= found.lost_ns).all()
    assert found.cost_ns.sum() == expected.sum()


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ("..........", ("", 0)), ("1", ("single", 0)), ("...1......", ("single", 0)), ("1111111...", ("persistent", 0)),
        ("1111..1...", ("irregular", 0)), ("1....1....1...", ("periodic", 5)), (".1.1.1.1.1", ("periodic", 2)),
        ("1...1.......1...1", ("periodic", 4)), ("1...........1..1", ("", 0)), ("1.........1.........", ("", 0)),
    ],
)  # fmt: skip
def test_patterns(steps: str, expected: tuple[str, int]) -> None:
    assert late_pattern(np.array([step == "1" for step in steps])) == expected


def test_ranks_in_turn() -> None:
    turn = np.eye(4, dtype=np.bool_)[:, np.arange(12) % 4]
    assert is_rotating(turn)
    assert (
        not is_rotating(turn[:, :3])
        and not is_rotating(turn & (np.arange(12) < 5))
        and not is_rotating(np.ones((2, 9), np.bool_))
    )


# ----------------------------------------------------------------------------------------------------------- plans


def test_a_delay_counts_once_however_many_groups_see_it_and_its_victims_are_not_blamed() -> None:
    """Rank 0 computes longer before the first tensor-parallel collective: its pair waits, then both data-parallel groups."""
    made = job(Plan(groups=[TP, TP, DP], jitter=noisy, delay=lambda r, s, p: {"compute": LATE} if r == p == 0 else {}))
    for rank, place in ((0, 0), (0, 2), (1, 2)):
        assert sum(made.cost_ns[rank, step, place] for step in range(10)) > 9 * LATE
    told = told_in(made)
    assert list(told) == [0] and told[0][0] == "persistent"
    assert told[0][1] == pytest.approx(10 * LATE, rel=0.01)
    met = made.met()
    arrived, found = arrivals(met), found_in(made)
    held = root_causes(met, arrived, found, root_cause_of_calls(met))
    pair = made.columns["group"][(made.columns["worker"] == 0) & (made.columns["place"] == 0)][0]
    victim = np.flatnonzero((found.worker == 1) & (held.inherited_ns > 9 * LATE))
    assert (held.by[victim].tolist(), held.group[victim].tolist()) == ([0], [pair])


def two_groups(two_ended: bool) -> StragglerCalls:
    """Pairs 0, 1 and 2, 3 meet at 0, but rank 1 comes at 100; then 0, 2 and 1, 3 do. Data moves for 10."""
    columns = {
        "worker": [0, 0, 1, 1, 2, 2, 3, 3], "step": [0] * 8, "group": [0, 2, 0, 3, 1, 2, 1, 3], "place": [0, 1] * 4,
        "sequence": [0, 1] * 4, "size": [2] * 8,
        "start": [0, 110, 100, 110, 0, 10, 1, 11], "dur": [110, 10, 10, 10, 11, 110, 10, 109],
    }  # fmt: skip
    made = Job({key: np.array(values, np.int64) for key, values in columns.items()}, np.array([200.0]), [0, 1, 2, 3])
    return replace(made.met(), two_ended=np.array([False, two_ended] * 4))


@pytest.mark.parametrize("two_ended", [False, True])
@pytest.mark.parametrize("hidden", [False, True])
def test_the_root_is_whoever_was_not_held_up_however_a_delay_is_passed_on(two_ended: bool, hidden: bool) -> None:
    """Rank 2 waits for rank 0, which waited for rank 1: also where computation hides that, and where it is a message."""
    met = two_groups(two_ended)
    blocked = np.where(np.isin(met.group, (2, 3)) & hidden, 0, met.dur_ns)
    found = root_cause_of_calls(replace(met, blocked_ns=blocked))
    assert met.waiting.last.tolist() == [1, 0, 1, 1, 3, 0, 3, 1]
    assert found.by.tolist() == [1, -1, -1, -1, 3, 1, -1, 1]
    assert found.group.tolist() == [0, -1, -1, -1, 1, 0, -1, 3]
    # All that rank 2 waits for rank 0 is by rank 1; what rank 0 waits for rank 1 is nobody else's.
    assert passed_on(met, found, np.array([5])) == (1, 100.0)
    assert passed_on(met, found, np.array([0])) == (-1, 0.0)


@pytest.mark.parametrize(("waited", "root"), [(45, 0), (55, 1)])
def test_who_was_held_up_for_less_than_half_of_a_wait_is_late_on_its_own_account(waited: int, root: int) -> None:
    """Of the 100 that rank 2 waits, rank 0 waited some for rank 1."""
    met = two_groups(False)
    start, dur = met.start_ns.copy(), met.dur_ns.copy()
    start[0], dur[0] = 100 - waited, 10 + waited
    assert root_cause_of_calls(replace(met, start_ns=start, dur_ns=dur, blocked_ns=dur)).by[5] == root


def test_of_two_that_are_late_at_once_in_different_groups_neither_alone_surely_saves_anything() -> None:
    made = job(
        Plan(
            groups=[TP, TP, DP], jitter=noisy, delay=lambda r, s, p: {"compute": LATE} if r in (0, 3) and not p else {}
        )
    )
    found = found_in(made)
    assert sorted(found.significant.tolist()) == [0, 3]
    assert found.lost_ns[[0, 3]].sum(axis=1).tolist() == pytest.approx([10 * LATE] * 2, rel=0.01)
    assert (found.lost_low_ns[[0, 3]].sum(axis=1) < LATE / 4).all()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["persistent", "periodic", "rotating", "single"])
def test_planted_stragglers_with_missing_calls_and_an_absent_rank(kind: str, seed: int) -> None:
    """A tenth of the collectives of one rank is missing, in each second seed of the straggler itself; rank 5 is absent."""
    late = 1 + seed % 3
    victim = late if seed % 2 else 4
    when: dict[str, Callable[[int, int], bool]] = {
        "persistent": lambda r, s: r == late,
        "periodic": lambda r, s: r == late and s % 4 == seed % 4,
        "rotating": lambda r, s: r == s % 5,
        "single": lambda r, s: r == late and s == 3 + seed % 9,
    }
    cause = COMPONENTS[2 + seed % 3]
    random = np.random.default_rng(seed)
    gone = set(random.choice(np.arange(40), 4, replace=False).tolist())
    made = job(
        Plan(
            ranks=6,
            steps=20,
            jitter=noisy,
            seed=seed,
            absent=(5,),
            delay=lambda r, s, p: {cause: LATE} if when[kind](r, s) else {},
            missing=lambda r, s, p: r == victim and 2 * s + p in gone,
        )
    )
    found = found_in(made)
    late_ones = [late] if kind != "rotating" else list(range(5))
    assert sorted(found.significant.tolist()) == late_ones
    assert {found.pattern[w] for w in late_ones} == {kind}
    assert found.slow[late_ones].tolist() == [[when[kind](w, s) for s in range(20)] for w in late_ones]
    planted = sum(cost for (r, s, _), cost in made.cost_ns.items() if r < 5 and when[kind](r, s))
    # The absent rank may have been the one before the last, by the jitter of two arrivals.
    assert int(found.lost_ns[found.slow].sum()) == pytest.approx(planted, rel=0.01, abs=8_000)
    assert not found.lost_low_ns.any()  # rank 5 may have been later than all
    before = {key: made.columns[key] for key in COMPONENTS}
    met = made.met()
    for worker, more in extra_times(arrivals(met), found, before, first_of_burst(met)).items():
        assert (more.main, worker in late_ones) == (cause, True)
        # Where it lacks collectives it is compared since the one before: their delays are before the next one that it has.
        lacks = gone if worker == victim else set()
        after = [min((at for at in range(place, 40) if at not in lacks), default=40) // 2 for place in range(40)]
        late_in = [when[kind](worker, step) for step in range(20)] + [False]
        delays = sum(late_in[place // 2] and late_in[after[place]] for place in range(40))
        # Over several steps another one was late as well where they are in turn: the median of few lies between.
        between = kind == "rotating" and worker == victim
        assert more.ns[cause] == pytest.approx(delays * LATE, rel=0.01, abs=LATE / 2 if between else None)
        assert more.share(cause) > (0.93 if between else 0.97)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_noise_is_no_straggler(ranks: int, seed: int) -> None:
    """Jitter that is small, and as heavy as an exponential's of a tenth of the work."""
    heavy = job(Plan(ranks=ranks, steps=20, seed=seed, jitter=lambda random: random.exponential(100_000)))
    assert told_in(heavy) == {}
    assert told_in(job(Plan(ranks=ranks, steps=20, seed=seed, jitter=noisy))) == {}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("steps", [3, 5])
@pytest.mark.parametrize("groups", [[TP, TP, DP], ()])
def test_few_steps_and_groups_of_two(groups: list[Any], steps: int, seed: int) -> None:
    """Chance makes one of two last in all of three steps, but not by many times what it varies from step to step."""
    ranks = 4 if groups else 2
    planted = slow(1, compute=LATE)
    told = told_in(job(Plan(ranks=ranks, steps=steps, groups=groups, seed=seed, jitter=noisy, delay=planted)))
    assert {rank: name for rank, (name, _) in told.items()} == {1: "persistent"}
    assert told_in(job(Plan(ranks=ranks, steps=steps, groups=groups, seed=seed, jitter=noisy))) == {}
    if not groups:
        heavy = job(Plan(ranks=ranks, steps=steps, seed=seed, jitter=lambda random: random.exponential(100_000)))
        assert told_in(heavy) == {}


@pytest.mark.parametrize(("ranks", "steps"), [(3, 3), (4, 3), (8, 3), (8, 4)])
def test_of_few_steps_with_a_long_tail_of_noise_next_to_nobody_is_named(ranks: int, steps: int) -> None:
    """One in 60 plans, where without asking more of few steps it was eight; who is late by eight times as much still is."""

    def told(seed: int, scale: float, **more: Any) -> dict[int, tuple[str, int]]:
        jitter = lambda random: random.exponential(scale)  # noqa: E731
        return told_in(job(Plan(ranks=ranks, steps=steps, seed=seed, jitter=jitter, **more)))

    assert sum(bool(told(seed, 100_000)) for seed in TAILS) <= 1
    planted = [told(seed, LATE / 8, delay=slow(1, compute=LATE)) for seed in range(len(SEEDS))]
    assert {(rank, name) for each in planted for rank, (name, _) in each.items()} == {(1, "persistent")}
    assert all(planted)


def test_of_few_steps_the_others_say_how_far_noise_goes() -> None:
    """Rank 1 costs 300 in each of three steps; another one 70 in one of them, or 30."""
    lost = np.array([[0, 70, 0], [300, 300, 300], [0, 0, 0]])
    names, late = ("", "persistent", ""), lost > 200
    assert _without_noise_tails(names, late, lost) == ("", "", "")
    assert _without_noise_tails(names, late, np.where(lost == 70, 30, lost)) == names
    # What another straggler costs is no noise.
    assert _without_noise_tails(("single", "persistent", ""), lost > 60, lost) == ("single", "persistent", "")


# --------------------------------------------------------------------------------------------------------- kernels


def times_of(*workers: dict[str, tuple[int, int]]) -> KernelTimes:
    names = sorted({name for each in workers for name in each})
    rows = [(w, 0, names.index(k), calls, ns) for w, each in enumerate(workers) for k, (calls, ns) in each.items()]
    worker, step, kernel, calls, ns = np.array(rows, np.int64).T
    return KernelTimes(worker, step, kernel, calls, ns, names)


USUAL = {"a": (10, 1000), "b": (5, 500), "c": (1, 300), "": (9, 90)}


@pytest.mark.parametrize(
    ("mine", "how", "factor", "first"),
    [
        ({**USUAL, "b": (5, 900)}, LONGER_CALLS, 1.8, ("b", 400, 5)),
        ({**USUAL, "a": (15, 1500)}, MORE_CALLS, 1.0, ("a", 500, 15)),
        ({"a": (10, 1300), "b": (5, 650), "c": (1, 390), "": (9, 117)}, SLOW_DEVICE, 1.3, ("a", 300, 10)),
        ({**USUAL, "new": (2, 700)}, MORE_CALLS, None, ("new", 700, 2)),
        (USUAL, "", None, None),
    ],
)
def test_how_kernels_differ(mine: dict[str, tuple[int, int]], how: str, factor: float | None, first: Any) -> None:
    told = slow_kernels(times_of(mine, USUAL, USUAL), 0, [1, 2], np.array([True]))
    assert told.how == how
    assert np.isnan(told.factor) if factor is None else told.factor == pytest.approx(factor)
    if first is not None:
        assert (told.kernels[0].name, told.kernels[0].excess_ns, told.kernels[0].calls) == first


# --------------------------------------------------------------------------------------- an invented job, read back


def parts_of(made: Any) -> list[Part]:
    folder = Path(tempfile.mkdtemp())
    parts: list[Part] = []
    for path in write(made.job, folder, compressed=False, made=made):
        parts.append(replace(VIEW.part(model(path), Params()), worker=path.name.split(".")[0]))
        path.unlink()
    return parts


def table_of(joined: Part, name: str) -> list[dict[str, Any]]:
    answer = VIEW.answer([joined], Params(table=name, limit=None))
    assert isinstance(answer, Table)
    return answer.rows


def blamed(made: Any) -> Blame:
    return straggler_report(job_data(join(parts_of(made)), None))


CAUSES = {
    "kernel": ("computation", "longer calls"), "work": ("computation", "more calls"),
    "device": ("slow device", "slow device"), "input": ("data loading", None), "host": ("the host", None),
    "copy": ("copies", None),
}  # fmt: skip


@pytest.mark.parametrize("seed", JOBS)
@pytest.mark.parametrize("cause", CAUSES)
def test_the_truth_of_an_invented_job(cause: str, seed: int) -> None:
    """Data-parallel ranks whose collectives computation hides in part: what is lost, and by which cause.

    Nobody waits for what a rank does behind the last collective of a step until the next one, so the first step has less.
    """
    given = Straggler(1 + seed % 3, cause)
    made = plan(SyntheticJob(ranks=4, steps=4, seed=seed, noise=0.0, jitter_ns=500, stragglers=(given,)))
    told = blamed(made)
    (one,) = told.stragglers.significant.tolist()
    cells = cause_columns(told, one)
    assert (told.names[one], told.stragglers.pattern[one]) == (f"rank{given.rank}", "persistent")
    (planted,) = truth(made.job, made)["stragglers"]
    assert told.stragglers.lost_ns[one, 1:].tolist() == pytest.approx(planted["gain_ns"][1:], rel=0.01)
    assert (told.stragglers.lost_low_ns[one, 1:] <= np.array(planted["gain_ns"][1:]) * 1.001).all()
    assert (cells["late_cause"], cells.get("late_how")) == CAUSES[cause]
    assert cells["late_cause_ns"] == pytest.approx(planted["amount_ns"], rel=0.03)
    if cause in ("kernel", "work"):
        assert cells["late_kernel"] == planted["kernel_name"]


@pytest.mark.parametrize("seed", JOBS)
def test_the_truth_with_lost_calls_an_absent_rank_and_jitter(seed: int) -> None:
    """The ends of calls jitter by 2 us, a tenth of one rank's collectives is lost (each second time the straggler's own)."""
    late, cause = 1 + seed % 3, list(CAUSES)[seed % len(CAUSES)]
    given = Straggler(late, cause)
    lost = ((late if seed % 2 else 4, 0.1),)
    made = plan(
        SyntheticJob(
            ranks=6, steps=5, seed=seed, noise=0.0, stragglers=(given,), missing=lost, absent=(5,), drift_ppb=2000
        )
    )
    told = blamed(made)
    assert [told.names[w] for w in told.costly] == [f"rank{late}"]
    (one,) = told.costly
    (planted,) = truth(made.job, made)["stragglers"]
    assert told.stragglers.pattern[one] == "persistent"
    assert int(told.stragglers.lost_ns[one, 1:].sum()) == pytest.approx(sum(planted["gain_ns"][1:]), rel=0.01)
    cells = cause_columns(told, one)
    assert cells["late_cause"] == CAUSES[cause][0] and cells["late_cause_share"] > 0.97
    assert cells["late_cause_ns"] == pytest.approx(planted["amount_ns"], rel=0.03)


def test_who_is_late_again_and_again_stands_before_who_was_once() -> None:
    """Rank 1 costs some of each step, rank 2 much more of the second one alone: of that it is said what it was there."""
    given = (Straggler(1, "kernel", amount_ns=1_000_000), Straggler(2, "input", "single", 9_000_000, step=1))
    made = plan(SyntheticJob(ranks=8, steps=6, seed=3, noise=0.0, jitter_ns=500, stragglers=given))
    told = blamed(made)
    assert [(told.names[w], told.stragglers.pattern[w]) for w in told.costly] == [
        ("rank1", "persistent"),
        ("rank2", "single"),
    ]
    often, once = told.costly
    assert told.lost(once)[1] > told.lost(often)[1]
    rows: list[dict[str, object]] = [{"caused_wait_ns": 0}] * 8
    first, second = straggler_findings(told, rows)
    assert first.text.startswith("Other ranks wait for {worker}, which costs {lost_ns} per step")
    assert second.text.startswith("{worker} cost {worst_lost_ns} in step {worst_step} alone")
    figures = {figure.metric.key: figure for figure in second.figures}
    assert figures["worst_lost_ns"].value == told.stragglers.lost_ns[once].max()
    assert figures["late_cause_ns"].value == pytest.approx(9_000_000, rel=0.03)
    assert figures["lost_ns"].value == pytest.approx(told.stragglers.lost_ns[once].sum() / 6)
    assert second.severity == "medium"


@pytest.mark.parametrize("seed", [1, 8])
def test_ranks_that_are_late_in_turn_share_what_is_gained_also_where_one_lost_calls(seed: int) -> None:
    given = (Straggler(0, "input", "rotating", 800_000),)
    made = plan(SyntheticJob(ranks=6, steps=5, seed=seed, noise=0.0, stragglers=given, missing=((2, 0.3),)))
    told = blamed(made)
    (planted,) = truth(made.job, made)["stragglers"]
    assert {told.stragglers.pattern[w] for w in told.costly} == {"rotating"} and len(told.costly) == 5
    assert told.stragglers.lost_ns.sum() == pytest.approx(sum(planted["gain_ns"]), rel=0.02)


@pytest.mark.parametrize("seed", SEEDS[:2] if not DEEP else SEEDS)
def test_a_straggler_whose_mate_has_no_trace_costs_what_it_does(seed: int) -> None:
    """Its mate passes the delay on to a group in which nobody sees who came last; another rank lost calls."""
    given = (Straggler(4, list(CAUSES)[seed % len(CAUSES)], amount_ns=2_000_000 if seed % 2 else 800_000),)
    made = plan(
        SyntheticJob(ranks=8, steps=5, seed=seed, tp=2, noise=0.0, stragglers=given, absent=(5,), missing=((3, 0.1),))
    )
    told = blamed(made)
    assert [told.names[w] for w in told.costly] == ["rank4"]
    (planted,) = truth(made.job, made)["stragglers"]
    assert told.stragglers.lost_ns[told.costly[0]].sum() == pytest.approx(sum(planted["gain_ns"]), rel=0.03)


def test_who_costs_next_to_nothing_once_the_job_is_played_is_no_straggler() -> None:
    """Rank 3 lost calls in which it waited for its mate: it seems to be late itself in a step."""
    made = plan(
        SyntheticJob(
            ranks=8, steps=5, seed=3, tp=2, noise=0.0, stragglers=(Straggler(2, "input", amount_ns=2_000_000),),
            missing=((3, 0.1),),
        )
    )  # fmt: skip
    told = blamed(made)
    assert [told.names[w] for w in told.stragglers.significant.tolist()] == ["rank2"]
    (planted,) = truth(made.job, made)["stragglers"]
    assert told.stragglers.lost_ns[told.costly[0]].sum() == pytest.approx(sum(planted["gain_ns"]), rel=0.02)


def test_what_a_step_costs_and_who_is_named_does_not_change_with_the_chosen_steps() -> None:
    """Rank 5 is late in step 0 alone, where it hides some of what rank 3 costs in each step."""
    given = (Straggler(3, "kernel", amount_ns=600_000), Straggler(5, "input", "single", 8_000_000))
    made = plan(SyntheticJob(ranks=8, steps=6, seed=3, offset_ns=500_000, stragglers=given, missing=((2, 0.1),)))
    joined = join(parts_of(made))
    every = straggler_report(job_data(joined, None))
    assert {every.names[w]: every.stragglers.pattern[w] for w in every.costly} == {
        "rank3": "persistent",
        "rank5": "single",
    }
    for chosen, named in ((("0",), {"rank5"}), (("0", "1"), {"rank3", "rank5"}), (("2", "3"), {"rank3"})):
        told = straggler_report(job_data(joined, chosen))
        at = [every.labels.index(label) for label in told.labels]
        assert (told.labels, {told.names[w] for w in told.costly}) == (chosen, named)
        assert told.stragglers.lost_ns.tolist() == every.stragglers.lost_ns[:, at].tolist()
        assert all(told.stragglers.pattern[w] == every.stragglers.pattern[w] for w in told.costly)
        assert all(cause_columns(told, w)["late_cause"] == cause_columns(every, w)["late_cause"] for w in told.costly)


def test_who_was_held_up_is_shown_with_who_did_it() -> None:
    """Rank 2's input takes 9 ms: its tensor group is late at what it does with all of its kind in the other groups."""
    given = Straggler(2, "input", amount_ns=9_000_000)
    made = plan(SyntheticJob(ranks=8, tp=2, steps=3, layers=2, seed=5, noise=0.0, jitter_ns=500, stragglers=(given,)))
    parts = parts_of(made)
    rows = table_of(join(parts), "stragglers")
    order = [row["worker"] for row in rows]
    assert order[0] == "rank2" and rows[0]["stands_out"] and not rows[1]["stands_out"]
    assert [w for w, before in zip(order, ["", *order], strict=False) if w != before] == list(dict.fromkeys(order))
    held = {row["worker"]: row["held_up_by"] for row in table_of(join(parts), "workers")}
    assert held["rank2"] is None and held["rank3"] == "rank2"
    kinds = {row["group_description"]: row for row in table_of(join(parts), "operation_kinds")}
    waited = {kinds[name]["held_up_by"] or kinds[name]["awaited_worker"] for name in kinds if name != "default_pg"}
    assert len(kinds) > 2 and waited == {"rank2"}  # Of all ranks together the calls are short, and nobody is late.


def test_the_sample_s_rank_is_named_in_its_three_steps() -> None:
    files = sorted((SAMPLES / "synthetic_job").glob("*.trace.json*"))
    parts = [
        replace(VIEW.part(sample(f"synthetic_job/{f.name}"), Params()), worker=f.name.split(".")[0]) for f in files
    ]
    told = straggler_report(job_data(join(parts), None))
    assert [told.names[w] for w in told.costly] == ["rank5"]
    # Everyone who passes on a delay does so with that of rank 5, through messages as well.
    joined = join(parts)
    held = {row["worker"]: row["held_up_by"] for row in table_of(joined, "workers")}
    assert held == {f"rank{n}": "rank5" if n < 5 else None for n in range(8)}
    for name in ("operation_kinds", "worst"):
        rows = table_of(joined, name)
        whom = "awaited_worker" if name == "operation_kinds" else "worker"
        assert {row["held_up_by"] for row in rows if row[whom] in ("rank0", "rank4")} == {"rank5"}
    for n in (0, 1, 2, 3, 4):
        (notice,) = rank_notices(job_data(joined, None), f"rank{n}").notices
        assert {figure.metric.key: figure.value for figure in notice.figures}["worker"] == "rank5"


def test_without_devices_operators_are_no_kernels() -> None:
    """Rank 5 of the sample computes in aten::mm, on its host."""
    files = sorted((SAMPLES / "ddp_gloo8").glob("*.trace.json*"))
    parts = [replace(VIEW.part(sample(f"ddp_gloo8/{f.name}"), Params()), worker=f.name.split(".")[0]) for f in files]
    told = straggler_report(job_data(join(parts), None))
    rows: list[dict[str, object]] = [{"caused_wait_ns": 0}] * len(told.names)
    (first, *_) = straggler_findings(told, rows)
    assert "operator {late_kernel} takes" in first.text and "kernel {late_kernel}" not in first.text


@pytest.mark.parametrize("seed", JOBS)
def test_a_group_whose_collectives_are_slow_is_named(seed: int) -> None:
    given = Straggler(2, "communication")
    told = blamed(plan(SyntheticJob(ranks=8, tp=2, steps=3, layers=2, seed=seed, noise=0.0, stragglers=(given,))))
    assert sorted(told.names[w] for w in told.stragglers.significant.tolist()) == ["rank2", "rank3"]
    for worker in told.stragglers.significant.tolist():
        cells = cause_columns(told, worker)
        assert cells["late_cause"] == "communication in other groups"
        assert cells["held_up_in"] == "2 (TENSOR_MODEL_PARALLEL_GROUP)"


@pytest.mark.parametrize("seed", JOBS)
@pytest.mark.parametrize("shape", [{"tp": 2}, {"pp": 2, "microbatches": 2}, {"ep": 2, "sharded": True}])
def test_an_invented_job_without_a_straggler_has_none(shape: dict[str, Any], seed: int) -> None:
    told = blamed(plan(SyntheticJob(ranks=8, steps=3, layers=2, seed=seed, **shape)))
    assert not len(told.stragglers.significant)


def test_the_page_tells_causes_on_the_host_from_others_by_every_column_of_a_component() -> None:
    """It chooses the tracks that show why a rank is late: by keys, which no rewording of a cause changes."""
    text = (REPO / "frontend" / "src" / "lib" / "rankZoom.ts").read_text(encoding="utf-8")
    assert set(re.findall(r"more_\w+_ns", text)) == {f"more_{key}_ns" for key in COMPONENTS}
