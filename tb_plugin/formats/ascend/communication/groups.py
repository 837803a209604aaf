"""Process groups: number in the communication library, name and ranks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from tb_plugin.model.trace.job_tables import GROUPS, job_table

_PRIMES = (29, 131)
_BITS = 32
_RANKS = re.compile(r"[0-9]{1,9}")
MOST_RANKS = 1_000_000  # members of a group, and largest rank


class Group(msgspec.Struct, frozen=True):
    group: str  # number in the communication library
    name: str = ""  # the program's name: dp, tp, pp, ...
    library_name: str = ""
    own: int | None = None  # index of this rank in the group
    ranks: tuple[int, ...] = ()  # job ranks by index in the group; empty if unknown

    def rank_at(self, place: int, rank: int | None) -> int | None:
        """Returns the job rank at an index of the group, or None if unknown. ``rank`` is the rank of this profile."""
        if self.ranks:
            return self.ranks[place] if 0 <= place < len(self.ranks) else None
        return rank if place == self.own else None


def number_of(library_name: str) -> str:
    """Returns the group number (two polynomial hashes of 32 bits) of a name of the communication library."""
    most, parts = (1 << _BITS) - 1, []
    for prime in _PRIMES:
        value = 0
        for byte in library_name.encode():
            value = (value * prime + byte) & most
        parts.append(value)
    return str(parts[0] << _BITS | parts[1])


def reported_groups(info: Any) -> dict[str, Group]:
    """Returns the groups in ``parallel_group_info`` by group number. Skips entries of unexpected type."""
    found = {}
    for library_name, about in info.items() if isinstance(info, dict) else ():
        if not isinstance(about, dict):
            continue
        ranks, own, name = about.get("global_ranks"), about.get("group_rank"), about.get("group_name")
        known = isinstance(ranks, list) and len(ranks) <= MOST_RANKS and all(_is_rank(one) for one in ranks)
        number = number_of(str(library_name))
        found[number] = Group(
            number,
            name if isinstance(name, str) else "",
            str(library_name),
            own if _is_rank(own) else None,
            tuple(ranks) if known and isinstance(ranks, list) else (),
        )
    return found


def with_own_places(groups: Mapping[str, Group], used: Sequence[str], own: Mapping[str, int]) -> dict[str, Group]:
    """Adds groups that only calls or links mention. ``own``: index of this rank in each group."""
    all_groups = dict(groups)
    for number in dict.fromkeys(used):
        all_groups.setdefault(number, Group(number, own=own.get(number)))
    return all_groups


def group_table(groups: Mapping[str, Group], kinds: Mapping[str, str]) -> pa.Table:
    """Returns the table of groups. ``kinds`` maps each group to the kind of its calls."""
    every = list(groups.values())
    return job_table(
        GROUPS,
        {
            "kind": [kinds.get(one.group) for one in every],
            "group": [one.group for one in every],
            "name": [one.name or None for one in every],
            "library_name": [one.library_name or None for one in every],
            "group_rank": [one.own for one in every],
            "ranks": [", ".join(map(str, one.ranks)) or None for one in every],
        },
    )


def rank_of(value: Any) -> int | None:
    """Returns a rank given as a number or text, or None if invalid."""
    text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()
    digits = text.lstrip("0") or "0"
    return int(digits) if text.isascii() and text.isdecimal() and len(digits) < 10 else None


def ranks_text(value: Any) -> str | None:
    """Returns the distinct ranks in a list or in a text such as "(0, 1)", sorted, as "0, 1"; None if there are none."""
    every = value if isinstance(value, list) else _RANKS.findall(value) if isinstance(value, str) else ()
    return ", ".join(map(str, sorted({rank for each in every if (rank := rank_of(each)) is not None}))) or None


def _is_rank(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_RANKS
