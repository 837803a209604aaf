"""Flight recorder collectives matched by group and sequence number.

A recorder is a ring buffer, so calls before the first recorded call of a group are unknown. If a later call is not
in the recorder, the rank did not make this call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.collective_names import UNEVEN
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import Groups, group, stable_order

FINISHED, UNFINISHED, NOT_CALLED, DIFFERS = range(4)
VERDICTS = ("finished", "unfinished", "not called", "differs")
# maximum number of ranks listed by name
_MAX_NAMED = 16
_LATEST = np.iinfo(np.int64).max
_NO_WORKERS = np.zeros(0, np.int64)

# indices of the workers of each known process group, by (name, description)
Members = Mapping[tuple[str | None, str | None], Int64]


class Progress(msgspec.Struct, frozen=True, eq=False):
    """Progress of ranks: one row per group and rank."""

    group: Int64
    rank: Int64
    first: Int64
    last: Int64
    finished: Int64
    unfinished: Int64
    call: Int64
    """A call in the group. If the rank made any, it is a call of this rank."""


class Matched(msgspec.Struct, frozen=True, eq=False):
    """Matched collectives: one row per collective, in order of first call.

    ``calls`` contains the calls of all ranks; ``rank``, ``of`` and ``differs`` have one value per call.
    """

    calls: pa.Table
    rank: Int64
    """Index of the worker of each call."""
    of: Int64
    """Index of the collective of each call."""
    differs: Bool
    """Marks the calls whose properties differ from those of the ``usual`` call."""
    progress: Progress
    usual: Int64
    """Call of each collective that has the most frequent properties."""
    group: Int64
    """Code of the process group of each collective."""
    sequence: Int64
    part: Int64
    called: Int64
    finished: Int64
    missing: Int64
    """Number of ranks in the group that did not call the collective."""
    differing: Int64
    verdict: Int64
    first_ns: Int64
    last_ns: Int64

    def __len__(self) -> int:
        return len(self.usual)

    def missing_ranks(self, row: int) -> Int64:
        """Returns the indices of the workers that did not call the collective in ``row``."""
        known = (self.progress.group == self.group[row]) & (self.progress.first <= self.sequence[row])
        return np.setdiff1d(self.progress.rank[known], self.rank[self.of == row])

    def differing_ranks(self, row: int) -> Int64:
        """Returns the indices of the workers whose call of the collective in ``row`` differs from the usual call."""
        return np.unique(self.rank[(self.of == row) & self.differs])


def match_ranks(tables: Sequence[pa.Table], members: Members) -> Matched:
    """Matches the calls of all ranks. ``tables`` has one table of calls for each rank."""
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
    count, finished, differing = keys.count(), keys.sum(done.astype(np.int64)), keys.sum(differs.astype(np.int64))
    missing = _missing(progress, code[keys.first], sequence[keys.first], part[keys.first], count)
    verdict = np.select(
        [differing > 0, missing > 0, finished < count], [DIFFERS, NOT_CALLED, UNFINISHED], default=FINISHED
    )
    columns = {
        "usual": usual, "group": code[keys.first], "sequence": sequence[keys.first], "part": part[keys.first],
        "called": count, "finished": finished, "missing": missing, "differing": differing, "verdict": verdict,
        "first_ns": np.where(first == _LATEST, 0, first), "last_ns": keys.max(created),
    }  # fmt: skip
    order = np.lexsort((columns["part"], columns["sequence"], first))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    ordered = {key: column[order] for key, column in columns.items()}
    return Matched(calls, rank, place[keys.of], differs, progress, **ordered)


def differences(found: Matched, row: int) -> str:
    """Returns the properties in which the calls of a collective differ as text, such as "sizes, types"."""
    mine = found.calls.take(pa.array(np.flatnonzero(found.of == row)))
    uneven = bool(set(mine["collective"].to_pylist()) & UNEVEN)
    columns = {
        "operation": ("collective",),
        "sizes": () if uneven else ("call_input_sizes", "call_output_sizes"),
        "types": ("call_types",),
        "state": ("call_finished",),
    }
    return ", ".join(text for text, keys in columns.items() if not all(_is_one(mine[key]) for key in keys))


def _is_one(column: pa.ChunkedArray) -> bool:
    return bool(pc.count_distinct(column, mode="all").as_py() <= 1)


def listed_workers(workers: Sequence[str], ranks: Int64) -> str:
    """Returns the names of workers as text. A long list is shortened."""
    names = [workers[rank] for rank in ranks[:_MAX_NAMED].tolist()]
    return ", ".join(names) + (f" and {len(ranks) - _MAX_NAMED} more" if len(ranks) > _MAX_NAMED else "")


def _codes(column: pa.ChunkedArray) -> Int64:
    """Returns codes that are equal for equal texts (-1 for null)."""
    encoded = column.combine_chunks().dictionary_encode()
    found: Int64 = pc.fill_null(encoded.indices, -1).to_numpy().astype(np.int64)
    return found


def _ordinals(groups: Groups) -> Int64:
    """Returns the index of each row within its group."""
    order = stable_order(groups.of)
    start = np.cumsum(groups.count()) - groups.count()
    found = np.empty(len(order), np.int64)
    found[order] = np.arange(len(order)) - start[groups.of[order]]
    return found


def _usual(calls: pa.Table, keys: Groups) -> tuple[Int64, Bool]:
    """Returns the most frequent kind of call of each collective, and whether each call differs from this kind.

    Sizes are not compared for collectives that may have uneven sizes.
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
    """Returns the progress of all ranks, including group members without calls."""
    if not len(code):
        return Progress(*(np.zeros(0, np.int64) for _ in range(7)))
    groups = group(code, rank)
    owner, present = code[groups.first], rank[groups.first]
    silent: list[tuple[int, int, int]] = []
    kinds = group(owner)
    rows = pa.array(groups.first[kinds.first])
    names = zip(*(calls[key].take(rows).to_pylist() for key in ("group", "group_description")), strict=True)
    for kind, name in enumerate(names):
        absent = np.setdiff1d(members.get(name, _NO_WORKERS), present[kinds.of == kind])
        at = int(groups.first[kinds.first[kind]])
        silent += [(int(code[at]), int(each), at) for each in absent]
    more = np.array(silent, np.int64).reshape(-1, 3)
    none = np.full(len(more), -1, np.int64)
    return Progress(
        np.concatenate((owner, more[:, 0])),
        np.concatenate((present, more[:, 1])),
        np.concatenate((groups.min(sequence), none)),
        np.concatenate((groups.max(sequence), none)),
        np.concatenate((groups.max(np.where(done, sequence, -1)), none)),
        np.concatenate((groups.sum((~done).astype(np.int64)), none + 1)),
        np.concatenate((groups.first, more[:, 2])),
    )


def _missing(progress: Progress, code: Int64, sequence: Int64, part: Int64, count: Int64) -> Int64:
    """Returns the number of group members that certainly did not call each collective."""
    found = np.zeros(len(code), np.int64)
    order, members = stable_order(code), stable_order(progress.group)
    kinds = np.unique(code)
    rows = np.split(order, np.searchsorted(code[order], kinds[1:])) if len(kinds) else []
    ranks = np.split(members, np.searchsorted(progress.group[members], kinds[1:])) if len(kinds) else []
    for mine, members_of_group in zip(rows, ranks, strict=True):
        # Collectives before the first recorded call of a rank are unknown.
        known = np.searchsorted(np.sort(progress.first[members_of_group]), sequence[mine], side="right")
        found[mine] = known - count[mine]
    # If several calls have the same number, it is unknown which one is missing.
    return np.where(part == 0, np.maximum(found, 0), 0)
