"""Which calls of different workers are of one group, and of one kind, where some workers say less of them than others."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.distributed.codes import codes

Int64 = npt.NDArray[np.int64]

END = "…"
"""Begins a group's name of which only the end is known."""


def group_codes(group: Int64, names: list[str], ranks: Int64, listed: list[str]) -> Int64:
    """Returns a code for each call that is the same for calls of one group: of one name and of the same ranks.

    ``group`` and ``ranks`` are positions in ``names`` and in ``listed``. A name of which only the end is known is that of the
    one group which ends so; where only some calls of a name state the ranks, and these the same, all have them.
    """
    group = _whole(names)[group]
    stated: dict[int, set[int]] = defaultdict(set)
    for each, of_ranks in set(zip(group.tolist(), ranks.tolist(), strict=True)):
        if listed[of_ranks]:
            stated[each].add(of_ranks)
    only = np.array([min(stated[g]) if len(stated[g]) == 1 else -1 for g in range(len(names))], np.int64)
    empty = np.array([not text for text in listed], np.bool_)
    filled = np.where(empty[ranks] & (only[group] >= 0), only[group], ranks)
    return codes(group, filled)


def _whole(names: list[str]) -> Int64:
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
