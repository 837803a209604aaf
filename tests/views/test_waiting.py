"""Who is taken to have arrived last where a rank lacks calls: jobs of which the plan says who did."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from tb_plugin.lib.groupby import codes
from tb_plugin.views.distributed.matching.match import Calls
from tb_plugin.views.distributed.waiting import BOUND, ESTIMATED, FEWEST_USUAL, MEASURED, TIMINGS, waits_and_transfers
from tests.depth import sampled
from tests.synthetic_job import Job, Straggler, calls, plan

Int64 = npt.NDArray[np.int64]
SEEDS = sampled(range(100), range(3))
LACKING = 3


@dataclass
class Told:
    """Of each collective that several workers have."""

    timing: list[str]
    last: Int64
    """Rank; -1 = nobody."""
    truly_last: Int64
    is_lost: npt.NDArray[np.bool_]
    """A rank that is here lacks it."""
    transfer_ns: Int64
    truly_ns: Int64
    least_wait_ns: Int64
    """How long all workers that have it waited, at least."""


def told(made: Job) -> Told:
    """Times the calls of a job, matched as its plan says."""
    made_plan = plan(made)
    ranks = [rank for rank in range(made.ranks) if rank not in made.absent]
    columns = [calls(made_plan, rank) for rank in ranks]

    def all_of(key: str) -> Int64:
        return np.concatenate([np.asarray(each[key], np.int64) for each in columns])

    def coded(key: str) -> Int64:
        texts = [text for each in columns for text in each[key]]
        return np.unique(texts, return_inverse=True)[1]

    worker = np.repeat(np.arange(len(ranks)), [len(each["match"]) for each in columns])
    label = np.unique(all_of("match"), return_inverse=True)[1]
    group, name = codes(coded("group"), coded("group_ranks")), coded("collective")
    kind = codes(name, coded("dtype"), all_of("elements"))
    rows = Calls(worker, all_of("step"), group, name, kind, all_of("sequence"), worker < 0)
    found = waits_and_transfers(rows, label, all_of("dur_ns"), all_of("group_size"), not made.absent)
    order = np.argsort(label, kind="stable")
    first = np.flatnonzero(np.diff(label[order], prepend=-1))
    head, last = order[first], found.last[order[first]]
    shortest = np.minimum.reduceat(all_of("dur_ns")[order], first)
    whole = plan(dataclasses.replace(made, missing=(), absent=()))
    of = {
        match: rank
        for rank in range(made.ranks)
        for match, waited in zip(*(calls(whole, rank)[key].tolist() for key in ("match", "waited_ns")), strict=True)
        if not waited
    }
    return Told(
        timing=[TIMINGS[code] for code in found.timing[head].tolist()],
        last=np.where(last >= 0, np.array(ranks)[last], -1),
        truly_last=np.array([of[match] for match in all_of("match")[head].tolist()]),
        is_lost=np.diff(np.append(first, len(order))) < len(ranks),
        transfer_ns=found.transfer_ns[head],
        truly_ns=all_of("transfer_ns")[head],
        least_wait_ns=shortest - found.transfer_ns[head],
    )


@pytest.mark.parametrize("jitter_ns", [0, 2_000])
@pytest.mark.parametrize("absent", [(), (5,)])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_rank_whose_calls_were_lost_is_not_blamed_for_what_another_does(
    seed: int, absent: tuple[int, ...], jitter_ns: int
) -> None:
    """Rank 1 is late in every step; a tenth of rank 3's calls are lost: whoever has the others' calls sees rank 1 come."""
    for straggler in ((Straggler(1),), (Straggler(1, "host", "periodic"),)):
        made = Job(
            steps=12, stragglers=straggler, missing=((LACKING, 0.1),), absent=absent, jitter_ns=jitter_ns, seed=seed
        )
        found = told(made)
        estimated = np.array(found.timing) == ESTIMATED
        assert found.is_lost.any() and found.is_lost[estimated].all()
        assert set(found.last[estimated].tolist()) <= {LACKING}
        # Nothing tells it from a rank that is absent, nor a wait from durations that differ by so much.
        wrong = estimated & ~np.isin(found.truly_last, (LACKING, *absent))
        assert (found.least_wait_ns[wrong] <= 5 * jitter_ns).all()


@pytest.mark.parametrize("jitter_ns", [0, 2_000])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_straggler_that_lacks_calls_is_blamed_for_them(seed: int, jitter_ns: int) -> None:
    made = Job(steps=12, stragglers=(Straggler(LACKING),), missing=((LACKING, 0.1),), jitter_ns=jitter_ns, seed=seed)
    found = told(made)
    timing = np.array(found.timing)
    estimated = timing == ESTIMATED
    assert (found.last[estimated] == LACKING).all()
    # A tenth of twelve steps may be next to no call that the others wait for.
    assert seed > 3 or estimated.sum() > 2
    # What is missed is short: it is longer than usual by less than usual times differ.
    missed = found.is_lost & ~estimated & (found.truly_last == LACKING)
    assert (found.transfer_ns[missed] < found.truly_ns[missed] * 1.3 + 20 * jitter_ns).all()
    assert np.abs(found.transfer_ns - found.truly_ns)[estimated].max(initial=0) <= 10 * jitter_ns


def times(durations: list[tuple[int, ...]], size: int) -> tuple[list[str], list[int], list[int]]:
    """Timing, last worker and transfer of collectives of one kind; 0 = the worker lacks it."""
    rows = sorted((w, match, dur) for match, mine in enumerate(durations) for w, dur in enumerate(mine) if dur)
    worker, match, dur = np.array(rows, np.int64).T
    none = np.zeros_like(worker)
    found = waits_and_transfers(Calls(worker, none, none, none, none, match, none > 0), match, dur, none + size, True)
    head = np.unique(match, return_index=True)[1]
    return (
        [TIMINGS[code] for code in found.timing[head].tolist()],
        found.last[head].tolist(),
        found.transfer_ns[head].tolist(),
    )


def test_longer_than_usual_is_beyond_what_usual_ones_scatter() -> None:
    usual = [(100, 130, 130), (130, 101, 130), (130, 130, 99), (102, 130, 130), (98, 130, 130)]
    for shortest, timing, last, transfer in ((105, BOUND, 0, 105), (106, ESTIMATED, 2, 100), (140, ESTIMATED, 2, 100)):
        found = times([*usual, (shortest, 160, 0)], 3)
        assert [each[-1] for each in found] == [timing, last, transfer]
        assert found[0][:-1] == [MEASURED] * 5
    # One that takes twice as long now and then says that others may as well: two of eight are no accident.
    now_and_then = [*usual, (200, 230, 230), (200, 230, 230), (100, 130, 130)]
    assert times([*now_and_then, (210, 260, 0)], 3)[0][-1] == BOUND


def test_of_few_usual_ones_twice_as_long_is_long_and_a_single_one_says_nothing() -> None:
    usual = [(100, 130, 130)] * FEWEST_USUAL
    assert times([*usual, (300, 330, 0)], 3)[0][-1] == ESTIMATED
    differing = [(100, 130, 130), (100, 130, 130), (106, 130, 130)]
    for few, most in ((usual[1:], 150), (usual[:2], 150), (differing, 200), (differing[1:], 200)):
        assert times([*few, (most, 230, 0)], 3)[0][-1] == BOUND
        assert times([*few, (most + 1, 230, 0)], 3)[0][-1] == ESTIMATED
    assert times([usual[0], (900, 930, 0)], 3)[0][-1] == BOUND
    # A rank that has no trace came last as often elsewhere: what is longer than all of these is not its doing.
    assert times([*usual, (300, 330, 0)], 4)[0] == [*[BOUND] * FEWEST_USUAL, ESTIMATED]
