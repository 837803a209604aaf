"""Nodes of the workers, and the workers' positions in process groups."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

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
    ranks = worker_ranks(data)
    node = {str(row["worker"]): str(row["node"]) for row in data.devices if row["node"]}
    nodes: dict[str, list[int]] = defaultdict(list)
    for at, name in enumerate(data.names):
        if name in node:
            nodes[node[name]].append(at)
    found = [_grouping(data, "node", "Node", [*nodes.items()])] if len(nodes) > 1 else []
    for number, (title, every) in enumerate(sorted(_kinds(data), key=_stride)[:MAX_KINDS]):
        groups = [(ranks_short(group), [ranks.get(rank, -1) for rank in group]) for group in every]
        groups = [(name, workers) for name, workers in groups if max(workers) >= 0]
        if len(groups) > 1 and len(groups) * max(len(workers) for _, workers in groups) <= MOST_CELLS:
            found.append(_grouping(data, f"group{number}", title, groups))
    return found


def _grouping(data: JobData, key: str, title: str, groups: Sequence[tuple[str, list[int]]]) -> Grouping:
    """Returns a grouping. ``groups`` has names and the workers in order of their places; -1 = not loaded."""
    group_of, place = [-1] * len(data.names), [-1] * len(data.names)
    for number, (_, workers) in enumerate(groups):
        for position, worker in enumerate(workers):
            if worker >= 0:
                group_of[worker], place[worker] = number, position
    return Grouping(key, title, [name for name, _ in groups], group_of, place)


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


def _kinds(data: JobData) -> Iterator[tuple[str, list[tuple[int, ...]]]]:
    """Yields title and groups of each kind. The groups of a kind have the same description, or the same size if
    descriptions are missing.

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
            taken, groups = next((each for each in partitions if each[0].isdisjoint(group)), (set(), []))
            if not groups:
                partitions.append((taken, groups))
            taken.update(group)
            groups.append(group)
        for number, (_, groups) in enumerate(partitions):
            yield title if number == 0 else f"{title} ({number + 1})", groups


def _stride(kind: tuple[str, list[tuple[int, ...]]]) -> tuple[int, str]:
    return min(max(group[1] - group[0], 1) for group in kind[1]), kind[0]
