"""A job of ranks planned interval by interval: what each does before a collective is known, so that costs and causes are.

Each rank runs its program: work of some kind, then a collective of a group, which begins when its last rank is there. Nothing
is read back: times follow from the plan alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tb_plugin.lib.groupby import codes
from tb_plugin.views.distributed.matching.match import Calls, match_calls
from tb_plugin.views.distributed.stragglers.arrivals import StragglerCalls
from tb_plugin.views.distributed.waiting import waits_and_transfers

Int64 = npt.NDArray[np.int64]
KINDS = ("compute", "copy", "input", "host", "idle")
TRANSFER = 40_000


@dataclass
class Plan:
    """Delays are asked by (rank, step, place of the collective) and kind of work, nanoseconds beyond the usual."""

    ranks: int = 4
    steps: int = 10
    groups: Sequence[Sequence[tuple[int, ...]]] = ()
    """One entry a collective of a step: the groups that make it, all at once. Empty: two of all ranks."""
    work_ns: int = 1_000_000
    jitter: Callable[[np.random.Generator], float] = lambda random: 0.0
    delay: Callable[[int, int, int], dict[str, int]] = lambda rank, step, place: {}
    seed: int = 0
    missing: Callable[[int, int, int], bool] = lambda rank, step, place: False
    absent: tuple[int, ...] = ()


@dataclass
class Job:
    """Calls in columns, rank by rank in order of time, and the truth."""

    columns: dict[str, Int64]
    step_ns: npt.NDArray[np.float64]
    workers: list[int]
    cost_ns: dict[tuple[int, int, int], int] = field(default_factory=lambda: defaultdict(int))
    """(rank, step, place of the collective): last arrival less the one before it."""

    def met(self, all_here: bool = True) -> StragglerCalls:
        """Matches and times the calls, as the view does."""
        c = self.columns
        calls = Calls(c["worker"], c["step"], c["group"], c["place"], c["place"], c["sequence"], c["worker"] < 0)
        label = match_calls(calls).label
        waiting = waits_and_transfers(calls, label, c["dur"], c["size"], all_here)
        pairs = np.unique(codes(c["group"], c["worker"]), return_index=True)[1]
        return StragglerCalls(
            worker=c["worker"],
            step=c["step"],
            group=c["group"],
            stream=np.zeros(len(label), np.int64),
            two_ended=np.zeros(len(label), np.bool_),
            counted=(label >= 0) & (waiting.workers == np.bincount(c["group"][pairs])[c["group"]]),
            start_ns=c["start"],
            dur_ns=c["dur"],
            blocked_ns=c["dur"],
            match=label,
            waiting=waiting,
        )


def job(plan: Plan) -> Job:
    """Runs the plan."""
    random = np.random.default_rng(plan.seed)
    everyone = [tuple(range(plan.ranks))]
    places = list(plan.groups) or [everyone, everyone]
    names = {g: i for i, g in enumerate(sorted({g for place in places for g in place}))}
    clock = np.zeros(plan.ranks, np.int64)
    before: dict[tuple[int, int], Int64] = {}
    done = np.zeros((plan.ranks, len(KINDS) + 1), np.int64)
    rows: list[tuple[int, ...]] = []
    truth: dict[tuple[int, int, int], int] = defaultdict(int)
    begins = [0]
    for step in range(plan.steps):
        for at, place in enumerate(places):
            for rank in range(plan.ranks):
                own = {"compute": plan.work_ns + int(plan.jitter(random))}
                for kind, more in plan.delay(rank, step, at).items():
                    own[kind] = own.get(kind, 0) + more
                for kind, length in own.items():
                    done[rank, KINDS.index(kind)] += length
                    clock[rank] += length
            for g in place:
                start = {rank: int(clock[rank]) for rank in g}
                order = sorted(g, key=lambda rank: start[rank])
                end = start[order[-1]] + TRANSFER
                truth[order[-1], step, at] += start[order[-1]] - start[order[-2]]
                for rank in g:
                    spent, clock[rank] = end - start[rank], end
                    if plan.missing(rank, step, at):
                        # Nobody sees why it does nothing meanwhile, and the next call is since the one before.
                        done[rank, KINDS.index("idle")] += spent
                        continue
                    did = done[rank] - before.get((rank, names[g]), np.zeros(len(KINDS) + 1, np.int64))
                    place_in_all = step * len(places) + at
                    rows.append((rank, step, names[g], at, place_in_all, start[rank], spent, len(g), *did))
                    done[rank, -1] += spent
                    before[rank, names[g]] = done[rank].copy()
        begins.append(int(clock.max()))
    here = [rank for rank in range(plan.ranks) if rank not in plan.absent]
    kept = sorted((r for r in rows if r[0] in here), key=lambda r: (r[0], r[5]))
    keys = ("worker", "step", "group", "place", "sequence", "start", "dur", "size", *KINDS, "communication")
    columns = {key: np.array([r[i] for r in kept], np.int64) for i, key in enumerate(keys)}
    columns["worker"] = np.searchsorted(here, columns["worker"])
    return Job(columns, np.diff(begins).astype(np.float64), here, truth)
