"""Process groups and kinds of calls from incomplete reports."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np

from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import codes, group_sorted

# prefix of a truncated group name, before its end
END = "…"
# replaces omitted ranks in a truncated list; the last rank follows
_CUT = "..."


class Ranks(msgspec.Struct, frozen=True):
    """Ranks of a group. If ``cut`` is set, the list is truncated: ranks before the last rank are missing."""

    listed: tuple[int, ...]
    cut: bool = False

    def holds(self, other: Ranks, size: int) -> bool:
        """Returns whether this complete list of ranks agrees with the truncated list ``other``.

        ``size`` is the number of ranks in the group of the truncated list (-1 = unknown).
        """
        begin, same_size = len(other.listed) - 1, size < 0 or size == len(self.listed)
        return (
            same_size
            and len(self.listed) > begin >= 0
            and self.listed[:begin] == other.listed[:begin]
            and self.listed[-1] == other.listed[-1]
        )


NO_RANKS = Ranks(())


def ranks_in(text: str) -> Ranks:
    """Parses a list of ranks such as ``[0, 1]`` or ``[0, 1, ..., 63]``, or a map whose keys are ranks."""
    pattern = r"(\d{1,9})['\"]?\s*:" if text.startswith("{") else r"\d{1,9}"
    return Ranks(tuple(map(int, re.findall(pattern, text))), _CUT in text)


class ReportedGroup(msgspec.Struct, frozen=True):
    """A process group that a worker reports."""

    worker: int
    name: str
    ranks: str
    description: str


class GroupColumns(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Group columns of calls: one row per call.

    ``group`` is an index into ``names``, and ``ranks`` is an index into ``listed``.
    """

    worker: Int64
    group: Int64
    names: Sequence[str]
    ranks: Int64
    listed: Sequence[str]
    size: Int64
    """Number of ranks in the group; -1 = unknown."""

    @cached_property
    def distinct(self) -> tuple[list[tuple[int, int, int, int]], Int64]:
        """Returns the distinct tuples (worker, name, ranks, size), and for each call the index of its tuple."""
        group = _full_names(self.names)[self.group]
        groups = group_sorted(self.worker, group, self.ranks, self.size + 1)
        columns = (column[groups.first].tolist() for column in (self.worker, group, self.ranks, self.size))
        return list(zip(*columns, strict=True)), groups.of


class Groups(msgspec.Struct, frozen=True, eq=False):
    code: Int64
    """Code of each call's group: an index into ``ranks``."""
    ranks: Sequence[Ranks]


def groups_of(calls: GroupColumns, stated: Sequence[ReportedGroup] = ()) -> Groups:
    """Returns a group code for each call.

    Workers may number groups independently, so groups with the same name may have different ranks. Groups with
    equal ranks and description are one group. If a worker has two such groups, names are compared too. Missing or
    truncated ranks come from other calls of the same worker, otherwise from all workers if these agree. A truncated
    name is replaced by the only full name with the same ending.
    """
    every, which = calls.distinct
    ranks = _ranks(every, calls, stated)
    described = {(group.worker, group.name): group.description for group in stated}
    descriptions = [described.get((worker, calls.names[name]), "") for worker, name, _, _ in every]
    of_ranks: dict[Ranks, list[int]] = defaultdict(list)
    for i, key in enumerate(ranks):
        of_ranks[key].append(i)
    found: dict[tuple[Ranks, str, int], int] = {}
    code = np.empty(len(every), np.int64)
    for key, members in of_ranks.items():
        all_described = all(descriptions[i] for i in members)
        names: dict[tuple[str, int], set[int]] = defaultdict(set)
        for i in members:
            names[descriptions[i] if all_described else "", every[i][0]].add(every[i][1])
        ambiguous = {text for (text, _), mine in names.items() if len(mine) > 1}
        for i in members:
            text = descriptions[i] if all_described else ""
            by_name = not key.listed or text in ambiguous
            code[i] = found.setdefault((key, "" if by_name else text, every[i][1] if by_name else -1), len(found))
    known = {number: key for (key, _, _), number in found.items()}
    return Groups(code[which], [_plain(known[number]) for number in range(len(found))])


def groups_of_callers(
    groups: Groups,
    worker: Int64,
    kind: Int64,
    blank: Int64,
    ranks: Sequence[int | None],
    stated: Sequence[ReportedGroup],
) -> tuple[Groups, dict[int, str]]:
    """Replaces the group of calls that report none, if exactly the ranks of one listed group have calls of this kind.

    ``blank`` contains the rows of these calls, and ``ranks`` the rank of each worker. All ranks must be loaded. The
    second result has the names of the added groups.
    """
    place = {rank: at for at, rank in enumerate(ranks)}
    listed: dict[frozenset[int], list[tuple[Ranks, str]]] = defaultdict(list)
    for text, name in dict.fromkeys((each.ranks, each.description or each.name) for each in stated):
        members = ranks_in(text)
        if members.listed and not members.cut and len(members.listed) < len(ranks):
            listed[frozenset(place.get(rank, -1) for rank in members.listed)].append((members, name))
    code, every, names, callers = (
        groups.code.copy(),
        list(groups.ranks),
        dict[int, str](),
        defaultdict[int, list[int]](list),
    )
    pairs = np.unique(codes(kind[blank], worker[blank]), return_index=True)[1]
    for row in blank[pairs].tolist() if listed else []:
        callers[int(kind[row])].append(int(worker[row]))
    for each, workers in callers.items():
        found = listed.get(frozenset(workers), [])
        if len(found) == 1:
            code[blank[kind[blank] == each]] = len(every)
            names[len(every)] = found[0][1]
            every.append(found[0][0])
    return Groups(code, every), names


