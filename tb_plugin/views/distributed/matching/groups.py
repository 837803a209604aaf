"""Which calls of different workers are of one group, and of one kind, where some workers say less of them than others."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tb_plugin.lib.groupby import codes, group_sorted

Int64 = npt.NDArray[np.int64]

END = "…"
"""Begins a group's name of which only the end is known."""
_CUT = "..."
"""Stands in a list of ranks for those that a recorder left out; the last one follows."""


@dataclass(frozen=True)
class Ranks:
    """Ranks of a group as a text lists them; of a list that was cut those before the gap, and the last."""

    listed: tuple[int, ...]
    cut: bool = False

    def holds(self, other: Ranks, size: int) -> bool:
        """Returns whether this whole list may be the other one, which was cut; ``size`` is what it had, -1 = not known."""
        begin, same_size = len(other.listed) - 1, size < 0 or size == len(self.listed)
        return (
            same_size
            and len(self.listed) > begin >= 0
            and self.listed[:begin] == other.listed[:begin]
            and self.listed[-1] == other.listed[-1]
        )


NO_RANKS = Ranks(())


def ranks_in(text: str) -> Ranks:
    """Returns the ranks that a text lists: ``[0, 1]``, ``[0, 1, ..., 63]``, or a map whose keys are the ranks."""
    pattern = r"(\d{1,9})['\"]?\s*:" if text.startswith("{") else r"\d{1,9}"
    return Ranks(tuple(map(int, re.findall(pattern, text))), _CUT in text)


@dataclass(frozen=True)
class ReportedGroup:
    """A group as a worker's list of its groups has it."""

    worker: int
    name: str
    ranks: str
    description: str


@dataclass(frozen=True, eq=False)
class GroupColumns:
    """What n calls say of their groups: positions in lists of distinct texts."""

    worker: Int64
    group: Int64
    names: Sequence[str]
    ranks: Int64
    listed: Sequence[str]
    size: Int64
    """-1 = not known."""

    @cached_property
    def distinct(self) -> tuple[list[tuple[int, int, int, int]], Int64]:
        """Returns each combination of worker, name, ranks and size once, and which one each call has."""
        group = _whole(self.names)[self.group]
        groups = group_sorted(self.worker, group, self.ranks, self.size + 1)
        columns = (column[groups.first].tolist() for column in (self.worker, group, self.ranks, self.size))
        return list(zip(*columns, strict=True)), groups.of


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of calls."""

    code: Int64
    """The group of each call."""
    ranks: Sequence[Ranks]
    """What is known of the ranks of each code."""


def groups_of(calls: GroupColumns, stated: Sequence[ReportedGroup] = ()) -> Groups:
    """Returns which group each call is of: the same code for calls of one group.

    Names are often numbers that each worker gives on its own: groups of one name and other ranks are others. Where no worker
    has two groups of the same ranks (and description), these are one group, whatever they are called; where one has, names
    tell them apart. A call that states no ranks, or a list that was cut, has those that its worker states elsewhere for the
    name, else those that all workers state for it if these are the same. A name of which only the end is known is that of the
    one group which ends so.
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
        told = all(descriptions[i] for i in members)
        names: dict[tuple[str, int], set[int]] = defaultdict(set)
        for i in members:
            names[descriptions[i] if told else "", every[i][0]].add(every[i][1])
        ambiguous = {text for (text, _), mine in names.items() if len(mine) > 1}
        for i in members:
            text = descriptions[i] if told else ""
            named = not key.listed or text in ambiguous
            code[i] = found.setdefault((key, "" if named else text, every[i][1] if named else -1), len(found))
    known = {number: key for (key, _, _), number in found.items()}
    return Groups(code[which], [_plain(known[number]) for number in range(len(found))])


def _plain(ranks: Ranks) -> Ranks:
    """What is known of ranks, without the mark that tells lists cut alike apart."""
    return Ranks(tuple(rank for rank in ranks.listed if rank >= 0), ranks.cut)


def _ranks(
    every: Sequence[tuple[int, int, int, int]], calls: GroupColumns, stated: Sequence[ReportedGroup]
) -> list[Ranks]:
    """For each combination the ranks of its group, as far as they are known."""
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


def _whole(names: Sequence[str]) -> Int64:
    """For each name the place of the one that it is the end of, else its own."""
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


def kind_codes(worker: Int64, group: Int64, name: Int64, dtype: Int64, elements: Int64) -> Int64:
    """Returns a code for each call that is the same for calls of one kind: of one name, type and number of elements.

    Where a worker knows the size of none of its calls of a name in a group, and another one knows some, the name is all.
    """
    both = codes(group, name)
    mine = codes(both, worker)
    knows = np.zeros(int(mine.max(initial=-1)) + 1, np.bool_)
    knows[mine[elements >= 0]] = True
    some, none = (np.zeros(int(both.max(initial=-1)) + 1, np.bool_) for _ in range(2))
    some[both[knows[mine]]] = True
    none[both[~knows[mine]]] = True
    vague = (some & none)[both]
    return codes(name, np.where(vague, 0, dtype), np.where(vague, -2, elements))


def shape_of(ranks: Ranks, size: int | None, world_size: int | None) -> str:
    """Returns which ranks of a job a group has, in words; "" where they follow no rule or are not known."""
    listed, count = ranks.listed, size if size is not None and size > 0 else len(ranks.listed)
    if world_size is not None and count == world_size > 1:
        return "all ranks"
    if len(listed) < 2:
        return "one rank" if count == 1 else ""
    gaps = {after - before for before, after in zip(listed, listed[1:-1] if ranks.cut else listed[1:], strict=False)}
    if len(gaps) != 1 or (step := gaps.pop()) < 1 or (ranks.cut and listed[-1] != listed[0] + step * (count - 1)):
        return ""
    return f"{count} neighbouring ranks" if step == 1 else f"{count} ranks, every {_ordinal(step)}"


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def dimensions_of(description: str, patterns: Sequence[tuple[str, str]]) -> str:
    """Returns what a group divides by its description (tensor, pipeline, data, ...); "" where it says nothing of it."""
    return " + ".join(word for word, pattern in patterns if re.search(pattern, description))


def rows_with_shapes(rows: Sequence[Mapping[str, object]], world_size: int | None) -> list[dict[str, object]]:
    """Returns rows of groups with which ranks they have, in words."""
    return [
        {
            **row,
            "group_shape": shape_of(ranks_in(str(row["group_ranks"])), _whole_number(row["group_size"]), world_size),
        }
        for row in rows
    ]


def _whole_number(value: object) -> int | None:
    return value if isinstance(value, int) else None
