"""Which calls of different workers are the same collective."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from tb_plugin.analyses.distributed.calls import Call
from tb_plugin.analyses.distributed.names import POINT_TO_POINT

_LONGEST_ALIGNED = 2000
"""Blocks without a common beginning and end that are longer are matched by counting: alignment is quadratic."""
_UNEVEN = frozenset({"all_to_all", "all_to_allv", "gather", "scatter"})
"""Collectives in which workers may give and take different numbers of elements."""


@dataclass(frozen=True)
class Place:
    """A call: position of the worker, position of the call in it."""

    worker: int
    call: int


@dataclass(frozen=True)
class Match:
    """Calls of at least two workers that are one collective. ``complete``: every worker that takes part has it."""

    places: tuple[Place, ...]
    transfer_ns: int
    """Duration on the worker that arrived last: it waits for nobody."""
    last: int
    """The worker whose call is shortest, which arrived last."""
    complete: bool


def match(workers: Sequence[Sequence[Call]]) -> list[Match]:
    """All collectives that at least two workers have.

    By process group and sequence number where every call of the group has one, else by aligning the sequences of
    (collective, dtype, elements) inside each step, so that one missing call shifts nothing.
    """
    sequences: dict[Hashable, list[list[int]]] = defaultdict(lambda: [[] for _ in workers])
    for w, calls in enumerate(workers):
        for i, call in enumerate(calls):
            if call.collective not in POINT_TO_POINT or len(workers) == 2 or call.sequence >= 0:
                sequences[call.group, call.ranks][w].append(i)
    rows: list[list[Place]] = []
    for group in sequences.values():
        numbered = all(workers[w][i].sequence >= 0 for w, calls in enumerate(group) for i in calls)
        rows += _by_number(workers, group) if numbered else _by_order(workers, group)
    taking_part = {key: {w for w, calls in enumerate(group) if calls} for key, group in sequences.items()}
    matches = []
    for row in rows:
        if len(row) > 1:
            first = workers[row[0].worker][row[0].call]
            complete = {place.worker for place in row} == taking_part[first.group, first.ranks]
            matches.append(_timed(workers, row, complete))
    return _estimated(workers, matches)


def _timed(workers: Sequence[Sequence[Call]], row: list[Place], complete: bool) -> Match:
    durations = {place.worker: workers[place.worker][place.call].dur_ns for place in row}
    last = min(durations, key=lambda worker: durations[worker])
    return Match(tuple(row), durations[last], last, complete)


def _estimated(workers: Sequence[Sequence[Call]], matches: list[Match]) -> list[Match]:
    """Where a worker's call is missing it may be the last that arrived: no longer than the same transfer elsewhere."""
    known: dict[Hashable, list[int]] = defaultdict(list)
    for found in matches:
        if found.complete:
            known[_signature(workers, found)].append(found.transfer_ns)
    typical = {key: sorted(times)[len(times) // 2] for key, times in known.items()}
    return [
        found
        if found.complete or found.transfer_ns <= (most := typical.get(_signature(workers, found), found.transfer_ns))
        else Match(found.places, most, found.last, False)
        for found in matches
    ]


def _signature(workers: Sequence[Sequence[Call]], found: Match) -> Hashable:
    call = workers[found.places[0].worker][found.places[0].call]
    return (call.group, call.ranks, *_kind(call))


def _kind(call: Call) -> tuple[str, str, int]:
    name = "send_recv" if call.collective in POINT_TO_POINT else call.collective
    return (name, call.dtype, -1 if name in _UNEVEN else call.elements)


def _by_number(workers: Sequence[Sequence[Call]], group: list[list[int]]) -> list[list[Place]]:
    rows: dict[Hashable, list[Place]] = defaultdict(list)
    for w, calls in enumerate(group):
        seen: Counter[Hashable] = Counter()
        for i in calls:
            call = workers[w][i]
            key = (call.sequence, _kind(call)[0])
            rows[*key, seen[key]].append(Place(w, i))
            seen[key] += 1
    return list(rows.values())


def _by_order(workers: Sequence[Sequence[Call]], group: list[list[int]]) -> list[list[Place]]:
    """Block by block, a block being a step: a call that is missing in one step cannot shift the next."""
    blocks: dict[str | None, list[list[Place]]] = {}
    for w, calls in enumerate(group):
        for i in calls:
            step = workers[w][i].step
            blocks.setdefault(step, [[] for _ in workers])[w].append(Place(w, i))
    return [row for block in blocks.values() for row in _aligned(workers, block)]


def _aligned(workers: Sequence[Sequence[Call]], block: list[list[Place]]) -> list[list[Place]]:
    """Rows in the common order; each worker in turn is aligned with what the ones before it have."""
    rows: list[list[Place]] = []
    kinds: list[Hashable] = []
    for places in block:
        mine: list[Hashable] = [_kind(workers[place.worker][place.call]) for place in places]
        partner = _partners(kinds, mine)
        merged_rows: list[list[Place]] = []
        merged_kinds: list[Hashable] = []
        at = 0
        for place, kind, row in zip(places, mine, partner, strict=True):
            if row is None:
                merged_rows.append([place])
            else:
                if row >= at:
                    merged_rows += rows[at:row]
                    merged_kinds += kinds[at:row]
                    at = row + 1
                    merged_rows.append(rows[row])
                else:  # matched across another: the row stands already
                    rows[row].append(place)
                    continue
                rows[row].append(place)
            merged_kinds.append(kind)
        rows, kinds = merged_rows + rows[at:], merged_kinds + kinds[at:]
    return rows


def _partners(common: list[Hashable], mine: list[Hashable]) -> list[int | None]:
    """For each of mine its position in ``common``, or None. What alignment leaves over is matched by counting."""
    partner: list[int | None] = [None] * len(mine)
    shortest = min(len(common), len(mine))
    head = next((i for i in range(shortest) if common[i] != mine[i]), shortest)
    left = shortest - head
    tail = next((i for i in range(left) if common[-1 - i] != mine[-1 - i]), left)
    for i in range(head):
        partner[i] = i
    for i in range(tail):
        partner[len(mine) - 1 - i] = len(common) - 1 - i
    ours, theirs = mine[head : len(mine) - tail], common[head : len(common) - tail]
    if 0 < len(ours) <= _LONGEST_ALIGNED and 0 < len(theirs) <= _LONGEST_ALIGNED:
        for found in SequenceMatcher(None, theirs, ours, autojunk=False).get_matching_blocks():
            for i in range(found.size):
                partner[head + found.b + i] = head + found.a + i
    taken = {position for position in partner if position is not None}
    free: dict[Hashable, list[int]] = defaultdict(list)
    for position in range(len(common) - 1, -1, -1):
        if position not in taken:
            free[common[position]].append(position)
    for i, kind in enumerate(mine):
        if partner[i] is None and free[kind]:
            partner[i] = free[kind].pop()
    return partner
