"""Pipeline stages of ranks, and their times.

Profiles may report the stages, or the pipeline position of each rank. Otherwise the stages are inferred from
communication. Two ranks that exchange point-to-point messages are in different stages. Ranks in any other common
group are in the same stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.model.trace.job_tables import GROUPS, LINKS, OPERATIONS, STEP_TIMES, job_table

Stage = tuple[int, ...]
P2P, STAGE = "p2p", "stage"
TIMES = (
    "computing_ns", "exposed_ns", "overlapped_ns", "communication_ns", "free_ns", "stage_ns", "bubble_ns",
    "exposed_without_receive_ns", "preparing_ns",
)  # fmt: skip


def stages_of(tables: Mapping[str, pa.Table]) -> tuple[Stage, ...]:
    """Returns the stages in pipeline order, or sorted by first rank if that order is unknown.

    Empty if stages are unknown.
    """
    every = {name: tables.get(name, job_table(name, {})) for name in (STEP_TIMES, GROUPS, LINKS, OPERATIONS)}
    times, groups = every[STEP_TIMES], every[GROUPS]
    kinds = zip(groups["kind"].to_pylist(), groups["ranks"].to_pylist(), strict=True)
    stated = [*times["stage_ranks"].to_pylist(), *(ranks for kind, ranks in kinds if kind == STAGE)]
    if listed := {ranks_in(text) for text in stated if text}:
        return tuple(sorted(listed))
    if found := _by_index(times):
        return tuple(found)
    return connected_stages(_messages(every), _other_groups(every), _ranks(times))


def connected_stages(
    messages: Iterable[Sequence[int]], groups: Iterable[Sequence[int]], ranks: Iterable[int] = ()
) -> tuple[Stage, ...]:
    """Infers the stages from point-to-point messages and from the groups of other communication.

    Empty without messages. Also empty if two ranks of a group exchange messages, because such messages do not
    belong to a pipeline.
    """
    chains, stages = _Sets(), _Sets()
    for each in messages:
        chains.join(each)
    if not chains:
        return ()
    for rank in (*ranks, *chains.members()):
        stages.join((rank,))
    for each in groups:
        ends = [chains.of(rank) for rank in each if rank in chains]
        if len(set(ends)) == len(ends):  # no two of them are of one chain
            stages.join(each)
    found = stages.sets()
    for stage in found:
        ends = [chains.of(rank) for rank in stage if rank in chains]
        if len(set(ends)) < len(ends):
            return ()
    return tuple(found)


def stage_rows(times: pa.Table, stages: Sequence[Stage]) -> pa.Table:
    """Returns one row per stage and step. Each time is the maximum over the ranks of the stage."""
    ranks = times.filter(pc.is_valid(times["rank"]))
    place = {rank: number for number, stage in enumerate(stages) for rank in stage}
    number = pa.array([place.get(rank) for rank in ranks["rank"].to_pylist()], pa.int64())
    within = ranks.append_column("stage", number).filter(pc.is_valid(number))
    largest = within.group_by(["stage", "step"], use_threads=False).aggregate([(key, "max") for key in TIMES])
    largest = largest.sort_by("stage")
    columns = {key: largest[f"{key}_max"].combine_chunks() for key in TIMES}
    texts = [ranks_text(stages[number]) for number in largest["stage"].to_pylist()]
    return job_table(STEP_TIMES, {**columns, "stage_ranks": texts, "step": largest["step"].combine_chunks()})


def ranks_in(text: str) -> Stage:
    """Parses a list of ranks such as ``0, 1, 2``."""
    # Python refuses to parse thousands of digits, and no rank has more than nine.
    return tuple(int(each) for each in text.split(",") if each.strip().isdecimal() and len(each.strip()) < 10)


def ranks_text(ranks: Sequence[int]) -> str:
    """Formats a list of ranks, such as ``0, 1, 2``."""
    return ", ".join(map(str, ranks))


def _by_index(times: pa.Table) -> list[Stage]:
    """Stages from the pipeline positions in the profile; empty if the position of any rank is missing."""
    rows = zip(times["rank"].to_pylist(), times["pp_index"].to_pylist(), strict=True)
    index = {rank: place for rank, place in rows if rank is not None}
    if None in index.values() or len(set(index.values())) < 2:
        return []
    return [tuple(sorted(r for r, at in index.items() if at == place)) for place in sorted(set(index.values()))]


def _ranks(times: pa.Table) -> list[int]:
    found: list[int] = pc.unique(times["rank"].drop_null()).to_pylist()
    return found


def _messages(tables: Mapping[str, pa.Table]) -> list[Stage]:
    """Sets of ranks that exchange messages: the ends of links, or else the members of groups."""
    links = tables[LINKS]
    known = pc.and_(pc.equal(links["kind"], P2P), pc.not_equal(links["source"], links["destination"]))
    known = pc.and_(known, pc.invert(pc.fill_null(links["in_group"], True)))
    ends = links.filter(pc.fill_null(known, False)).select(["source", "destination"])
    pairs = ends.group_by(["source", "destination"], use_threads=False).aggregate([]).to_pylist()
    if pairs:
        return [(pair["source"], pair["destination"]) for pair in pairs]
    return _members(tables, of_messages=True)


def _other_groups(tables: Mapping[str, pa.Table]) -> list[Stage]:
    return _members(tables, of_messages=False)


def _members(tables: Mapping[str, pa.Table], *, of_messages: bool) -> list[Stage]:
    """Ranks of each group that exchanges messages, or of each other group if ``of_messages`` is false."""
    calls = tables[OPERATIONS]
    used = set(calls.filter(pc.equal(calls["kind"], P2P))["group"].drop_null().to_pylist())
    rows = zip(*(tables[GROUPS][key].to_pylist() for key in ("group", "kind", "ranks")), strict=True)
    return [
        ranks_in(ranks)
        for group, kind, ranks in rows
        if ranks and kind != STAGE and (kind == P2P or (group is not None and group in used)) is of_messages
    ]


class _Sets:
    """Disjoint sets of ranks (union-find)."""

    def __init__(self) -> None:
        self._parent: dict[int, int] = {}

    def __contains__(self, rank: int) -> bool:
        return rank in self._parent

    def __bool__(self) -> bool:
        return bool(self._parent)

    def of(self, rank: int) -> int:
        """Returns the rank that represents the set of a rank."""
        while self._parent[rank] != rank:
            self._parent[rank] = self._parent[self._parent[rank]]
            rank = self._parent[rank]
        return rank

    def join(self, ranks: Sequence[int]) -> None:
        for rank in ranks:
            self._parent.setdefault(rank, rank)
        for rank in ranks[1:]:
            first, other = sorted((self.of(ranks[0]), self.of(rank)))
            self._parent[other] = first

    def members(self) -> list[int]:
        return list(self._parent)

    def sets(self) -> list[Stage]:
        found: dict[int, list[int]] = {}
        for rank in sorted(self._parent):
            found.setdefault(self.of(rank), []).append(rank)
        return [tuple(ranks) for ranks in found.values()]
