"""Process groups whose ranks store equal memory contents, such as model replicas.

Shards may have equal sizes, too. In contrast to shards, replicas all-reduce as many bytes per step as their
gradients have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow.compute as pc

from tb_plugin.analysis.base import Part
from tb_plugin.analysis.replicas import METRICS, Repeated, counts_of, replicated_states, replication_notice
from tb_plugin.payloads import Notice

# accepted ratio of all-reduced bytes per step to gradient bytes: allocators round, and losses or norms are reduced too
REDUCED_OVER_GRADIENTS = (0.9, 1.1)


class _Replicas(msgspec.Struct, frozen=True):
    ranks: str
    """Ranks that the calls report; empty if they report none."""
    repeated: Repeated
    all_reduced: int


def redundancy_notices(parts: Sequence[Part]) -> list[Notice]:
    """Returns a notice about the group with the most repeated bytes. Without memory data, the result is empty."""
    reduced: dict[tuple[str | None, str | None], list[tuple[Part, int]]] = {}
    sizes: dict[tuple[str | None, str | None], object] = {}
    for part in parts:
        for row in _all_reduced(part):
            key = (row["group"], row["group_ranks"])
            sizes[key] = row["group_size_max"] or part.facts.get("distributed.world_size")
            reduced.setdefault(key, []).append((part, row["comm_bytes_sum"] // part.frames["steps"].data.num_rows))
    found = []
    for key, members in reduced.items():
        alike = replicated_states([counts_of(part) for part, _ in members])
        if alike is None or sizes[key] != len(members):
            continue
        low, high = (share * alike.alike["gradient"] for share in REDUCED_OVER_GRADIENTS)
        if low and all(low <= amount <= high for _, amount in members):
            found.append(_Replicas(key[1] or "", alike, max(amount for _, amount in members)))
    return [_notice(found)] if found else []


def _all_reduced(part: Part) -> list[dict[str, Any]]:
    """Returns the bytes that a rank all-reduces within steps, by process group."""
    if not part.frames["steps"].data.num_rows or not counts_of(part):
        return []
    calls = part.frames["collectives"].data
    chosen = pc.and_(pc.equal(calls["collective"], "all_reduce"), pc.is_valid(calls["step"]))
    sums = calls.filter(chosen).group_by(["group", "group_ranks"])
    rows: list[dict[str, Any]] = sums.aggregate([("comm_bytes", "sum"), ("group_size", "max")]).to_pylist()
    return [row for row in rows if row["comm_bytes_sum"]]


def _notice(found: Sequence[_Replicas]) -> Notice:
    most = max(found, key=lambda one: one.repeated.bytes)
    who = "Each of the ranks {group_ranks}" if most.ranks else "Each of {workers} ranks"
    text = (
        f"{who} has {most.repeated.sentence} in blocks of equal size and all-reduces {{all_reduced_bytes}} per step, like "
        "replicas of one model. Memory allocated before the trace is not counted."
    )
    figures = [METRICS.figure("all_reduced_bytes", most.all_reduced)]
    if most.ranks:
        figures.append(METRICS.figure("group_ranks", most.ranks))
    if others := len(found) - 1:
        text += (
            " {replica_groups} more process groups have the same pattern."
            if others > 1
            else " One more process group has the same pattern."
        )
        figures.append(METRICS.figure("replica_groups", others))
    return replication_notice(most.repeated, text, figures)
