"""Ranks without a trace: which they are, and what flight recorders of the same run say that they called."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analyses.base import Part
from tb_plugin.analyses.distributed.metrics import METRICS
from tb_plugin.payloads import Notice

Int64 = npt.NDArray[np.int64]

DUMPS = "recorders"
"""Table: what the flight recorder of a worker kept in a group, beside the calls of the traces in that group."""
CALLS_OF_RANKS = "rank_calls"
"""Table of a part about a flight recorder: its numbered calls."""
SCHEMA = {
    "worker": pa.string(), "has_trace": pa.bool_(), "group": pa.string(), "group_description": pa.string(),
    "recorded_calls_count": pa.int64(), "last_sequence": pa.int64(), "last_collective": pa.string(),
    "called_in_traces": pa.int64(), "not_called": pa.int64(),
}  # fmt: skip
NAMED = 8
"""So many ranks are named; the others are counted."""


def recorders(calls: pa.Table, groups: pa.Table, traced: Iterable[str], dumps: Sequence[Part]) -> pa.Table:
    """Returns what flight recorders kept, a row for each of them and each process group in which it kept numbered calls.

    ``calls`` and ``groups`` are those of the traces. A group is that of a trace when name and, where both state one,
    description are the same; numbers count in the group. The buffer of a recorder is a ring: what is numbered behind its
    last call was not called, what is numbered before its first one nobody knows.
    """
    numbers = _numbers(calls)
    described = {row["group"]: row["group_description"] for row in groups.to_pylist()}
    here = set(traced)
    rows = []
    for part in dumps:
        for (group, description), mine in _by_group(part.frames[CALLS_OF_RANKS].data).items():
            stated = described.get(group)
            theirs = numbers.get(group, np.empty(0, np.int64))
            if stated and description and stated != description:
                theirs = theirs[:0]
            sequence = np.array([number for number, _ in mine], np.int64)
            last = int(np.argmax(sequence))
            rows.append(
                {
                    "worker": part.worker,
                    "has_trace": part.worker in here,
                    "group": group,
                    "group_description": description,
                    "recorded_calls_count": len(mine),
                    "last_sequence": int(sequence[last]),
                    "last_collective": mine[last][1],
                    "called_in_traces": int(np.isin(theirs, sequence).sum()),
                    "not_called": int((theirs > sequence[last]).sum()),
                }
            )
    return pa.table({key: pa.array([row[key] for row in rows], kind) for key, kind in SCHEMA.items()})


def _by_group(calls: pa.Table) -> dict[tuple[str, str], list[tuple[int, str]]]:
    """Numbers and collectives of the calls of each group, by its name and description."""
    found: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    keys = ("group", "group_description", "sequence", "collective")
    for group, description, sequence, collective in zip(*(calls[key].to_pylist() for key in keys), strict=True):
        if sequence is not None:
            found[group or "", description or ""].append((sequence, collective or ""))
    return found


def _numbers(calls: pa.Table) -> dict[str, Int64]:
    """Numbers of the collectives that traces hold of each group, each once, in order."""
    some = calls.select(["group", "sequence"]).filter(pc.is_valid(calls["sequence"]))
    encoded = some["group"].combine_chunks().dictionary_encode()
    group, number = encoded.indices.to_numpy(zero_copy_only=False), some["sequence"].to_numpy()
    names = encoded.dictionary.to_pylist()
    return {name: np.unique(number[group == place]) for place, name in enumerate(names)}


def not_here(ranks: Iterable[int | None], world_size: int | None) -> list[int]:
    """Returns the ranks of the job that have no trace; none where the size, or the rank of a trace, is not recorded."""
    known = list(ranks)
    if world_size is None or None in known:
        return []
    return sorted(set(range(world_size)) - set(known))


def ranks_named(ranks: Sequence[int]) -> str:
    """Returns ranks as a text, the first of them by number."""
    named = [str(rank) for rank in ranks[:NAMED]]
    last = f"{len(ranks) - NAMED} more" if len(ranks) > NAMED else named.pop()
    return f"rank {last}" if not named else f"ranks {', '.join(named)} and {last}"


def recorder_notices(dumps: pa.Table) -> list[Notice]:
    """Returns who stopped calling while others went on, worst first, and who has no trace and called what the others did."""
    rows = dumps.to_pylist()
    behind = sorted((row for row in rows if row["not_called"]), key=lambda row: -row["not_called"])
    notices = []
    for row in behind[:NAMED]:
        figures = [
            METRICS.figure("worker", row["worker"]),
            METRICS.figure("last_sequence", row["last_sequence"]),
            METRICS.figure("last_collective", row["last_collective"]),
            METRICS.figure("not_called", row["not_called"]),
        ]
        group = row["group_description"] or row["group"]
        text = "{worker} called nothing after number {last_sequence} ({last_collective}) of group {group}"
        text += ", says its flight recorder; traces hold {not_called} later collectives of that group, without it."
        figures.append(METRICS.figure("group", group))
        todo = "See what that process did then: its log, its stacks in the recorder, its machine."
        notices.append(Notice("rank_stopped", "high", text, todo, figures))
    stopped = {row["worker"] for row in behind}
    silent = sorted({row["worker"] for row in rows if not row["has_trace"] and row["called_in_traces"]} - stopped)
    if silent:
        named = ", ".join(silent[:NAMED]) + (f" and {len(silent) - NAMED} more" if len(silent) > NAMED else "")
        met = sum(row["called_in_traces"] for row in rows if row["worker"] in silent)
        text = (
            f"Without a trace, but in the flight recorder: {named}. They called {{called_in_traces}} of the collectives"
        )
        text += " that the traces hold and no later one is missing: they ran."
        figures = [METRICS.figure("called_in_traces", met)]
        notices.append(
            Notice("rank_recorded", "info", text, "Record a trace of all ranks to know who is late.", figures)
        )
    return notices
