"""Matching of backward scopes to forward operators.

The file does not contain this relation. MegEngine processes the forward pass in reverse order, and opens a scope
``<operator>Backward`` for each operator with a gradient. So the scopes match forward operators of the same kind in
reverse order. If several operators match, the one whose tensors the scope reads is used.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence

import msgspec
import numpy as np

from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.model.trace.schema import MISSING

SUFFIX = "Backward"
_MAX_CANDIDATES = 64  # maximum number of forward operators of one kind whose tensors are compared


class Pass(msgspec.Struct, frozen=True, eq=False):
    """One backward pass, and the forward operators that may belong to it."""

    nodes: Sequence[int]  # scopes in order
    forward: Sequence[int]  # operators since the previous pass, in order


def forward_pairs(
    passes: Sequence[Pass], kind: Sequence[int], tensors: Sequence[frozenset[int]]
) -> list[tuple[int, int]]:
    """Returns pairs of backward scope and forward operator. ``kind``, ``tensors``: of each slice."""
    found = []
    for one in passes:
        of_kind: dict[int, list[int]] = defaultdict(list)
        for place, operator in enumerate(one.forward):
            of_kind[kind[operator]].append(place)
        before = len(one.forward)
        for node in one.nodes:
            places = of_kind[kind[node]]
            last = bisect_left(places, before)
            candidates = places[max(0, last - _MAX_CANDIDATES) : last][::-1]
            if not candidates:
                continue
            read = tensors[node]
            chosen = next((place for place in candidates if tensors[one.forward[place]] & read), candidates[0])
            found.append((node, one.forward[chosen]))
            before = chosen
    return found


def passes_of(lane: Int32, parent: Int32, begin: Int64, end: Int64, nodes: Int64, forward: Int64) -> list[Pass]:
    """Returns the backward passes. Scopes inside the same outer scope form one pass. All arrays are sorted by start."""
    if not len(nodes):
        return []
    key = np.where(parent[nodes] != MISSING, parent[nodes], -2 - lane[nodes])
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    place = first[inverse.ravel()]
    order = np.argsort(place, kind="stable")
    groups = np.split(nodes[order], np.flatnonzero(np.diff(place[order])) + 1)
    operators = {thread: forward[lane[forward] == thread] for thread in np.unique(lane[nodes]).tolist()}
    finished: dict[int, int] = {}
    passes: list[Pass] = []
    for own in groups:
        thread = int(lane[own[0]])
        mine = operators[thread]
        low, high = np.searchsorted(begin[mine], (finished.get(thread, -1), int(begin[own[0]])))
        passes.append(Pass(own.tolist(), mine[low:high].tolist()))
        finished[thread] = int(end[own[-1]])
    return passes
