"""Collectives of all ranks, matched by process group and number: who did not call one, who called another, who waits.

The buffer of a rank is a ring: what is numbered before the first call of a group that it holds may have been called, what
is numbered behind it and is not there was not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.collective_names import UNEVEN
from tb_plugin.lib.groupby import Groups, group, stable_order

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

FINISHED, UNFINISHED, NOT_CALLED, DIFFERS = range(4)
VERDICTS = ("finished", "unfinished", "not called", "differs")
_NAMED = 16
"""So many ranks are named; the others are counted."""
_LATEST = np.iinfo(np.int64).max
_NOBODY = np.zeros(0, np.int64)

Members = Mapping[tuple[str | None, str | None], Int64]
"""Positions of the workers of each process group, by name and description, as far as that is known."""


@dataclass(frozen=True, eq=False)
class Matched:
    """Collectives, a row each, in the order in which they were first called; ``calls`` holds those of all ranks."""

    calls: pa.Table
    rank: Int64
    """Position of the worker that made each call."""
    of: Int64
    """Number of the collective of each call."""
    usual: Int64
    """For each collective a call that is like most."""
    group: Int64
    """Number of the process group of each collective."""
    sequence: Int64
    part: Int64
    called: Int64
    finished: Int64
    missing: Int64
    """How many ranks of the group did not call it."""
    differing: Int64
    differs: Bool
    """Which calls are not the usual one."""
    verdict: Int64
    first_ns: Int64
    last_ns: Int64
    progress: Progress

    def __len__(self) -> int:
        return len(self.usual)

    def missing_ranks(self, row: int) -> Int64:
        """Returns the positions of the workers that did not call a collective."""
        known = (self.progress.group == self.group[row]) & (self.progress.first <= self.sequence[row])
        return np.setdiff1d(self.progress.rank[known], self.rank[self.of == row])

    def differing_ranks(self, row: int) -> Int64:
        """Returns the positions of the workers whose call is not the usual one."""
        return np.unique(self.rank[(self.of == row) & self.differs])


@dataclass(frozen=True, eq=False)
class Progress:
    """How far each rank came in each group: a row for both."""

    group: Int64
    rank: Int64
    first: Int64
    last: Int64
    finished: Int64
    unfinished: Int64
    call: Int64
    """A call in the group, of the rank where it made one."""


def matched(tables: Sequence[pa.Table], members: Members) -> Matched:
    """Returns the collectives of some ranks, each with a table of its calls."""
    calls = pa.concat_tables(tables).combine_chunks()
    rank = np.repeat(np.arange(len(tables)), [len(table) for table in tables]).astype(np.int64)
    code = group(_codes(calls["group"]), _codes(calls["group_description"])).of if len(calls) else rank
    sequence = calls["sequence"].to_numpy().astype(np.int64)
    done = calls["call_finished"].to_numpy().astype(np.bool_)
    part = _ordinals(group(rank, code, sequence)) if len(calls) else rank
    created = pc.fill_null(calls["called_at_ns"], 0).to_numpy().astype(np.int64)
    keys = group(code, sequence, part) if len(calls) else Groups(rank, rank)
    usual, differs = _usual(calls, keys)
    progress = _progress(code, rank, sequence, done, calls, members)
    first = keys.min(np.where(created > 0, created, _LATEST))
    last = keys.max(created)
    count, finished = keys.count(), keys.sum(done.astype(np.int64))
    differing = keys.sum(differs.astype(np.int64))
    missing = _missing(progress, code[keys.first], sequence[keys.first], part[keys.first], count)
    verdict = np.where(finished < count, UNFINISHED, FINISHED)
    verdict = np.where(missing > 0, NOT_CALLED, verdict)
    verdict = np.where(differing > 0, DIFFERS, verdict)
    order = np.lexsort((part[keys.first], sequence[keys.first], first))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    at = keys.first[order]
    return Matched(
        calls,
        rank,
        place[keys.of],
        usual[order],
        code[at],
        sequence[at],
        part[at],
        count[order],
        finished[order],
        missing[order],
        differing[order],
        differs,
        verdict[order],
        np.where(first == _LATEST, 0, first)[order],
        last[order],
        progress,
    )


def differences(found: Matched, row: int) -> str:
    """Returns in what the calls of a collective are not alike, in words."""
    mine = found.calls.take(pa.array(np.flatnonzero(found.of == row)))
    uneven = bool(set(mine["collective"].to_pylist()) & UNEVEN)
    told = []
    if not _is_one(mine["collective"]):
        told.append("operation")
    if not uneven and not (_is_one(mine["call_input_sizes"]) and _is_one(mine["call_output_sizes"])):
        told.append("sizes")
    if not _is_one(mine["call_types"]):
        told.append("types")
    if not _is_one(mine["call_finished"]):
        told.append("state")
    return ", ".join(told)


def _is_one(column: pa.ChunkedArray) -> bool:
    return bool(pc.count_distinct(column, mode="all").as_py() <= 1)


def listed_workers(workers: Sequence[str], ranks: Int64) -> str:
    """Returns workers by name, of many the first ones and how many more."""
    names = [workers[rank] for rank in ranks[:_NAMED].tolist()]
    return ", ".join(names) + (f" and {len(ranks) - _NAMED} more" if len(ranks) > _NAMED else "")


def _codes(column: pa.ChunkedArray) -> Int64:
    """Equal numbers for equal texts, -1 for null."""
    encoded = column.combine_chunks().dictionary_encode()
    found: Int64 = pc.fill_null(encoded.indices, -1).to_numpy().astype(np.int64)
    return found


def _ordinals(groups: Groups) -> Int64:
    """Counts the rows of each group in their order, from 0 on."""
    order = stable_order(groups.of)
    start = np.cumsum(groups.count()) - groups.count()
    found = np.empty(len(order), np.int64)
    found[order] = np.arange(len(order)) - start[groups.of[order]]
    return found


def _usual(calls: pa.Table, keys: Groups) -> tuple[Int64, Bool]:
    """For each collective a call that is like most, and which calls are not like it.

    Sizes of collectives in which ranks may give and take different amounts are not compared.
    """
    if not len(calls):
        return keys.first, np.zeros(0, np.bool_)
    uneven = pc.is_in(calls["collective"], pa.array(sorted(UNEVEN), pa.large_string())).to_numpy()
    sizes = [np.where(uneven, -1, _codes(calls[f"call_{side}_sizes"])) for side in ("input", "output")]
    kinds = group(keys.of, _codes(calls["collective"]), *sizes, _codes(calls["call_types"]))
    often = kinds.count()
    owner = keys.of[kinds.first]
    order = np.lexsort((kinds.first, -often, owner))
    _, at = np.unique(owner[order], return_index=True)
    chosen = order[at]
    return kinds.first[chosen], kinds.of != chosen[keys.of]


def _progress(code: Int64, rank: Int64, sequence: Int64, done: Bool, calls: pa.Table, members: Members) -> Progress:
    """How far the ranks came, also those that called nothing in a group that they are members of."""
    if not len(code):
        return Progress(*(np.zeros(0, np.int64) for _ in range(7)))
    groups = group(code, rank)
    owner, there = code[groups.first], rank[groups.first]
    silent: list[tuple[int, int, int]] = []
    kinds = group(owner)
    rows = pa.array(groups.first[kinds.first])
    names = zip(*(calls[key].take(rows).to_pylist() for key in ("group", "group_description")), strict=True)
    for kind, name in enumerate(names):
        absent = np.setdiff1d(members.get(name, _NOBODY), there[kinds.of == kind])
        at = int(groups.first[kinds.first[kind]])
        silent += [(int(code[at]), int(each), at) for each in absent]
    more = np.array(silent, np.int64).reshape(-1, 3)
    none = np.full(len(more), -1, np.int64)
    return Progress(
        np.concatenate((owner, more[:, 0])),
        np.concatenate((there, more[:, 1])),
        np.concatenate((groups.min(sequence), none)),
        np.concatenate((groups.max(sequence), none)),
        np.concatenate((groups.max(np.where(done, sequence, -1)), none)),
        np.concatenate((groups.sum((~done).astype(np.int64)), none + 1)),
        np.concatenate((groups.first, more[:, 2])),
    )


def _missing(progress: Progress, code: Int64, sequence: Int64, part: Int64, count: Int64) -> Int64:
    """For each collective how many ranks of its group did not call it, as far as their records reach."""
    found = np.zeros(len(code), np.int64)
    order, members = stable_order(code), stable_order(progress.group)
    kinds = np.unique(code)
    rows = np.split(order, np.searchsorted(code[order], kinds[1:])) if len(kinds) else []
    ranks = np.split(members, np.searchsorted(progress.group[members], kinds[1:])) if len(kinds) else []
    for mine, there in zip(rows, ranks, strict=True):
        # Of a rank whose first record is a later one nobody knows.
        known = np.searchsorted(np.sort(progress.first[there]), sequence[mine], side="right")
        found[mine] = known - count[mine]
    # Which of several calls under one number a rank left out cannot be told.
    return np.where(part == 0, np.maximum(found, 0), 0)
