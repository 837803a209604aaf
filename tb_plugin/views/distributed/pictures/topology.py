"""Nodes of the workers, and the workers' positions in process groups."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec

from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.payloads import Grouping
from tb_plugin.views.distributed.job_data import JobData
from tb_plugin.views.distributed.matching.groups import ranks_in

# maximum number of group kinds in the menu: jobs have about one per parallelism dimension
MAX_KINDS = 8
# maximum number of groups times group size; more is implausible and too much to draw
MOST_CELLS = 1_000_000
# Python refuses to parse numbers of thousands of digits
_RANK = re.compile(r"rank[ _-]?(\d{1,9})(?!\d)", re.IGNORECASE)


class _Kind(msgspec.Struct, frozen=True):
    """Disjoint groups with the same description."""

    title: str
    groups: list[tuple[int, ...]]


@cached_by_argument
def worker_ranks(data: JobData) -> Mapping[int, int]:
    """Returns the index in ``data.names`` of the worker with each rank.

    If no ranks are recorded, the ranks in the worker names are used, provided that each name contains a rank.
    """
    place = {name: at for at, name in enumerate(data.names)}
    recorded = {place[name]: rank for name, rank in data.reported.ranks.items() if name in place}
    recorded |= {at: rank for at, rank in enumerate(data.ranks) if rank is not None}
    for row in data.devices:
        if (found := _RANK.fullmatch(str(row["process"]))) and row["worker"] in place:
            recorded[place[str(row["worker"])]] = int(found.group(1))
    if not recorded:
        named = [_RANK.search(name) for name in data.names]
        recorded = {at: int(found.group(1)) for at, found in enumerate(named) if found}
        if len(recorded) < len(data.names):
            return {}
    ranks = {rank: at for at, rank in recorded.items()}
    return ranks if len(ranks) == len(recorded) else {}


def rank_nodes(data: JobData) -> dict[int, str]:
    """Returns the node of each rank. Ranks on unknown nodes are omitted."""
    node = {str(row["worker"]): str(row["node"]) for row in data.devices if row["node"]}
    return {rank: node[data.names[at]] for rank, at in worker_ranks(data).items() if data.names[at] in node}


def worker_groupings(data: JobData) -> list[Grouping]:
    """Returns the ways in which the page can group workers.

    If there are several nodes, the first way is by node. The next ways are kinds of process groups, and kinds of
    neighbouring ranks come first.
    """
    found = [node] if (node := _nodes(data)) is not None else []
    ranks = worker_ranks(data)
    for number, kind in enumerate(sorted(_kinds(data), key=_stride)[:MAX_KINDS]):
        group_of, place = [-1] * len(data.names), [-1] * len(data.names)
        groups = [group for group in kind.groups if any(rank in ranks for rank in group)]
        for at, group in enumerate(groups):
            for position, rank in enumerate(group):
                if rank in ranks:
                    group_of[ranks[rank]], place[ranks[rank]] = at, position
        if len(groups) > 1 and len(groups) * max(map(len, groups)) <= MOST_CELLS:
            found.append(
                Grouping(f"group{number}", kind.title, [ranks_short(group) for group in groups], group_of, place)
            )
    return found


def listed_ranks(text: object, size: object) -> tuple[int, ...]:
    """Returns the ranks of a group. If the list of ranks is truncated, the result is empty."""
    found = ranks_in(str(text or ""))
    ranks = found.listed
    whole = not found.cut and (not isinstance(size, int) or len(ranks) == size)
    return ranks if whole and len(set(ranks)) == len(ranks) else ()


def ranks_short(ranks: Sequence[int]) -> str:
    """Returns the ranks as short text, such as ``0-7`` or ``0-56 by 8``. Long irregular lists are truncated."""
    if len(ranks) > 2:
        by = ranks[1] - ranks[0]
        if by > 0 and all(after - before == by for before, after in pairwise(ranks)):
            return f"{ranks[0]}-{ranks[-1]}" + ("" if by == 1 else f" by {by}")
    if len(ranks) > 6:
        return f"{', '.join(map(str, ranks[:4]))}, … ({len(ranks)})"
    return ", ".join(map(str, ranks))


def _nodes(data: JobData) -> Grouping | None:
    node = {str(row["worker"]): str(row["node"]) for row in data.devices if row["node"]}
    number = {each: at for at, each in enumerate(dict.fromkeys(node[name] for name in data.names if name in node))}
    if len(number) < 2:
        return None
    count: dict[str, int] = defaultdict(int)
    of, place = [], []
    for name in data.names:
        mine = node.get(name)
        of.append(-1 if mine is None else number[mine])
        place.append(-1 if mine is None else count[mine])
        count[mine or ""] += 1
    return Grouping("node", "Node", [*number], of, place)


def _kinds(data: JobData) -> Iterator[_Kind]:
    """Yields kinds of groups. The groups of a kind have the same description, or the same size if descriptions are
    missing.

    Overlapping groups are of different kinds.
    """
    listed: dict[str, dict[tuple[int, ...], None]] = defaultdict(dict)
    for row in data.process_groups:
        ranks = listed_ranks(row["group_ranks"], row["group_size"])
        if len(ranks) > 1:
            listed[str(row["group_description"] or f"groups of {len(ranks)}")][ranks] = None
    for title, every in listed.items():
        partitions: list[tuple[set[int], list[tuple[int, ...]]]] = []
        for group in sorted(every):
            fitting = next((each for each in partitions if each[0].isdisjoint(group)), None)
            if fitting is None:
                fitting = set(), []
                partitions.append(fitting)
            taken, groups = fitting
            taken.update(group)
            groups.append(group)
        for number, (_, groups) in enumerate(partitions):
            yield _Kind(title if number == 0 else f"{title} ({number + 1})", groups)


def _stride(kind: _Kind) -> tuple[int, str]:
    return min(max(group[1] - group[0], 1) for group in kind.groups), kind.title
