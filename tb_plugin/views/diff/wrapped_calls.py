"""Matching of calls that one side wraps in new calls.

Examples of wrappers are compiled code, checkpoints and container modules. If the wrapped operators were not
matched, all wrapped operators would appear as removed and added.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from tb_plugin.views.diff.node import Node

# Maximum nesting depth of wrappers.
DEEPEST = 3

Key = tuple[str, str]


class Side(msgspec.Struct, frozen=True):
    """A call tree, and the sibling nodes that do not exist in the other call tree."""

    nodes: Sequence[Node]
    below: Mapping[int, Sequence[int]]
    unmatched: Sequence[int]

    def key(self, node: int) -> Key:
        """Returns the match key of a call: kind and name, or kind and class for a module."""
        found = self.nodes[node]
        return found.base if found.kind == "module" else (found.kind, found.name)

    def inner(self, wrapper: int) -> Iterator[tuple[int, int]]:
        """Yields the calls inside a wrapper with their depths, shallow calls first."""
        level = [wrapper]
        for depth in range(1, DEEPEST + 1):
            level = [child for node in level for child in self.below.get(node, ())]
            yield from ((node, depth) for node in level)


def nodes_in_wrappers(left: Side, right: Side) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """Returns the right nodes inside each left wrapper, and the left nodes inside each right wrapper.

    The wrapper with the most matches is matched first. Names decide ties, so swapping the sides swaps the results.
    Each node matches once. A matched node cannot be a wrapper.
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
    wrapped_nodes: tuple[set[int], set[int]] = (set(), set())
    for _, _, node, own, keys in sorted(wrappers):
        if node in wrapped_nodes[own]:
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
            wrapped_nodes[1 - own].update(taken)
    return found


def _by_key(side: Side) -> defaultdict[Key, deque[int]]:
    found: defaultdict[Key, deque[int]] = defaultdict(deque)
    for node in side.unmatched:
        found[side.key(node)].append(node)
    return found
