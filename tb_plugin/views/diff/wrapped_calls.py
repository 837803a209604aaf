"""Calls that one side wraps: what stands under a node on one side and, on the other, under a new call in the same node.

A new function around old operators (compiled code, a checkpoint, a module of modules) would make all of them gone and new.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tb_plugin.views.diff.node import Node

DEEPEST = 3
"""As many calls may be wrapped around each other."""

Key = tuple[str, str]


@dataclass(frozen=True)
class Side:
    """A call tree, and those of its nodes at one place that the other side does not have there."""

    nodes: Sequence[Node]
    below: Mapping[int, Sequence[int]]
    """Children of each node that has any."""
    unmatched: Sequence[int]

    def key(self, node: int) -> Key:
        """Returns what an inner call must share with a call of the other side: its name, of a module its class."""
        found = self.nodes[node]
        return found.base if found.kind == "module" else (found.kind, found.name)

    def inner(self, wrapper: int) -> Iterator[tuple[int, int]]:
        """Yields the calls in a wrapper and how deep they stand, directly nested ones first."""
        level = [wrapper]
        for depth in range(1, DEEPEST + 1):
            level = [child for node in level for child in self.below.get(node, ())]
            yield from ((node, depth) for node in level)


def wrapped(left: Side, right: Side) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """Returns wrappers of the left with the nodes of the right that each holds, and of the right with those of the left.

    Who holds most comes first, then names decide, so that swapping the sides swaps the results. A node is held once, and
    what is held holds nothing.
    """
    if not left.unmatched or not right.unmatched:
        return {}, {}
    sides = (left, right)
    pools = [_by_key(side) for side in sides]
    wrappers = []
    for own, side in enumerate(sides):
        for node in side.unmatched:
            outer = side.key(node)
            keys = [key for inner, _ in side.inner(node) if (key := side.key(inner)) in pools[1 - own] and key != outer]
            if keys:
                wrappers.append((-len(keys), side.nodes[node], node, own, keys))
    found: tuple[dict[int, list[int]], dict[int, list[int]]] = ({}, {})
    held: tuple[set[int], set[int]] = (set(), set())
    for _, _, node, own, keys in sorted(wrappers):
        if node in held[own]:
            continue
        taken = []
        for key in keys:
            pool = pools[1 - own][key]
            while pool and pool[0] in found[1 - own]:
                pool.popleft()
            if pool:
                taken.append(pool.popleft())
        if taken:
            found[own][node] = sorted(taken)
            held[1 - own].update(taken)
    return found


def _by_key(side: Side) -> defaultdict[Key, deque[int]]:
    found: defaultdict[Key, deque[int]] = defaultdict(deque)
    for node in side.unmatched:
        found[side.key(node)].append(node)
    return found
