"""What an analysis of a job has to find."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
from events import Json

from .calls import calls, first_step, meetings
from .job import DESCRIPTIONS, KERNEL_OF, Int64, Job
from .playing import Plan, Stage, plan
from .program import DTYPES, KERNELS, SEND


def truth(job: Job, made: Plan | None = None, matches: bool = False) -> Json:
    """Returns what an analysis has to find, in integer nanoseconds by a right clock.

    * ``ranks``: clock, base time; how long each waited in collectives, by kind of group; how many calls its file has.
    * ``last``: by kind of group, of each rank that ever was last, for each step the time from the arrival of the one before
      it to its own, summed over its collectives.
    * ``stragglers``: what was planted, who it was in each step, and ``gain_ns``: how much earlier than it did each step would
      have ended on its last rank, had the step before ended when it did, without the straggler.
    * ``bandwidths``: by group, collective and bytes: calls and what they take in all when everyone is there.
    * ``traffic``: [from, to, bytes] of messages and uneven exchanges; what a rank keeps is not in it.
    * ``matches``, where asked for: of each rank the numbers of its calls in order of their start.

    Everything that happened is in it, also what no file says (lost kernels, absent ranks, steps before a recording).
    """
    made = made or plan(job)
    waited: dict[str, Int64] = {}
    last: dict[str, Int64] = {}
    moved: dict[tuple[str, str, str, int, int], list[int]] = {}
    traffic: dict[tuple[int, int], int] = {}
    for stages, places, members in meetings(made):
        op, width = stages[0].ops[places[0]], job.stage_ranks
        ranks = np.concatenate([np.arange(s.first_rank, s.first_rank + width) for s in stages])[members]
        start = np.concatenate([s.start[:, p] for s, p in zip(stages, places, strict=True)], 1)[:, members]
        order = np.sort(start, 2)
        waits = waited.setdefault(op.group, np.zeros((job.steps, job.ranks), np.int64))
        lead = last.setdefault(op.group, np.zeros((job.steps, job.ranks), np.int64))
        for step in range(job.steps):
            np.add.at(waits[step], ranks, order[step, :, -1:] - start[step])
            if start.shape[2] > 1:
                np.add.at(
                    lead[step],
                    ranks[np.arange(len(ranks)), start[step].argmax(1)],
                    order[step, :, -1] - order[step, :, -2],
                )
            _count_moved(made, stages[0], places[0], step, ranks, moved, traffic)
    result: Json = {
        "job": asdict(job),
        "ranks": {
            str(rank): {
                "clock_offset_ns": int(made.clock[rank, 0]), "clock_drift_ppb": int(made.clock[rank, 1]),
                "base_time_ns": int(made.base[rank]), "first_step": first_step(job, rank), "absent": rank in job.absent,
                "waited_ns": {kind: int(times[:, rank].sum()) for kind, times in waited.items()},
                "lost_calls": int(made.stage_of(rank)[0].lost[first_step(job, rank) :, :, made.stage_of(rank)[1]].sum()),
            }
            for rank in range(job.ranks)
        },
        "groups": {
            kind: {
                "first_name": groups.first_number, "description": DESCRIPTIONS[job.naming][kind],
                "ranks": groups.members.tolist(),
            }
            for kind, groups in made.groups.items()
        },
        "steps": [
            {"begin_ns": int(made.begin[step].min()), "end_ns": int(made.finish[step].max())} for step in range(job.steps)
        ],
        "last": {
            kind: {str(rank): times[:, rank].tolist() for rank in np.flatnonzero(times.any(0)).tolist()}
            for kind, times in last.items()
        },
        "stragglers": [_planted(made, i) for i in range(len(job.stragglers))],
        "bandwidths": [
            {
                "kind": kind, "group": name, "collective": collective, "bytes": size, "group_size": n, "calls": count,
                "transfer_ns": ns,
            }
            for (kind, name, collective, size, n), (count, ns) in sorted(moved.items())
        ],
        "traffic": [[*pair, size] for pair, size in sorted(traffic.items())],
    }  # fmt: skip
    if matches:
        result["matches"] = {str(r): calls(made, r)["match"].tolist() for r in range(job.ranks) if r not in job.absent}
    return result


def _count_moved(
    made: Plan,
    stage: Stage,
    place: int,
    step: int,
    ranks: Int64,
    moved: dict[tuple[str, str, str, int, int], list[int]],
    traffic: dict[tuple[int, int], int],
) -> None:
    op, groups = stage.ops[place], made.groups[stage.ops[place].group]
    width = DTYPES[op.dtype]
    if op.kind == SEND:
        for sender, receiver in ranks.tolist():
            traffic[sender, receiver] = traffic.get((sender, receiver), 0) + op.elements * width
    elif op.collective == "all_to_allv":
        for group, splits in zip(ranks.tolist(), stage.splits[step, place].tolist(), strict=True):
            for sender, row in zip(group, splits, strict=True):
                for receiver, elements in zip(group, row, strict=True):
                    if sender != receiver:
                        traffic[sender, receiver] = traffic.get((sender, receiver), 0) + elements * width
        return
    for row, ns in zip(ranks.tolist(), stage.transfer[step, place].tolist(), strict=True):
        name = str(groups.first_number + int(groups.of_rank[row[0]]))
        if op.kind == SEND:
            name = f"{row[0]}-{row[1]}"
        into = moved.setdefault((op.group, name, op.collective, op.elements * width, len(row)), [0, 0])
        into[0] += 1
        into[1] += ns


def _planted(made: Plan, number: int) -> Json:
    job = made.job
    one = job.stragglers[number]
    without = plan(replace(job, stragglers=job.stragglers[:number] + job.stragglers[number + 1 :]))
    later = made.finish.max(1) - without.finish.max(1)
    return {
        **asdict(one), "late": [one.at(step, job.ranks) for step in range(job.steps)],
        "operator": KERNELS[KERNEL_OF[one.kernel]][0], "kernel_name": KERNELS[KERNEL_OF[one.kernel]][1],
        "gain_ns": np.diff(later, prepend=0).tolist(),
    }  # fmt: skip
