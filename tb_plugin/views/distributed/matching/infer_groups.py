"""Inference of process groups for calls that report none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tb_plugin.lib.groupby import codes
from tb_plugin.views.distributed.matching.groups import Ranks, ReportedGroup, ranks_in
from tb_plugin.views.distributed.matching.match import Calls

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

# collectives for which all ranks report the same size, so calls of equal size belong together
ALIKE = frozenset({"all_reduce", "broadcast", "reduce", "barrier"})
# if ranks lack a single collective only, they may have lost it
MIN_COLLECTIVES = 2


def fill_from_collective(label: Int64, values: Int64) -> Int64:
    """Replaces unknown values (-1) by the largest value of the same collective."""
    lacking = (values < 0) & (label >= 0)
    if not lacking.any():
        return values
    known = np.flatnonzero((label >= 0) & (values >= 0))
    largest = np.full(int(label.max(initial=-1)) + 2, -1, np.int64)
    np.maximum.at(largest, label[known], values[known])
    return np.where(lacking, largest[label], values)


def group_from_ranks(
    calls: Calls, label: Int64, blank: Bool, alike: Bool, ranks: Sequence[int | None], stated: Sequence[ReportedGroup]
) -> tuple[Int64, list[tuple[Ranks, str]]]:
    """Infers the group of calls without a reported group, from the ranks that call a collective.

    Returns, for each call, an index into the second result, which contains (ranks, name); -1 = none. A kind of
    calls (name, dtype, elements) gets a listed group if exactly the ranks of that group call its collectives. Kinds
    that all ranks of the job call get no group. All ranks must be loaded and have such calls in the same steps.
    Otherwise a trace may be truncated. ``blank`` marks calls without a group. ``alike`` marks collectives for which
    all ranks report the same size.
    """
    found = np.full(len(label), -1, np.int64)
    groups = _listed(ranks, stated)
    rows = np.flatnonzero(blank)
    if not len(rows) or not groups or None in ranks:
        return found, []
    workers = len(ranks)
    kind = codes(calls.group[rows], calls.kind[rows])
    kinds = int(kind.max()) + 1
    pairs = np.unique(codes(kind, calls.worker[rows]), return_index=True)[1]
    taking_part = np.bincount(kind[pairs], minlength=kinds)
    calls_of_match = np.bincount(label[rows] + 1, minlength=int(label.max(initial=-1)) + 2)
    steps = np.unique(codes(calls.step[rows], calls.worker[rows]), return_index=True)[1]
    on_all = np.bincount(calls.step[rows[steps]], minlength=int(calls.step.max()) + 1) == workers
    good = (
        (label[rows] >= 0)
        & alike[rows]
        & (calls_of_match[label[rows] + 1] == taking_part[kind])
        & on_all[calls.step[rows]]
        & (calls.step[rows] != calls.no_step)
    )
    count = np.bincount(kind, minlength=kinds)
    sound = (np.bincount(kind[good], minlength=kinds) == count) & (taking_part < workers)
    sound &= count >= MIN_COLLECTIVES * taking_part
    of_kind = np.full(kinds, -1, np.int64)
    members: dict[int, list[int]] = defaultdict(list)
    for pair in pairs[sound[kind[pairs]]].tolist():
        members[int(kind[pair])].append(int(calls.worker[rows[pair]]))
    keys = list(groups)
    for number, mine in members.items():
        if (key := frozenset(mine)) in groups:
            of_kind[number] = keys.index(key)
    found[rows] = of_kind[kind]
    return found, [groups[key] for key in keys]


def _listed(ranks: Sequence[int | None], stated: Sequence[ReportedGroup]) -> dict[frozenset[int], tuple[Ranks, str]]:
    """Groups that each of their members lists exactly once, keyed by these members."""
    place = {rank: worker for worker, rank in enumerate(ranks)}
    lists: dict[str, list[ReportedGroup]] = defaultdict(list)
    for group in stated:
        lists[group.ranks].append(group)
    found: dict[frozenset[int], tuple[Ranks, str]] = {}
    ambiguous = set()
    for text, every in lists.items():
        listed = ranks_in(text)
        key = frozenset(place.get(rank, -1) for rank in listed.listed)
        if listed.cut or -1 in key or len(key) != len(listed.listed):
            continue
        mine = [group.worker for group in every if group.worker in key]
        if key in found or len(mine) != len(key) or set(mine) != key:
            ambiguous.add(key)
        found[key] = (listed, every[0].description or every[0].name)
    return {key: group for key, group in found.items() if key not in ambiguous}
