"""Ranks without a trace, and their calls in flight recorders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Part
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import codes, distinct_rows
from tb_plugin.payloads import Notice
from tb_plugin.views.distributed.matching.keys import numbers_of, texts_of
from tb_plugin.views.distributed.metrics import METRICS

# table of flight recorders: their calls in each group, compared with those in the traces
DUMPS = "recorders"
# table of numbered calls in a flight recorder's part
CALLS_OF_RANKS = "rank_calls"
SCHEMA = {
    "worker": pa.string(), "has_trace": pa.bool_(), "group": pa.string(), "group_description": pa.string(),
    "recorded_calls_count": pa.int64(), "last_sequence": pa.int64(), "last_collective": pa.string(),
    "called_in_traces": pa.int64(), "not_called": pa.int64(),
}  # fmt: skip
# maximum number of ranks listed by name
MAX_LISTED_RANKS = 8


def recorder_rows(calls: pa.Table, groups: pa.Table, traced: Iterable[str], dumps: Sequence[Part]) -> pa.Table:
    """Returns one row per flight recorder and process group with numbered calls.

    ``calls`` and ``groups`` come from the traces. A group in a recorder is matched by name if the name is unique
    and the descriptions do not differ. A recorder is a ring buffer, so calls before its first call are unknown. The
    rank did not call any collective after the last call in its recorder.
    """
    numbers = _numbers(calls)
    described = {row["group"]: row["group_description"] for row in groups.to_pylist()}
    traced_names = set(traced)
    rows = []
    for part in dumps:
        for group, description, sequence, last_collective in _by_group(part.frames[CALLS_OF_RANKS].data):
            stated = described.get(group)
            theirs = numbers.get(group, np.empty(0, np.int64))
            if stated and description and stated != description:
                theirs = theirs[:0]
            last = int(sequence.max())
            rows.append(
                {
                    "worker": part.worker,
                    "has_trace": part.worker in traced_names,
                    "group": group,
                    "group_description": description,
                    "recorded_calls_count": len(sequence),
                    "last_sequence": last,
                    "last_collective": last_collective,
                    "called_in_traces": int(np.isin(theirs, sequence).sum()),
                    "not_called": int((theirs > last).sum()),
                }
            )
    return pa.table({key: pa.array([row[key] for row in rows], kind) for key, kind in SCHEMA.items()})


def _by_group(calls: pa.Table) -> Iterator[tuple[str, str, Int64, str]]:
    """Yields name, description, sequence numbers and last collective of each group, sorted by time of the first
    call.
    """
    calls = calls.filter(pc.is_valid(calls["sequence"]))
    (group, names), (description, words), (collective, titles) = (
        texts_of(calls, key) for key in ("group", "group_description", "collective")
    )
    sequence = calls["sequence"].to_numpy()
    _, first, which = np.unique(codes(group, description), return_index=True, return_inverse=True)
    order = np.argsort(which, kind="stable")
    pieces = np.split(order, np.cumsum(np.bincount(which, minlength=len(first)))[:-1])
    for at in np.argsort(first).tolist():
        mine = pieces[at]
        last = mine[int(np.argmax(sequence[mine]))]
        yield names[group[last]], words[description[last]], sequence[mine], titles[collective[last]]


def _numbers(calls: pa.Table) -> dict[str, Int64]:
    """Returns the sorted distinct sequence numbers in the traces for each group name. Ambiguous names are omitted."""
    some = calls.select(["group", "group_code", "sequence"]).filter(pc.is_valid(calls["sequence"]))
    (group, names), code, number = texts_of(some, "group"), numbers_of(some, "group_code"), numbers_of(some, "sequence")
    is_unique = (np.bincount(distinct_rows(group, code)[0], minlength=len(names)) == 1)[group]
    named, numbers = distinct_rows(group[is_unique], number[is_unique])
    pieces = np.split(numbers, np.flatnonzero(np.diff(named)) + 1)
    return dict(zip((names[place] for place in np.unique(named).tolist()), pieces, strict=False))


def missing_ranks(ranks: Sequence[int | None], world_size: int | None) -> str:
    """Returns the ranks without a trace as text, such as ``ranks 3, 8–15``. If no rank is missing, the text is
    empty.

    The text is also empty if the world size or a rank is unknown, or if two traces report the same rank.
    """
    count = missing_rank_count(ranks, world_size) or 0
    if world_size is None or not count:
        return ""
    present = sorted(rank for rank in {*ranks} if rank is not None and 0 <= rank < world_size)
    gaps = [(before + 1, rank - 1) for before, rank in pairwise([-1, *present, world_size]) if rank - before > 1]
    named, left = [], count
    for first, last in gaps[:MAX_LISTED_RANKS]:
        named.append(_range(first, last))
        left -= last - first + 1
    more = f" and {left:,} more" if left else ""
    return f"rank{'s' if count > 1 else ''} {', '.join(named)}{more}"


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}, {last}" if last == first + 1 else f"{first}–{last}"


def missing_rank_count(ranks: Sequence[int | None], world_size: int | None) -> int | None:
    """Returns the number of ranks without a trace.

    Returns None if the world size or a rank is unknown, or if two traces report the same rank.
    """
    known = set(ranks)
    if world_size is None or None in known or len(known) < len(ranks):
        return None
    return world_size - sum(rank is not None and 0 <= rank < world_size for rank in known)


def nothing_called(calls: pa.Table) -> list[Notice]:
    """Returns a notice if no worker of the run called a collective."""
    if calls.num_rows:
        return []
    text = "No worker of this run recorded communication between processes, so there is nothing to compare."
    return [Notice("no_communication", "info", text, "Move traces that belong to no job to a separate folder.")]


def recorder_notices(dumps: pa.Table) -> list[Notice]:
    """Returns findings about ranks that stopped calling collectives before other ranks, worst rank first.

    The last findings describe ranks without a trace.
    """
    rows = dumps.to_pylist()
    behind = sorted((row for row in rows if row["not_called"]), key=lambda row: -row["not_called"])
    notices = []
    for row in behind[:MAX_LISTED_RANKS]:
        figures = [
            METRICS.figure("worker", row["worker"]),
            METRICS.figure("last_sequence", row["last_sequence"]),
            METRICS.figure("last_collective", row["last_collective"]),
            METRICS.figure("not_called", row["not_called"]),
        ]
        group = row["group_description"] or row["group"]
        text = "{worker} made no call after number {last_sequence} ({last_collective}) of group {group}"
        text += ", according to its flight recorder. The traces contain {not_called} later collectives of that group."
        figures.append(METRICS.figure("group", group))
        todo = (
            "Find out what this process did at that time: read its log and its stacks in the flight "
            "recorder, and check its machine."
        )
        notices.append(Notice("rank_stopped", "high", text, todo, figures))
    stopped = {row["worker"] for row in behind}
    ran = {row["worker"] for row in rows if not row["has_trace"] and row["called_in_traces"]} - stopped
    silent = sorted(ran)
    if silent:
        named = ", ".join(silent[:MAX_LISTED_RANKS]) + (
            f" and {len(silent) - MAX_LISTED_RANKS} more" if len(silent) > MAX_LISTED_RANKS else ""
        )
        called = sum(row["called_in_traces"] for row in rows if row["worker"] in ran)
        text = (
            f"These ranks have a flight recorder dump but no trace: {named}. These ranks called {{called_in_traces}} "
            "of the collectives"
        )
        text += " in the traces. No later call is missing, so these ranks kept running."
        figures = [METRICS.figure("called_in_traces", called)]
        notices.append(Notice("rank_recorded", "info", text, "Record traces of all ranks to see who is late.", figures))
    return notices
