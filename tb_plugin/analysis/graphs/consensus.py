"""Consensus of several captures about the nodes of a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.graphs.scopes import ARGS, INPUTS, KINDS, WORK_IN, alike, concatenate
from tb_plugin.model.trace.graph_capture import Scopes
from tb_plugin.model.trace.schema import MISSING, EventKind

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Tied:
    """The scope of each node of some graphs, and the graphs with contradicting captures."""

    scopes: Scopes
    of: Mapping[int, Int32]
    """By graph: the scope of each of its first nodes, -1 = none."""
    disagreeing: Mapping[int, tuple[int, int, int]]
    """By graph: the first contradicting node and its two scopes."""


def tied(sizes: Mapping[int, int], starts: Mapping[int, Int64], scopes: Scopes, scope: Int32) -> Tied:
    """Returns the consensus on each graph; places are positions in ``scope`` where its work starts.

    A single place is used as is. Several must agree about the operators of each node. Then the most specific common part
    counts: names and arguments, else names, else operators and modules without arguments. If they disagree about modules
    (like layers that are captured one by one), only operators with their inputs remain.
    """
    if all(len(at) == 1 for at in starts.values()):
        alone = {graph: scope[int(at[0]) : int(at[0]) + sizes[graph]] for graph, at in starts.items()}
        return Tied(scopes, alone, {})
    operators = (EventKind.OPERATOR,)
    levels = [
        alike(scopes, KINDS, ARGS),
        alike(scopes, KINDS),
        alike(scopes, WORK_IN),
        alike(scopes, operators, INPUTS),
        alike(scopes, operators),
    ]
    offsets = np.cumsum([len(scopes), *(len(level[0]) for level in levels)])
    every = concatenate(scopes, *(level[0] for level in levels))
    of: dict[int, Int32] = {}
    disagreeing: dict[int, tuple[int, int, int]] = {}
    # Cache: graphs with equal places have equal results.
    known: dict[tuple[int, bytes], Int32 | tuple[int, int, int]] = {}
    for graph, at in starts.items():
        key = sizes[graph], at.tobytes()
        if key not in known:
            known[key] = _agreed(scope, at, key[0], [level[1] for level in levels], offsets)
        result = known[key]
        if isinstance(result, tuple):
            disagreeing[graph] = result
        else:
            of[graph] = result
    return Tied(every, of, disagreeing)


def _agreed(
    scope: Int32, starts: Int64, size: int, levels: Sequence[Int32], offsets: Int64
) -> Int32 | tuple[int, int, int]:
    """The scope of each node as far as all places agree, or the first contradicting node and two of its scopes."""
    first = scope[int(starts[0]) : int(starts[0]) + size]
    if len(starts) == 1:
        return first
    agree = np.ones((len(levels), size), np.bool_)
    for start in starts[1:].tolist():
        other = scope[start : start + size]
        for number, place in enumerate(levels):
            agree[number] &= place[first] == place[other]
        if not agree[-1].all():
            node = int(np.argmin(agree[-1]))
            return node, int(first[node]), int(other[node])
    found = np.full(size, MISSING, np.int32)
    for number in range(len(levels))[::-1]:
        scopes_here = levels[number][first]
        found = np.where(agree[number], np.where(scopes_here == MISSING, MISSING, scopes_here + offsets[number]), found)
    return found.astype(np.int32)
