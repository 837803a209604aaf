"""The collectives of one rank as columns, and which ones belong together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from .job import DESCRIPTIONS, Int64, Job
from .playing import COMM_CALL_NS, WAIT_NS, Plan, Stage
from .program import COLLECTIVE, DTYPES, RECV, SEND, STREAMS, Op

MOST_LISTED = 30
"""PyTorch writes so many numbers of a list of ranks or sizes, then dots."""


@dataclass(frozen=True)
class Told:
    """What a rank says of the collective at one place of its program, the same in every step."""

    place: int
    part: int
    """Which of the calls of a coalesced batch it is."""
    name: str
    """Of the group."""
    description: str
    ranks: str
    """As PyTorch writes them: the first ones where there are many."""
    size: int
    in_group: int
    """Place of the rank in it."""
    first: int
    stride: int
    in_elements: int
    out_elements: int
    order: int
    """How many of the group are before it in a step ..."""
    a_step: int
    """... and how many there are in a step."""
    source: int
    destination: int
    group: int
    """Row of the group among those of its kind in the stage; of a message its pair of ranks."""


def listed(numbers: Iterable[int]) -> str:
    """Returns a list as PyTorch writes it: no more than MOST_LISTED numbers."""
    given = [str(number) for number in numbers]
    return "[" + ", ".join(given[:MOST_LISTED]) + (", ...]" if len(given) > MOST_LISTED else "]")


def told(made: Plan, rank: int) -> list[Told]:
    """Returns what a rank says of its collectives and messages, in the order of its program."""
    job = made.job
    stage, place_in_stage = made.stage_of(rank)
    kinds = [op.group for op in stage.ops if op.kind in (COLLECTIVE, SEND, RECV)]
    seen: dict[str, int] = {}
    found = []
    for place, op in enumerate(stage.ops):
        if op.kind not in (COLLECTIVE, SEND, RECV):
            continue
        groups = made.groups[op.group]
        row = int(groups.of_rank[rank])
        members = groups.members[row]
        in_group = int(np.flatnonzero(members == rank)[0])
        source = destination = -1
        if op.kind == SEND:
            source, destination = rank, rank + job.stage_ranks * (1 if op.stream == "down" else -1)
        elif op.kind == RECV:
            source, destination = rank - job.stage_ranks * (1 if op.stream == "down" else -1), rank
        stated = groups.first_number + row, listed(members.tolist())
        stride = int(members[1] - members[0]) if len(members) > 1 else 1
        group = place_in_stage if op.kind != COLLECTIVE else _row_in_stage(made, stage, op, row)
        for part, elements in enumerate(op.calls):
            own = elements // len(members)
            inside = own if op.collective == "_allgather_base" else elements
            outside = own if op.collective == "_reduce_scatter_base" else elements
            found.append(
                Told(
                    place, part, str(stated[0]), DESCRIPTIONS[job.naming][op.group], stated[1], len(members), in_group,
                    int(members[0]), stride, inside, outside, seen.get(op.group, 0), kinds.count(op.group), source,
                    destination, group,
                )
            )  # fmt: skip
        seen[op.group] = seen.get(op.group, 0) + 1
    return found


def _row_in_stage(made: Plan, stage: Stage, op: Op, row: int) -> int:
    """Groups of a kind lie in the stages one after the other."""
    if op.group == "world":
        return row
    a_stage = len(made.groups[op.group].members) // made.job.pp
    return row - stage.first_rank // made.job.stage_ranks * a_stage


def first_step(job: Job, rank: int) -> int:
    """Returns the first step that the file of a rank has."""
    return max((steps for late, steps in job.late if late == rank), default=0)


def match_numbers(made: Plan) -> list[dict[int, tuple[int, int]]]:
    """Returns for each stage, of each place with a collective or message, the number of its first match in step 0, and how
    many there are in a step in all: a match is numbered by step, place and group, the same on all ranks that have it."""
    job, given, total = made.job, [], 0
    ends: dict[tuple[str, int, int], int] = {}
    for number, stage in enumerate(made.stages):
        mine: dict[int, int] = {}
        for place, op in enumerate(stage.ops):
            if op.kind in (SEND, RECV):
                lower = number if (op.kind == SEND) == (op.stream == "down") else number - 1
                key, count = (op.stream, lower, op.microbatch), job.stage_ranks
            elif op.kind == COLLECTIVE:
                key = ("world", 0, 0) if op.group == "world" else (f"{number}", place, 0)
                count = 1 if op.group == "world" else len(made.groups[op.group].members) // job.pp * len(op.calls)
            else:
                continue
            if key not in ends:
                ends[key] = total
                total += count
            mine[place] = ends[key]
        given.append(mine)
    return [{place: (first, total) for place, first in mine.items()} for mine in given]


def calls(made: Plan, rank: int) -> dict[str, Any]:
    """Returns what the file of a rank has of its collectives, as columns in order of their start: numbers as int64 arrays,
    texts and lists as Python lists. Times count as in the file; ``true_start_ns`` and ``true_end_ns`` are those of the job.

    ``match`` numbers what belongs together on all ranks; calls of one ``batch`` (-1 = none) share a kernel and its times.
    ``waited_ns`` is how long the rank waited for the last one, ``transfer_ns`` what the collective takes when all are there
    (the jitter of the ends left out).
    """
    job = made.job
    stage, at = made.stage_of(rank)
    numbers = match_numbers(made)[rank // job.stage_ranks]
    steps = np.arange(first_step(job, rank), job.steps)
    last = _last_arrivals(made)
    waits = {place: wait for wait, op in enumerate(stage.ops) for place in op.of}
    rows: dict[str, list[Any]] = {name: [] for name in _CALL_COLUMNS}
    for one in told(made, rank):
        op = stage.ops[one.place]
        kept = steps[~stage.lost[steps, one.place, at]]
        count = len(kept)
        first, a_step = numbers[one.place]
        start, end, host = (x[kept, one.place, at] for x in (stage.start, stage.end, stage.host))
        latest = last[rank // job.stage_ranks][kept, one.place, at]
        sent: list[Any] = [None] * count
        received: list[Any] = [None] * count
        inside = np.full(count, one.in_elements)
        if op.collective == "all_to_allv":
            splits = [stage.splits[step, one.place][one.group] for step in kept.tolist()]
            sent = [each[one.in_group].tolist() for each in splits]
            received = [each[:, one.in_group].tolist() for each in splits]
            inside = np.array([sum(each) for each in sent], np.int64)
        moved = np.full(count, one.out_elements) if op.collective == "_allgather_base" else inside
        needed = stage.host[kept, waits[one.place], at] if one.place in waits else host + COMM_CALL_NS - WAIT_NS
        numbers_of: dict[str, Int64] = {
            "step": kept, "elements": moved, "comm_bytes": moved * DTYPES[op.dtype],
            "group_size": np.full(count, one.size),
            "sequence": kept * one.a_step + one.order + 1 if job.sequence else np.full(count, -1),
            "source_rank": np.full(count, one.source), "destination_rank": np.full(count, one.destination),
            "start_ns": made.local(rank, start), "dur_ns": made.local(rank, end) - made.local(rank, start),
            "issued_ns": made.local(rank, host), "needed_ns": made.local(rank, needed),
            "true_start_ns": start, "true_end_ns": end, "waited_ns": latest - start,
            "transfer_ns": np.array([stage.transfer[step, one.place][one.group] for step in kept.tolist()], np.int64),
            "match": kept * a_step + first + one.group * len(op.calls) + one.part,
            "batch": np.full(count, -1) if not op.parts else kept * a_step + first + one.group,
            "asynchronous": np.full(count, int(not op.waited)),
        }  # fmt: skip
        texts: dict[str, list[Any]] = {
            "collective": [op.collective] * count, "dtype": [op.dtype] * count, "group": [one.name] * count,
            "group_description": [one.description] * count, "group_ranks": [one.ranks] * count,
            "stream": [f"stream {STREAMS[op.stream]}"] * count, "sent_splits": sent, "received_splits": received,
        }  # fmt: skip
        for name in _CALL_COLUMNS:
            rows[name].extend(texts[name] if name in texts else numbers_of[name].tolist())
    order = np.lexsort((-np.array(rows["dur_ns"], np.int64), np.array(rows["start_ns"], np.int64)))
    return {
        name: [values[i] for i in order.tolist()] if name in _TEXTS else np.array(values, np.int64)[order]
        for name, values in rows.items()
    }


_TEXTS = (
    "collective", "dtype", "group", "group_description", "group_ranks", "stream", "sent_splits", "received_splits",
)  # fmt: skip
_CALL_COLUMNS = (
    "step", "elements", "comm_bytes", "group_size", "sequence", "source_rank", "destination_rank", "start_ns", "dur_ns",
    "issued_ns", "needed_ns", "true_start_ns", "true_end_ns", "waited_ns", "transfer_ns", "match", "batch",
    "asynchronous", *_TEXTS,
)  # fmt: skip


@lru_cache(maxsize=2)
def _last_arrivals(made: Plan) -> list[Int64]:
    """Returns for each stage (step, place, rank of the stage): when the last one of the collective came."""
    found, width = [np.zeros_like(stage.start) for stage in made.stages], made.job.stage_ranks
    for stages, places, members in meetings(made):
        start = np.concatenate([s.start[:, p] for s, p in zip(stages, places, strict=True)], 1)
        latest = np.zeros_like(start)
        latest[:, members] = start[:, members].max(2)[:, :, None]
        for i, (stage, place) in enumerate(zip(stages, places, strict=True)):
            found[stage.first_rank // width][:, place] = latest[:, i * width : (i + 1) * width]
    return found


def meetings(made: Plan) -> Iterator[tuple[list[Stage], list[int], Int64]]:
    """Yields all collectives and messages of a step: the stages that take part, the place in the program of each, and the
    members of each group as positions in the ranks of these stages, one stage after the other."""
    job, width = made.job, made.job.stage_ranks
    sends: dict[tuple[str, int, int], tuple[Stage, int]] = {}
    everywhere: list[tuple[Stage, int]] = []
    for number, stage in enumerate(made.stages):
        for place, op in enumerate(stage.ops):
            if op.kind == SEND:
                sends[op.stream, number + (1 if op.stream == "down" else -1), op.microbatch] = stage, place
            elif op.kind == COLLECTIVE and op.group == "world":
                everywhere.append((stage, place))
            elif op.kind == COLLECTIVE:
                members = made.groups[op.group].members
                members = members[(members[:, 0] >= stage.first_rank) & (members[:, 0] < stage.first_rank + width)]
                yield [stage], [place], members - stage.first_rank
    for number, stage in enumerate(made.stages):
        for place, op in enumerate(stage.ops):
            if op.kind == RECV:
                sender, sent = sends[op.stream, number, op.microbatch]
                yield [sender, stage], [sent, place], np.stack((np.arange(width), np.arange(width) + width), 1)
    if everywhere:
        yield [s for s, _ in everywhere], [p for _, p in everywhere], np.arange(job.ranks)[None, :]
