"""Stragglers: what they cost, when they are late and why; by hand, against plans, and in invented jobs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tb_plugin.lib.intervals import union
from tb_plugin.views.distributed.job_data import job_data
from tb_plugin.views.distributed.merge import join
from tb_plugin.views.distributed.rank.profile import blocked_ns
from tb_plugin.views.distributed.rank_sentence import rank_notices
from tb_plugin.views.distributed.stragglers.arrivals import StragglerCalls, arrivals, waited_elsewhere
from tb_plugin.views.distributed.stragglers.causes import COMPONENTS, extra_times, first_of_burst
from tb_plugin.views.distributed.stragglers.detection import Stragglers, is_rotating, late_pattern, stragglers
from tb_plugin.views.distributed.stragglers.findings import straggler_findings
from tb_plugin.views.distributed.stragglers.replay import simulated_saving
from tb_plugin.views.distributed.stragglers.report import StragglerReport, cause_columns, straggler_report
from tb_plugin.views.distributed.stragglers.root_cause import passed_on, root_causes
from tb_plugin.views.distributed.stragglers.slow_kernels import (
    LONGER_CALLS,
    MORE_CALLS,
    SLOW_DEVICE,
    KernelTimes,
    slow_kernels,
)
from tests.conftest import REPO
from tests.depth import sampled
from tests.jobs_of_parts import sample_parts, table_of
from tests.jobs_of_ranks import Job, Plan, job
from tests.planted_jobs import parts_of
from tests.synthetic_job import Job as SyntheticJob
from tests.synthetic_job import Straggler, plan

TP, DP, ALL = [(0, 1), (2, 3)], [(0, 2), (1, 3)], [(0, 1, 2, 3)]
LATE = 300_000
SEEDS = sampled(range(100), range(4))


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
    assert arrived.raw_ns.tolist() == arrived.cost_ns.tolist() == [80, 30]
    assert arrived.culprit.tolist() == [2, 2]
    # Sorted by arrival.
    assert arrived.late_ns.tolist() == [-10, 10, 90, -5, 5, 35]
    found = found_in(three_ranks())
    assert found.lost_ns.tolist() == [[0], [0], [110]]
    assert dict(zip(found.worker.tolist(), found.late_ns.tolist(), strict=True)) == {0: -8, 1: 7, 2: 62}
    assert simulated_saving(arrived, [[2], [0]], 3, 1).tolist() == [[110], [0]]


@pytest.mark.parametrize("far", [50, 2**61])
def test_calls_under_way_at_once_are_told_however_long_a_recording_is(far: int) -> None:
    """The two calls of ranks 0 and 2 are far apart, those of rank 1 overlap."""
    met = replace(three_ranks().met(), start_ns=np.array([-far, far, 0, 5, -far, far]), dur_ns=np.full(6, 10))
    assert first_of_burst(met).tolist() == [0, 1, 2, 2, 4, 5]


@pytest.mark.filterwarnings("error")
def test_of_no_chosen_step_nobody_costs_anything() -> None:
    """Calls that are in no chosen step (their step is beyond the last) still tell who arrived last, and cost nothing."""
    made = three_ranks()
    no_calls = Job({key: values[:0] for key, values in made.columns.items()}, made.step_ns, []).met()
    for met in (made.met(), replace(made.met(), counted=np.zeros(6, np.bool_)), no_calls):
        found = stragglers(arrivals(met), 3, np.zeros(0))
        assert found.lost_ns.shape == found.slow.shape == (3, 0)
        assert (found.pattern, len(found.significant), found.cost_ns.sum()) == (("",) * 3, 0, 0)
    assert stragglers(arrivals(made.met()), 3, np.zeros(0)).last_count.tolist() == [0, 0, 2]


def test_what_computation_hides_costs_nothing() -> None:
    """Rank 1 waits 80 for rank 2 in the first, of which it computes for 60; rank 2 computes for none of its 10."""
    met = three_ranks().met()
    blocked = met.dur_ns.copy()
    blocked[2] -= 60
    assert arrivals(replace(met, blocked_ns=blocked)).cost_ns[0] == 20
    blocked[4] = 0  # rank 2 hides the transfer, too
    assert arrivals(replace(met, blocked_ns=blocked)).cost_ns[0] == 30
    blocked = met.dur_ns.copy()
    blocked[0] = 20
    # Rank 0 comes to the second collective 20 earlier and is the last then: it began 40 before rank 2 did.
    assert simulated_saving(arrivals(replace(met, blocked_ns=blocked)), [[2]], 3, 1).tolist() == [[60]]


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
    assert found.cost_ns.sum() == expected.sum()


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ("1", ("single", 0)), ("...1......", ("single", 0)), ("1111111...", ("persistent", 0)),
        ("1111..1...", ("irregular", 0)), ("1....1....1...", ("periodic", 5)), (".1.1.1.1.1", ("periodic", 2)),
        ("1...1.......1...1", ("periodic", 4)), ("1...........1..1", ("irregular", 0)),
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
    waits_for_victim = np.flatnonzero((met.waiting.last == 1) & (met.worker == 3) & (met.wait_ns > LATE / 2))
    assert len(waits_for_victim) == 10
    assert set(root_causes(met)[waits_for_victim].tolist()) == {0}


def test_a_collective_of_all_ranks_synchronizes_the_groups_within_it() -> None:
    """Rank 0 is late in the collective of all: its pair waits there, and no wait is left when the pair meets."""
    late = Plan(steps=1, groups=[TP, ALL, TP], delay=lambda r, s, p: {"compute": LATE} if (r, p) == (0, 1) else {})
    met = job(late).met()
    assert not waited_elsewhere(met)[met.group != met.group[1]].any()


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
    met = replace(met, blocked_ns=np.where(np.isin(met.group, (2, 3)) & hidden, 0, met.dur_ns))
    found = root_causes(met)
    assert met.waiting.last.tolist() == [1, 0, 1, 1, 3, 0, 3, 1]
    assert found.tolist() == [1, -1, -1, -1, 3, 1, -1, 1]
    # All that rank 2 waits for rank 0 is by rank 1; what rank 0 waits for rank 1 is nobody else's.
    assert passed_on(met, found, np.array([5])) == (1, 100.0)
    assert passed_on(met, found, np.array([0])) is None


@pytest.mark.parametrize(("waited", "root"), [(45, 0), (55, 1)])
def test_who_was_held_up_for_less_than_half_of_a_wait_is_late_on_its_own_account(waited: int, root: int) -> None:
    """Of the 100 that rank 2 waits, rank 0 waited some for rank 1."""
    met = two_groups(False)
    start, dur = met.start_ns.copy(), met.dur_ns.copy()
    start[0], dur[0] = 100 - waited, 10 + waited
    assert root_causes(replace(met, start_ns=start, dur_ns=dur, blocked_ns=dur))[5] == root


def late(*ranks: int) -> Plan:
    return Plan(groups=[TP, TP, DP], delay=lambda r, s, p: {"compute": LATE} if r in ranks and not p else {})


@pytest.mark.parametrize(
    ("planned", "asked", "gained"),
    [
        (late(0), [[0]], [LATE]),
        (late(0), [[1]], [0]),
        (late(0, 3), [[0], [3]], [0, 0]),  # of two pairs each waits for the other
        (late(0, 3), [[0, 3]], [LATE]),
        (late(0), [], []),
    ],
)
def test_a_replay_by_hand(planned: Plan, asked: list[list[int]], gained: list[int]) -> None:
    found = simulated_saving(arrivals(job(planned).met()), asked, planned.ranks, planned.steps)
    assert found.tolist() == [[each] * planned.steps for each in gained]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["persistent", "periodic", "rotating", "single"])
def test_planted_stragglers_with_missing_calls_and_an_absent_rank(kind: str, seed: int) -> None:
    """A twentieth of the collectives of another rank is missing; rank 5 is absent. All are still named."""
    rank = 1 + seed % 3
    when: dict[str, Callable[[int, int], bool]] = {
        "persistent": lambda r, s: r == rank,
        "periodic": lambda r, s: r == rank and s % 4 == seed % 4,
        "rotating": lambda r, s: r == s % 5,
        "single": lambda r, s: r == rank and s == 3 + seed % 9,
    }
    cause = COMPONENTS[2 + seed % 3]
    gone = set(np.random.default_rng(seed).choice(np.arange(6), 2, replace=False).tolist())
    made = job(
        Plan(
            ranks=6, steps=20, jitter=noisy, seed=seed, absent=(5,),
            delay=lambda r, s, p: {cause: LATE} if when[kind](r, s) else {},
            missing=lambda r, s, p: r == 4 and 2 * s + p in gone,
        )
    )  # fmt: skip
    found = found_in(made)
    late_ones = [rank] if kind != "rotating" else list(range(5))
    assert sorted(found.significant.tolist()) == late_ones
    assert {found.pattern[w] for w in late_ones} <= {kind, "irregular"}
    before = {key: made.columns[key] for key in COMPONENTS}
    told = extra_times(arrivals(made.met()), found, before)
    assert {more.main for more in told.values()} == {cause} and set(told) <= set(late_ones)


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
    heavy = job(Plan(ranks=ranks, steps=steps, seed=seed, jitter=lambda random: random.exponential(100_000)))
    assert told_in(heavy) == {}


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


# ------------------------------------------------------------------------- invented jobs (more in test_planted_jobs)


def blamed(made: Any) -> StragglerReport:
    return straggler_report(job_data(join(parts_of(made)), None))


NO_ROWS: list[dict[str, object]] = [{"caused_wait_ns": 0}] * 8


def test_who_is_late_again_and_again_stands_before_who_was_once() -> None:
    """Rank 1 costs some of each step, rank 2 much more of the second one alone: of that it is said what it was there."""
    given = (Straggler(1, "kernel", amount_ns=1_000_000), Straggler(2, "input", "single", 9_000_000, step=1))
    told = blamed(plan(SyntheticJob(ranks=8, steps=6, seed=3, noise=0.0, jitter_ns=500, stragglers=given)))
    assert [(told.names[w], told.stragglers.pattern[w]) for w in told.costly] == [
        ("rank1", "persistent"),
        ("rank2", "single"),
    ]
    often, once = told.costly
    assert told.lost(once) > told.lost(often)
    first, second = straggler_findings(told, NO_ROWS)
    assert first.text.startswith("Other ranks wait for {worker}, which costs {lost_ns} per step")
    assert "({lost_share}), only in step {worst_step} (mean over {job_steps} steps)." in second.text
    figures = {figure.metric.key: figure for figure in second.figures}
    assert figures["worst_step"].value == "1" and figures["late_cause_ns"].value == pytest.approx(1_500_000, rel=0.03)
    assert figures["lost_ns"].value == pytest.approx(told.stragglers.lost_ns[once].sum() / 6)
    assert second.severity == "medium"


@pytest.mark.parametrize(
    ("lacks", "why"),
    [
        ({"absent": (5,)}, "rank 5 has no trace"),
        ({"absent": (5, 7)}, "ranks 5, 7 have no trace"),
        ({"missing": ((5, 0.2),)}, "some ranks lack calls"),
    ],
)
def test_with_missing_data_a_straggler_is_named_without_a_cost(lacks: dict[str, Any], why: str) -> None:
    told = blamed(plan(SyntheticJob(ranks=8, steps=6, seed=3, stragglers=(Straggler(1, "kernel"),), **lacks)))
    assert [told.names[w] for w in told.costly] == ["rank1"]
    (notice,) = straggler_findings(told, NO_ROWS)
    assert notice.text.startswith("Other ranks wait for {worker}.")
    assert notice.text.endswith(f"The cost is not estimated: {why}.")
    assert notice.saving is None and "lost_ns" not in {figure.metric.key for figure in notice.figures}


def test_steps_in_which_a_rank_lacks_calls_are_left_out() -> None:
    """The recording of rank 5 begins after two steps."""
    given = Straggler(1, "kernel")
    told = blamed(plan(SyntheticJob(ranks=8, steps=6, seed=3, stragglers=(given,), late=((5, 2),))))
    assert told.labels == ("2", "3", "4", "5") and not told.lacking
    assert [told.names[w] for w in told.costly] == ["rank1"]


def test_what_a_step_costs_and_who_is_named_does_not_change_with_the_chosen_steps() -> None:
    """Rank 5 is late in step 0 alone, where it hides some of what rank 3 costs in each step."""
    given = (Straggler(3, "kernel", amount_ns=600_000), Straggler(5, "input", "single", 8_000_000))
    made = plan(SyntheticJob(ranks=8, steps=6, seed=3, offset_ns=500_000, stragglers=given))
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
    joined = join(
        parts_of(plan(SyntheticJob(ranks=8, tp=2, steps=3, layers=2, seed=5, noise=0.0, stragglers=(given,))))
    )
    rows = table_of([joined], "stragglers")
    order = [row["worker"] for row in rows]
    assert order[0] == "rank2" and rows[0]["stands_out"] and not rows[1]["stands_out"]
    assert [w for w, before in zip(order, ["", *order], strict=False) if w != before] == list(dict.fromkeys(order))
    held = {row["worker"]: row["held_up_by"] for row in table_of([joined], "workers")}
    assert held["rank2"] is None and held["rank3"] == "rank2"
    kinds = {row["group_description"]: row for row in table_of([joined], "operation_kinds")}
    waited = {kinds[name]["held_up_by"] or kinds[name]["awaited_worker"] for name in kinds if name != "default_pg"}
    assert len(kinds) > 2 and waited == {"rank2"}  # Of all ranks together the calls are short, and nobody is late.


@pytest.mark.parametrize(
    ("groups", "names", "said"),
    [
        ([TP, TP, DP], ["a (tp)", "b (tp)", "c", "d"], "its collectives in group {group}."),
        ([ALL, ALL], [""], "its collectives."),
    ],
)
@pytest.mark.parametrize("on_host", [True, False])
def test_the_finding_says_which_collectives_a_share_is_of(
    groups: Any, names: list[str], said: str, on_host: bool
) -> None:
    made = job(Plan(groups=groups, delay=lambda r, s, p: {"compute": LATE} if (r, p) == (1, 0) else {}))
    met = made.met()
    arrived = arrivals(met)
    found = stragglers(arrived, 4, made.step_ns)
    labels = tuple(str(step) for step in range(10))
    told = StragglerReport(
        tuple("wxyz"), tuple(names), labels, made.step_ns, met, found, {}, {}, {}, "", on_host
    )  # fmt: skip
    (notice,) = straggler_findings(told, [{"caused_wait_ns": 7}] * 4)
    assert f" This rank arrives last at {{last_share}} of {said}" in notice.text
    figures = {each.metric.key: each.value for each in notice.figures}
    assert figures["last_share"] == 0.5
    assert figures.get("group") == (names[0] or None)
    assert ("at most {lost_ns}" in notice.text) is on_host and notice.saving is not None
    assert (notice.saving.low_ns, notice.saving.high_ns) == (0 if on_host else LATE, LATE)


# ------------------------------------------------------------------------------------------------------ samples


def test_the_sample_s_rank_is_named_in_its_three_steps() -> None:
    joined = join(sample_parts("synthetic_job"))
    told = straggler_report(job_data(joined, None))
    assert [told.names[w] for w in told.costly] == ["rank5"]
    # Everyone who passes on a delay does so with that of rank 5, through messages as well.
    held = {row["worker"]: row["held_up_by"] for row in table_of([joined], "workers")}
    assert held == {f"rank{n}": "rank5" if n < 5 else None for n in range(8)}
    for name in ("operation_kinds", "worst"):
        rows = table_of([joined], name)
        whom = "awaited_worker" if name == "operation_kinds" else "worker"
        assert {row["held_up_by"] for row in rows if row[whom] in ("rank0", "rank4")} == {"rank5"}
    for n in (0, 1, 2, 3, 4):
        (notice,) = rank_notices(job_data(joined, None), f"rank{n}").notices
        assert {figure.metric.key: figure.value for figure in notice.figures}["worker"] == "rank5"


def test_without_devices_costs_are_upper_bounds() -> None:
    """Rank 5 of the sample computes in aten::mm, on its host."""
    told = straggler_report(job_data(join(sample_parts("ddp_gloo8")), None))
    (first, *_) = straggler_findings(told, NO_ROWS)
    assert ": {late_kernel} takes" in first.text
    assert "which costs at most {lost_ns}" in first.text


def test_the_page_tells_causes_on_the_host_from_others_by_every_column_of_a_component() -> None:
    """It chooses the tracks that show why a rank is late: by keys, which no rewording of a cause changes."""
    text = (REPO / "frontend" / "src" / "lib" / "rankZoom.ts").read_text(encoding="utf-8")
    assert set(re.findall(r"more_\w+_ns", text)) == {f"more_{key}_ns" for key in COMPONENTS}