def _plain(ranks: Ranks) -> Ranks:
    """Returns the ranks without the negative number with which ``_ranks`` marks truncated lists."""
    return Ranks(tuple(rank for rank in ranks.listed if rank >= 0), ranks.cut)


def _ranks(
    every: Sequence[tuple[int, int, int, int]], calls: GroupColumns, stated: Sequence[ReportedGroup]
) -> list[Ranks]:
    parsed = [ranks_in(text) for text in calls.listed]
    mine: dict[tuple[int, str], set[Ranks]] = defaultdict(set)
    anyone: dict[str, set[Ranks]] = defaultdict(set)
    for worker, name, ranks, _ in every:
        if parsed[ranks].listed and not parsed[ranks].cut:
            mine[worker, calls.names[name]].add(parsed[ranks])
            anyone[calls.names[name]].add(parsed[ranks])
    texts = {text: ranks_in(text) for text in {group.ranks for group in stated}}
    for group in stated:
        if (whole := texts[group.ranks]).listed and not whole.cut:
            mine[group.worker, group.name].add(whole)
    known: set[Ranks] = set().union(*mine.values())
    by_end: dict[int, list[Ranks]] = defaultdict(list)
    for each in known:
        by_end[each.listed[-1]].append(each)
    found: list[Ranks] = []
    for worker, name, ranks, size in every:
        key, own = parsed[ranks], mine.get((worker, calls.names[name]), set())
        if key.cut:
            for candidates in (own, by_end.get(key.listed[-1] if key.listed else -1, ())):
                fitting = [each for each in candidates if each.holds(key, size)]
                if len(fitting) == 1:
                    key = fitting[0]
                    break
            else:
                key = Ranks((*key.listed, -1 - size), True)
        elif not key.listed:
            candidates = own or anyone.get(calls.names[name], set())
            key = next(iter(candidates)) if len(candidates) == 1 else NO_RANKS
        found.append(key)
    return found


def _full_names(names: Sequence[str]) -> Int64:
    """Returns the index of the full name for each truncated name.

    If several full names or no full name fits, the index does not change.
    """
    found = np.arange(len(names))
    ends = {place: name[len(END) :] for place, name in enumerate(names) if name.startswith(END)}
    for length in {len(end) for end in ends.values() if end}:
        alike: dict[str, list[int]] = defaultdict(list)
        for place, name in enumerate(names):
            if place not in ends:
                alike[name[-length:]].append(place)
        for place, end in ends.items():
            if len(end) == length and len(alike[end]) == 1:
                found[place] = alike[end][0]
    return found


def shape_of(ranks: Ranks, size: int | None, world_size: int | None) -> str:
    """Returns a phrase for the ranks of a group, such as "8 neighbouring ranks".

    The phrase is empty if the ranks are unknown or irregular.
    """
    listed, count = ranks.listed, size if size is not None and size > 0 else len(ranks.listed)
    if world_size is not None and count == world_size > 1:
        return "all ranks"
    if len(listed) < 2:
        return "one rank" if count == 1 else ""
    gaps = {after - before for before, after in zip(listed, listed[1:-1] if ranks.cut else listed[1:], strict=False)}
    if len(gaps) != 1 or (step := gaps.pop()) < 1 or (ranks.cut and listed[-1] != listed[0] + step * (count - 1)):
        return ""
    return f"{count} neighboring ranks" if step == 1 else f"{count} ranks, every {_ordinal(step)}"


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def dimensions_of(description: str, patterns: Sequence[tuple[str, str]]) -> str:
    """Returns the kinds of parallelism that a group description contains, such as "tensor + data", or ""."""
    return " + ".join(word for word, pattern in patterns if re.search(pattern, description))


def rows_with_shapes(rows: Sequence[Mapping[str, object]], world_size: int | None) -> list[dict[str, object]]:
    """Adds the column ``group_shape`` to rows that describe groups."""
    return [
        {
            **row,
            "group_shape": shape_of(ranks_in(str(row["group_ranks"])), _whole_number(row["group_size"]), world_size),
        }
        for row in rows
    ]


def _whole_number(value: object) -> int | None:
    return value if isinstance(value, int) else None
