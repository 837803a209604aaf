"""What is gained for sure without a straggler: never more than a plan without its delays, or an invented job, gains."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tb_plugin.views.distributed.stragglers.arrivals import arrivals
from tb_plugin.views.distributed.stragglers.cost_lower_bound import saving_lower_bound
from tb_plugin.views.distributed.stragglers.detection import stragglers
from tb_plugin.views.distributed.stragglers.findings import straggler_findings
from tb_plugin.views.distributed.stragglers.report import Blame
from tests.depth import sampled
from tests.jobs_of_ranks import Job, Plan, job
from tests.synthetic_job import Job as SyntheticJob
from tests.synthetic_job import Straggler, plan, truth
from tests.views.test_stragglers import DP, LATE, TP, blamed, found_in, noisy, slow

ALL = [(0, 1, 2, 3)]
CUBE = [[(0, 1), (2, 3), (4, 5), (6, 7)], [(0, 2), (1, 3), (4, 6), (5, 7)], [(0, 4), (1, 5), (2, 6), (3, 7)]]
SHAPES = {
    "pairs": [TP, TP, DP], "pairs in all": [TP, ALL, TP, ALL], "grid and all": [TP, DP, ALL], "all": [ALL, ALL],
    "cube": CUBE, "cube and all": [*CUBE, [tuple(range(8))]],
}  # fmt: skip
SEEDS = sampled(range(100), range(6))


def without(planned: Plan, worker: int) -> float:
    """What the plan gains in all without the delays of one."""
    usual = dataclasses.replace(planned, delay=lambda r, s, p: {} if r == worker else planned.delay(r, s, p))
    return float(job(planned).step_ns.sum() - job(usual).step_ns.sum())


def late(*ranks: tuple[int, int, int]) -> Plan:
    """Pairs, all, pairs, all, with delays at (rank, place, microseconds) of the only step; six ranks."""
    pairs, every = [(0, 1), (2, 3), (4, 5)], [tuple(range(6))]
    more = {(rank, place): ns for rank, place, ns in ranks}
    return Plan(
        ranks=6, steps=1, groups=[pairs, every, pairs, every], delay=lambda r, s, p: {"compute": more.get((r, p), 0)}
    )


@pytest.mark.parametrize(
    ("planned", "lost", "sure"),
    [
        # Both of another pair compute longer: nobody there is late, and all wait for them as long as for rank 0.
        (late((0, 0, 50), (2, 0, 50), (3, 0, 50)), 50, 0),
        (late((0, 0, 50), (2, 0, 30), (3, 0, 30)), 50, 20),
        # Now this, now that pair is late as well: each of these two costs half of what rank 0 does.
        (late((0, 0, 50), (0, 2, 50), (2, 0, 50), (4, 2, 50)), 100, 0),
        # At another time others' delays hide nothing.
        (late((0, 0, 50), (2, 2, 50)), 50, 50),
        # Who is of its own pair hides nothing either: it is late again, at the next one.
        (late((0, 0, 50), (1, 2, 50)), 50, 50),
        (late((0, 0, 50)), 50, 50),
    ],
)
def test_by_hand(planned: Plan, lost: int, sure: int) -> None:
    found = found_in(job(planned))
    assert (found.lost_ns[0].tolist(), found.lost_low_ns[0].tolist()) == ([lost], [sure])
    assert without(planned, 0) == sure


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("jitter", [False, True])
def test_no_more_is_sure_than_a_plan_without_the_delays_gains(shape: str, jitter: bool, seed: int) -> None:
    """One to three ranks are late before half of their collectives. Jitter is of the straggler's own work, too: as fast as
    the next is faster than as planned by no more than that."""
    random, groups = np.random.default_rng(seed), SHAPES[shape]
    ranks = max(max(each) for place in groups for each in place) + 1
    more = {
        (int(rank), step, place): int(random.integers(20_000, LATE))
        for rank in random.choice(ranks, 1 + seed % 3, replace=False)
        for step in range(4)
        for place in range(len(groups))
        if random.random() < 0.5
    }
    planned = Plan(
        ranks=ranks,
        steps=4,
        groups=groups,
        seed=seed,
        jitter=noisy if jitter else lambda random: 0,
        delay=lambda r, s, p: {"compute": more.get((r, s, p), 0)},
    )
    found = found_in(job(planned))
    for worker in {rank for rank, _, _ in more}:
        low = int(found.lost_low_ns[worker].sum())
        assert 0 <= low <= without(planned, worker) + (10_000 * len(groups) if jitter else 0)
        assert (found.lost_low_ns[worker] <= found.lost_ns[worker]).all()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("shape", ["pairs", "grid and all", "all"])
def test_all_is_sure_where_one_alone_is_late(shape: str, seed: int) -> None:
    """Nothing else hides it, so that at least and at most are one number but for jitter."""
    delay = {(1, 0): {"compute": LATE}}
    planned = Plan(steps=5, groups=SHAPES[shape], seed=seed, jitter=noisy, delay=lambda r, s, p: delay.get((r, p), {}))
    found, gain = found_in(job(planned)), without(planned, 1)
    assert found.significant.tolist() == [1]
    assert gain == pytest.approx(5 * LATE, rel=0.04)
    assert found.lost_low_ns[1].sum() == pytest.approx(gain, rel=0.04)
    assert found.lost_ns[1].sum() == pytest.approx(gain, rel=0.04)


def test_what_another_worker_computes_meanwhile_is_not_gained() -> None:
    """Rank 2 is 80 late at the first collective; rank 0 computes for 90 of its 110 there: it gains 20 of them."""
    starts = np.array([[0, 20, 100], [110, 120, 150]])
    ends = starts.max(axis=1) + 10
    columns = {
        "worker": [0, 0, 1, 1, 2, 2], "step": [0, 0] * 3, "group": [0] * 6, "place": [0, 1] * 3, "sequence": [0, 1] * 3,
        "start": starts.T.ravel(), "dur": (ends[:, None] - starts).T.ravel(), "size": [3] * 6,
    }  # fmt: skip
    made = Job({key: np.array(values, np.int64) for key, values in columns.items()}, np.array([200.0]), [0, 1, 2])
    met, asked = made.met(), np.array([2])
    assert saving_lower_bound(arrivals(met), asked, 3, 1).tolist() == [[110]]
    blocked = met.dur_ns.copy()
    blocked[0] = 20
    # Rank 0 comes to the second collective 20 earlier and is the last then: it began 40 before rank 2 did.
    assert saving_lower_bound(arrivals(replace(met, blocked_ns=blocked)), asked, 3, 1).tolist() == [[60]]
    # A call that nobody else has may have waited for anybody, of whom all are 80 earlier.
    alone = met.match.copy()
    alone[[1, 3, 5]] = -1
    assert saving_lower_bound(arrivals(replace(met, match=alone)), asked, 3, 1).tolist() == [[80]]


@pytest.mark.parametrize(
    ("groups", "names", "said"),
    [
        ([TP, TP, DP], ["a (tp)", "b (tp)", "c", "d"], "its collectives in group {group}."),
        ([TP, TP, DP], [""] * 4, "the collectives of one of its groups ({workers} ranks, no name)."),
        ([ALL, ALL], [""], "its collectives."),
    ],
)
def test_the_finding_says_which_collectives_a_share_is_of(groups: Any, names: list[str], said: str) -> None:
    made = job(Plan(groups=groups, delay=lambda r, s, p: {"compute": LATE} if (r, p) == (1, 0) else {}))
    met = made.met()
    arrived = arrivals(met)
    found = stragglers(arrived, 4, made.step_ns)
    labels = tuple(str(step) for step in range(10))
    told = Blame(tuple("wxyz"), tuple(names), labels, made.step_ns, met, arrived, found, {}, {}, {}, False)
    (notice,) = straggler_findings(told, [{"caused_wait_ns": 7}] * 4)
    assert f" This rank arrives last at {{last_share}} of {said}" in notice.text
    figures = {each.metric.key: each.value for each in notice.figures}
    assert figures["last_share"] == 0.5
    assert (figures.get("group"), figures.get("workers")) == (
        names[0] or None,
        None if len(names) == 1 or names[0] else 2,
    )


def test_of_a_call_that_a_worker_lacks_only_what_was_sure_before_is_kept() -> None:
    made = job(Plan(ranks=3, steps=2, delay=slow(1, compute=LATE), missing=lambda r, s, p: (r, s, p) == (2, 0, 1)))
    # All are earlier since the first collective, so that the one that lacks a rank is, whoever came last there.
    assert found_in(made).lost_low_ns[1].tolist() == [LATE, 2 * LATE]


@pytest.mark.parametrize("seed", sampled(range(60), range(1)))
@pytest.mark.parametrize(
    "shape",
    sampled(
        [{"tp": 2}, {"cp": 2, "tp": 2}, {"ep": 2, "sharded": True}, {"pp": 2, "tp": 2, "microbatches": 4}],
        [{"tp": 2}, {"pp": 2, "tp": 2, "microbatches": 4}],
    ),
)
def test_no_more_is_sure_than_an_invented_job_gains(shape: dict[str, int], seed: int) -> None:
    causes = ("kernel", "work", "device", "input", "host", "copy")
    given = Straggler(1 + seed % 3, causes[seed % len(causes)])
    made = plan(
        SyntheticJob(ranks=8, steps=3, layers=2, seed=seed, noise=0.0, jitter_ns=500, stragglers=(given,), **shape)
    )
    found, (planted,) = blamed(made).stragglers, truth(made.job, made)["stragglers"]
    gain = sum(planted["gain_ns"][1:])
    low, high = (int(ns[given.rank, 1:].sum()) for ns in (found.lost_low_ns, found.lost_ns))
    assert 0.9 * gain < low <= 1.005 * gain
    # Of a slow device each group that it is in sees a part of the delay alone.
    assert high >= (0.9 if given.cause == "device" else 0.995) * gain
