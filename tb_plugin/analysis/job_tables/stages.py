"""Pipeline stages of ranks, and their times.

Profiles may report the stages, or the pipeline position of each rank. If neither is reported, the stages are
inferred from communication. Two ranks that exchange point-to-point messages are in different stages. Ranks that are
together in any other communication group are in the same stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.lib.tables import sorted_by
from tb_plugin.model.trace.job_tables import GROUPS, LINKS, OPERATIONS, STEP_TIMES, job_table

Stage = tuple[int, ...]
P2P, STAGE = "p2p", "stage"
TIMES = (
    "computing_ns", "exposed_ns", "overlapped_ns", "communication_ns", "free_ns", "stage_ns", "bubble_ns",
    "exposed_without_receive_ns", "preparing_ns",
)  # fmt: skip


def stages_of(tables: Mapping[str, pa.Table]) -> tuple[Stage, ...]:
    """Returns the stages in pipeline order, or by first rank if the order is unknown. () = the stages are unknown."""
    times, groups, links, calls = (
        tables.get(name, job_table(name, {})) for name in (STEP_TIMES, GROUPS, LINKS, OPERATIONS)
    )
    group_rows = groups.to_pylist()
    stated = [*times["stage_ranks"].to_pylist(), *(row["ranks"] for row in group_rows if row["kind"] == STAGE)]
    if listed := {ranks_in(text) for text in stated if text}:
        return tuple(sorted(listed))
    if found := _by_index(times):
        return tuple(found)
    used = set(calls.filter(pc.equal(calls["kind"], P2P))["group"].drop_null().to_pylist())
    messages, others = _pairs(links), list[Stage]()
    of_messages = list[Stage]()
    for row in group_rows:
        if row["ranks"]:
            (of_messages if row["kind"] == P2P or row["group"] in used else others).append(ranks_in(row["ranks"]))
    return connected_stages(messages or of_messages, others, pc.unique(times["rank"].drop_null()).to_pylist())


def connected_stages(
    messages: Iterable[Sequence[int]], groups: Iterable[Sequence[int]], ranks: Iterable[int] = ()
) -> tuple[Stage, ...]:
    """Infers the stages from point-to-point messages and from the groups of other communication.

    Returns no stages if there are no messages. Also returns none if two ranks of a group exchange messages, because
    such messages do not belong to a pipeline.
    """
    chains, stages = _Sets(), _Sets()
    for each in messages:
        chains.join(each)
    if not chains.parent:
        return ()
    for rank in (*ranks, *chains.parent):
        stages.join((rank,))
    for each in groups:
        if not chains.any_together(each):
            stages.join(each)
    found = stages.sets()
    return () if any(chains.any_together(stage) for stage in found) else tuple(found)


def stage_rows(times: pa.Table, stages: Sequence[Stage]) -> pa.Table:
    """Returns one row per stage and step. The times in a row are the maximum over the ranks of the stage."""
    ranks = times.filter(pc.is_valid(times["rank"]))
    place = {rank: number for number, stage in enumerate(stages) for rank in stage}
    number = pa.array([place.get(rank) for rank in ranks["rank"].to_pylist()], pa.int64())
    within = ranks.append_column("stage", number).filter(pc.is_valid(number))
    largest = within.group_by(["stage", "step"], use_threads=False).aggregate([(key, "max") for key in TIMES])
    largest = sorted_by(largest, [("stage", "ascending")])
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
    """Returns the stages by pipeline positions. The list is empty if the position of any rank is missing."""
    rows = zip(times["rank"].to_pylist(), times["pp_index"].to_pylist(), strict=True)
    index = {rank: place for rank, place in rows if rank is not None}
    if None in index.values() or len(set(index.values())) < 2:
        return []
    return [tuple(sorted(r for r, at in index.items() if at == place)) for place in sorted(set(index.values()))]


def _pairs(links: pa.Table) -> list[Stage]:
    """Returns the two ranks of each link that transfers messages."""
    known = pc.and_(pc.equal(links["kind"], P2P), pc.not_equal(links["source"], links["destination"]))
    known = pc.and_(known, pc.invert(pc.fill_null(links["in_group"], True)))
    ends = links.filter(pc.fill_null(known, False)).group_by(["source", "destination"], use_threads=False)
    return [(pair["source"], pair["destination"]) for pair in ends.aggregate([]).to_pylist()]


class _Sets:
    """Disjoint sets of ranks (union-find)."""

    def __init__(self) -> None:
        self.parent: dict[int, int] = {}

    def of(self, rank: int) -> int:
        """Returns the rank that represents the set of a rank."""
        while self.parent[rank] != rank:
            self.parent[rank] = self.parent[self.parent[rank]]
            rank = self.parent[rank]
        return rank

    def join(self, ranks: Sequence[int]) -> None:
        for rank in ranks:
            self.parent.setdefault(rank, rank)
        for rank in ranks[1:]:
            first, other = sorted((self.of(ranks[0]), self.of(rank)))
            self.parent[other] = first

    def any_together(self, ranks: Sequence[int]) -> bool:
        """Returns whether two of the ranks are in one set."""
        ends = [self.of(rank) for rank in ranks if rank in self.parent]
        return len(set(ends)) < len(ends)

    def sets(self) -> list[Stage]:
        found: dict[int, list[int]] = {}
        for rank in sorted(self.parent):
            found.setdefault(self.of(rank), []).append(rank)
        return [tuple(ranks) for ranks in found.values()]
