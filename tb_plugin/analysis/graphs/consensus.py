"""Scopes of graph nodes on which several captures agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.graphs.scopes import ARGS, INPUTS, KINDS, WORK_IN, concatenate, merge_equal_scopes
from tb_plugin.model.trace.graph_capture import Scopes
from tb_plugin.model.trace.schema import MISSING, EventKind

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]


class Tied(msgspec.Struct, frozen=True, eq=False):
    """Scopes of graph nodes, and the graphs for which captures contradict each other."""

    scopes: Scopes
    of: Mapping[int, Int32]
    """Maps each graph to the scopes of its matched nodes, starting from the first node (-1 = none)."""
    disagreeing: Mapping[int, tuple[int, int, int]]
    """Maps each graph to the first node whose scopes contradict each other, and to two of these scopes."""


def agreed_scopes(sizes: Mapping[int, int], starts: Mapping[int, Int64], scopes: Scopes, scope: Int32) -> Tied:
    """Returns the scopes of graph nodes on which all matches of a graph agree.

    ``sizes[g]`` is the number of nodes of graph g to match. ``scope`` is the scope of each launch, and
    ``starts[g]`` contains the index in ``scope`` where each match starts. All matches must agree on the operator of
    each node. Scopes that contradict each other in details, such as arguments, are reduced to the details on which
    they agree.
    """
    if all(len(at) == 1 for at in starts.values()):
        alone = {graph: scope[int(at[0]) : int(at[0]) + sizes[graph]] for graph, at in starts.items()}
        return Tied(scopes, alone, {})
    operators = (EventKind.OPERATOR,)
    levels = [
        merge_equal_scopes(scopes, KINDS, ARGS),
        merge_equal_scopes(scopes, KINDS),
        merge_equal_scopes(scopes, WORK_IN),
        merge_equal_scopes(scopes, operators, INPUTS),
        merge_equal_scopes(scopes, operators),
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
    """Returns the scope of each node.

    If scopes contradict each other, returns the first node with a contradiction and two of its scopes.
    """
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
